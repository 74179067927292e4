"""The store in S3, on a server that speaks it: a name has one winner, whatever is lost on the way, or it is refused."""

import os
import threading
from datetime import timedelta

import pytest

from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.lines import Lines
from onceflow.errors import ConfigurationError
from onceflow.twophase.messages import Unanswered, Voided
from onceflow.twophase.records import Void
from tests.support import stores
from tests.support.s3 import Answer, a_server, between


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with a_server(tmp_path_factory.mktemp("s3")) as running:
        yield running


@pytest.fixture
def store(server):
    return server.store()


@pytest.fixture
def impatient(monkeypatch):
    """A client that gives up soon."""
    monkeypatch.setattr("onceflow.storage.s3._PATIENCE", timedelta(seconds=1))


def folder_of(store):
    return store.fs.key(store.folder)


def test_the_contract_of_a_store(store):
    """Each method of the contract does in S3 what it says, in one walk through all of them."""
    with store.below("a").below("b").untouched():
        store.below("a").below("b").make()
    assert not store.exists()
    assert store.names() == []
    stores.the_contract(store)


@pytest.mark.faults
def test_a_folder_of_more_names_than_one_answer_holds(store):
    """Of 1,100 files none is left out of a list, of their contents or of their number."""
    for number in range(1_100):
        store.put(f"{number:04d}", b"%d" % number)
    names = sorted(store.names())
    assert names == [f"{number:04d}" for number in range(1_100)]
    assert store.contents(names) == [b"%d" % number for number in range(1_100)]
    assert store.count("1*") == 100


@pytest.mark.faults
@pytest.mark.parametrize("rounds", [10, pytest.param(1_000, marks=pytest.mark.timeout(900))])
def test_one_of_many_wins(server, store, monkeypatch, rounds):
    """Of eight writers that create one name, threads of two processes, exactly one wins, and what it wrote is read."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    stores.one_of_many_wins(store, "onceflow.storage.s3", rounds)


@pytest.mark.faults
def test_a_writer_that_stalls_stands_in_nobodys_way(server, store):
    """While one's request sleeps another creates the name; the sleeper is told that it lost."""
    held = stores.Held()

    def meddle(request):
        held.sleep()
        return request.forward()

    with between(server, meddle) as slowly:
        stores.a_sleeper_has_lost(store, slowly.store(folder_of(store)), held)


def after_it_was_done(request):
    """The server does it, and its answer is lost."""
    request.forward()


def before_it_was_done(request):
    """The request is lost."""


def done_and_told_to_try_again(request):
    """The server does it, and says that it is busy: the client tries again by itself."""
    request.forward()
    return Answer(503, (), b"<Error><Code>SlowDown</Code></Error>")


@pytest.mark.faults
@pytest.mark.parametrize("lost", [after_it_was_done, done_and_told_to_try_again])
def test_an_answer_that_is_lost_is_found_by_the_objects_writer(server, store, impatient, lost):
    """An object is made and the answer lost: it has won. Where another made it, the same content, it has lost."""
    with between(server, lost) as badly:
        stores.a_lost_answer_is_found(store, badly.store(folder_of(store)))


@pytest.mark.faults
def test_a_request_that_is_lost_is_told_as_such(server, store, impatient):
    """Where nothing was made nobody is told that it was, and the error names the file."""
    with between(server, before_it_was_done) as badly:
        stores.a_lost_request_is_told(store, badly.store(folder_of(store)))


@pytest.mark.faults
@pytest.mark.parametrize("lost", [after_it_was_done, before_it_was_done])
def test_a_decision_whose_answer_is_lost(server, store, impatient, lost):
    """It is there and counts, or it is not there and a void takes its place: never both."""
    is_lost = threading.Event()
    with between(server, lambda request: lost(request) if is_lost.is_set() else request.forward()) as badly:
        torn = badly.store(folder_of(store))
        stores.a_decision_counts_or_is_voided(store, torn, is_lost, was_made=lost is after_it_was_done)


@pytest.mark.faults
def test_a_decision_that_arrives_behind_its_void(server, store, impatient):
    """A request that nobody waits for any more reaches the server when the void has its place: it is refused there."""
    late, asleep, go_on = [], threading.Event(), threading.Event()
    loses = False

    def meddle(request):
        if not loses:
            return request.forward()

        def arrive():
            go_on.wait(60)
            late.append(request.forward().status)

        threading.Thread(target=arrive).start()
        asleep.set()
        return None

    with between(server, meddle) as badly:
        torn = Journal(badly.store(folder_of(store)))
        start = torn.start(stores.JOB).incarnation
        loses = True
        assert isinstance(torn.append(stores.decide(0, start)), Unanswered)
        loses = False
        assert asleep.wait(60)
        assert isinstance(torn.append_void(Void(start, 0)), Voided)
        threads = [each for each in threading.enumerate() if each.name.endswith("(arrive)")]
        go_on.set()
        for each in threads:
            each.join()
    assert set(late) == {412}
    assert stores.kinds(store) == ["Start", "Void"]


@pytest.mark.faults
def test_two_drivers_of_one_journal(server, store):
    """A second start ends the first one's power to append, also where both write at one moment."""
    stores.a_second_start_ends_the_firsts_power(store, server.store(folder_of(store)))


def unconditional(request):
    """A service that does not know the condition, and says nothing."""
    return request.forward(without="if-none-match")


def unknown(request):
    """A service that says so."""
    return Answer(501, (), b"<Error><Code>NotImplemented</Code><Message>no such header</Message></Error>")


class LooksFirst:
    """A service that looks whether an object is there, and writes it then: one after the other it seems to be right."""

    def __init__(self):
        self._looked = threading.Semaphore(0)

    def __call__(self, request):
        if request.forward("HEAD").status == 200:
            return Answer(412, (), b"<Error><Code>PreconditionFailed</Code></Error>")
        self._looked.acquire(timeout=0.05)  # as long as it takes to receive what is to be written
        return request.forward(without="if-none-match")


@pytest.mark.faults
@pytest.mark.skipif("ONCEFLOW_TEST_S3" in os.environ, reason="it changes what was signed, which only moto takes")
@pytest.mark.parametrize(
    ("service", "why"),
    [
        (unconditional, "the second was not refused"),
        (unknown, "does not know a conditional create"),
        (LooksFirst(), "more than one was told yes"),
    ],
    ids=["passes over it", "does not know it", "looks, and then writes"],
)
def test_a_service_that_lets_two_create_is_refused(server, store, impatient, service, why):
    """Before anything is written it is found by trying, also where only those at one moment both win."""
    with between(server, service) as other, pytest.raises(ConfigurationError, match="is refused") as caught:
        other.store(folder_of(store)).make()
    assert why in caught.value.what
    assert not store.exists()


@pytest.mark.faults
def test_a_bucket_that_is_not_there_is_refused(server):
    """It is told as that, by name."""
    with pytest.raises(ConfigurationError, match="there is no such bucket"):
        server.store(bucket="nobody-made-this-one").make()


@pytest.mark.faults
def test_lines_are_kept_and_go_on(store):
    """Lines for people survive a start, and the oldest go."""
    for each in range(3):
        Lines(store, 2).add(f"line {each}")
    lines = Lines(store, 2)
    lines.add("line 3")
    assert list(lines.read())[-2:] == ["line 2", "line 3"]


@pytest.mark.faults
def test_sparks_files_there(store):
    """What a start looks for among Spark's files, and what it puts right of them, is so in S3."""
    stores.sparks_files(store, store.put)
