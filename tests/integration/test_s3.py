"""The store in S3, on a server that speaks it: a name has one winner, whatever is lost on the way, or it is refused."""

import contextlib
import os
import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.lines import Lines
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import CheckpointCorruptError, CheckpointStoreError, ConfigurationError
from onceflow.twophase.messages import Appended, Superseded, Unanswered, Voided
from onceflow.twophase.records import Decide, Void
from tests.integration.s3 import Answer, a_server, between

JOB = "0123456789ab"


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
    monkeypatch.setattr("onceflow.checkpoint.s3._PATIENCE", timedelta(seconds=1))


def folder_of(store):
    return store._folder


def test_the_contract_of_a_store(store):
    """Each method of the contract does in S3 what it says, in one walk through all of them."""
    below = store.below("a").below("b")
    assert (below.exists(), below.names(), below.count("*")) == (False, [], 0)
    with below.untouched():
        below.make()
    assert not store.exists()
    assert store.names() == []
    below.create("x", b"\0first\xff\n")
    with pytest.raises(FileExistsError):
        below.create("x", b"\0first\xff\n")
    assert below.read("x") == b"\0first\xff\n"
    assert store.exists()
    below.replace("x", b"third")
    with pytest.raises(FileExistsError):
        below.create("x", b"fifth")
    below.put("y", b"fourth")
    below.append("lines", b"1\n")
    below.append("lines", b"2\n")
    assert (below.read("x"), below.read("y"), below.read("lines")) == (b"third", b"fourth", b"1\n2\n")
    assert below.contents(["lines", "nowhere", "x"]) == [b"1\n2\n", None, b"third"]
    below.rename("lines", "y")
    assert below.read("y") == b"1\n2\n"
    assert sorted(below.names()) == ["x", "y"]
    assert store.names() == ["a"]
    assert store.count("a/*/x") == 1
    below.sync()
    below.sync("x")
    below.remove("x")
    below.remove("x")
    with pytest.raises(FileNotFoundError):
        below.read("x")
    below.create("x", b"again")


@pytest.mark.faults
def test_a_folder_of_more_names_than_one_answer_holds(store):
    """Of 1,100 files none is left out of a list, of their contents or of their number."""
    for number in range(1_100):
        store.put(f"{number:04d}", b"%d" % number)
    names = sorted(store.names())
    assert names == [f"{number:04d}" for number in range(1_100)]
    assert store.contents(names) == [b"%d" % number for number in range(1_100)]
    assert store.count("1*") == 100


CREATES = """
import sys
from onceflow.checkpoint.s3 import store_at
store = store_at(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    try:
        store.create(line.strip(), sys.argv[2].encode() * 100)
        print("won", flush=True)
    except FileExistsError:
        print("lost", flush=True)
"""


@pytest.mark.faults
@pytest.mark.parametrize("rounds", [10, pytest.param(1_000, marks=pytest.mark.timeout(900))])
def test_one_of_many_wins(server, store, monkeypatch, rounds):
    """Of eight writers that create one name, threads of two processes, exactly one wins, and what it wrote is read."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    other = subprocess.Popen(
        [sys.executable, "-c", CREATES, store.path(), "H"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "ready\n"
    try:
        for number in range(rounds):
            won, gate = [], threading.Barrier(8)

            def contend(who, name=str(number), won=won, gate=gate):
                gate.wait()
                if who == b"H":
                    other.stdin.write(f"{name}\n")
                    other.stdin.flush()
                    if other.stdout.readline() == "won\n":
                        won.append(who * 100)
                    return
                with contextlib.suppress(FileExistsError):
                    store.create(name, who * 100)
                    won.append(who * 100)

            threads = [threading.Thread(target=contend, args=(bytes([65 + n]),)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert won == [store.read(str(number))]
        assert len(store.names()) == rounds
    finally:
        other.stdin.close()
        other.wait()


class Held:
    """A request that sleeps on its way until it is let go."""

    def __init__(self):
        self.asleep, self.go_on = threading.Event(), threading.Event()

    def __call__(self, request):
        self.asleep.set()
        self.go_on.wait(60)
        return request.forward()


@pytest.mark.faults
def test_a_writer_that_stalls_stands_in_nobodys_way(server, store):
    """While one's request sleeps another creates the name; the sleeper is told that it lost."""
    held, told = Held(), []
    with between(server, held) as slowly:

        def slow():
            try:
                slowly.store(folder_of(store)).create("x", b"slow")
            except FileExistsError as error:
                told.append(error)

        sleeper = threading.Thread(target=slow)
        sleeper.start()
        assert held.asleep.wait(60)
        assert store.names() == []
        store.create("x", b"quick")
        held.go_on.set()
        sleeper.join()
    assert len(told) == 1
    assert store.read("x") == b"quick"


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
        torn = badly.store(folder_of(store))
        torn.create("x", b"same")
        assert store.read("x") == b"same"
        with pytest.raises(FileExistsError):
            torn.create("x", b"same")


@pytest.mark.faults
def test_a_request_that_is_lost_is_told_as_such(server, store, impatient):
    """Where nothing was made nobody is told that it was, and the error names the file."""
    with between(server, before_it_was_done) as badly:
        torn = badly.store(folder_of(store))
        with pytest.raises(CheckpointStoreError, match=store.path("y")):
            torn.create("y", b"never")
    assert store.names() == []


def decide(epoch, incarnation):
    return Decide(incarnation, epoch, f"offsets of {epoch}", ("alerts",), ())


@pytest.mark.faults
@pytest.mark.parametrize("lost", [after_it_was_done, before_it_was_done])
def test_a_decision_whose_answer_is_lost(server, store, impatient, lost):
    """It is there and counts, or it is not there and a void takes its place: never both."""
    fails = False
    with between(server, lambda request: lost(request) if fails else request.forward()) as badly:
        torn = Journal(badly.store(folder_of(store)))
        start = torn.start(JOB).incarnation
        fails = True
        answer = torn.append(decide(0, start))
        fails = False
        if lost is after_it_was_done:
            assert isinstance(answer, Appended)
        else:
            assert isinstance(answer, Unanswered)
            assert isinstance(torn.append_void(Void(start, 0)), Voided)
    kinds = [type(entry.record).__name__ for entry in Journal(store).read()]
    assert kinds == ["Start", "Decide" if lost is after_it_was_done else "Void"]


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
        start = torn.start(JOB).incarnation
        loses = True
        assert isinstance(torn.append(decide(0, start)), Unanswered)
        loses = False
        assert asleep.wait(60)
        assert isinstance(torn.append_void(Void(start, 0)), Voided)
        threads = [each for each in threading.enumerate() if each.name.endswith("(arrive)")]
        go_on.set()
        for each in threads:
            each.join()
    assert set(late) == {412}
    assert [type(entry.record).__name__ for entry in Journal(store).read()] == ["Start", "Void"]


@pytest.mark.faults
def test_two_drivers_of_one_journal(server, store):
    """A second start ends the first one's power to append, also where both write at one moment."""
    first, second = Journal(store), Journal(server.store(folder_of(store)))
    one = first.start(JOB).incarnation
    assert isinstance(first.append(decide(0, one)), Appended)
    two = second.start(JOB).incarnation
    assert isinstance(first.append(decide(1, one)), Superseded)
    assert isinstance(second.append(decide(1, two)), Appended)


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
    checkpoint, text = SparkCheckpoint(store), 'v1\n{"batchTimestampMs":1}\n{"t":{"0":%d}}'
    assert (checkpoint.has_run(), checkpoint.newest_commit(), checkpoint.beginning()) == (False, None, None)
    for path, content in {
        "offsets/0": text % 5,
        "offsets/1": text % 7,
        "offsets/2": "",
        "offsets/3": text % 9,
        "commits/0": "v1\n{}",
        "commits/1": 'v2\n{"stateUniqueIds":{"0":[["a"]]}}',
        "sources/0/0": '\0v1\n{"t":{"0":2}}',
        "state/0/1/1_a.changelog": "-",
        "metadata": '{"id":"the-id"}',
    }.items():
        store.put(path, content.encode())
    assert checkpoint.query_id() == "the-id"
    assert checkpoint.is_stateful()
    assert checkpoint.changelogs() == 1
    assert checkpoint.initial_offsets(0) == '{"t":{"0":2}}'
    assert checkpoint.beginning() == store.path("sources/0/0")
    checkpoint.refuse_incomplete(dict)
    checkpoint.mend(lambda: {2: text % 8})
    assert checkpoint.offsets(2) == text % 8
    checkpoint.take_back(2, [2, 3])
    assert checkpoint.newest_offsets() == 1
    checkpoint.set_start(2, text % 6)
    assert checkpoint.offsets(1) == text % 6
    assert checkpoint.restore_offsets(2, text % 8)
    assert not checkpoint.restore_offsets(2, text % 9)
    store.below("state").below("0").below("1").remove("1_a.changelog")
    with pytest.raises(CheckpointCorruptError, match=store.path("state/0")):
        checkpoint.refuse_incomplete(dict)
