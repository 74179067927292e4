"""The store on a real HDFS: a name has one winner, a file is whole, and what is answered is there after a crash."""

import contextlib
import copy
import functools
import json
import threading
import time

import pytest

from onceflow.checkpoint.lines import Lines
from onceflow.checkpoint.place import Place
from onceflow.errors import CheckpointStoreError
from onceflow.spark.locations import place_at
from onceflow.storage.store import Store
from tests.support import stores
from tests.support.harness import wait_until
from tests.support.hdfs import MiniHdfs

pytestmark = [pytest.mark.spark, pytest.mark.faults]


@pytest.fixture
def store(hdfs):
    made = hdfs.store()
    made.make()
    return made


def meddled(store, before=lambda: None, after=lambda: None):
    """HDFS, with something that happens around the rename; what it does otherwise is HDFS's own."""
    fs = copy.copy(store.fs)

    def name(path, to, *, over):
        before()
        store.fs._name(path, to, over=over)
        after()

    fs._name = name
    return Store(store.folder, fs)


def lost():
    raise OSError("the answer is lost")


def test_the_contract_of_a_store(store):
    """Each method of the contract does on HDFS what it says, in one walk through all of them."""
    below = store.below("a").below("b")
    with below.untouched():
        below.make()
        assert below.exists()
    stores.the_contract(store)
    with pytest.raises(CheckpointStoreError, match=below.path("y/z")):
        below.below("y").create("z", b"")


@pytest.mark.parametrize("rounds", [10, pytest.param(1_000, marks=pytest.mark.timeout(900))])
def test_one_of_many_wins(store, rounds):
    """Of eight writers that create one name, threads of two processes, exactly one wins, and what it wrote is read."""
    stores.one_of_many_wins(store, "onceflow.spark.hadoop", rounds)


def test_a_writer_that_stalls_before_its_rename_stands_in_nobodys_way(store):
    """While one sleeps between its write and its rename another creates the name; the sleeper is told that it lost."""
    held = stores.Held()
    stores.a_sleeper_has_lost(store, meddled(store, before=held.sleep), held)
    assert hidden(store) == []


def hidden(store):
    """What writers have left."""
    return [name for name in store.fs.names(store.path()) if name.startswith(".")]


def test_an_answer_that_is_lost_is_found_by_the_files_number(store):
    """A rename is done and its answer lost: it has won. Where another made the file, the same content, it has lost."""
    stores.a_lost_answer_is_found(store, meddled(store, after=lost))
    assert hidden(store) == []


def test_a_request_that_is_lost_is_told_as_such(store):
    """Where the rename was not done nobody is told that it was, and nothing is left of what was written beside."""
    error = stores.a_lost_request_is_told(store, meddled(store, before=lost))
    assert "the answer is lost" in str(error)
    assert hidden(store) == []


def test_what_a_dead_writer_left_is_cleared_when_it_is_old(store, monkeypatch):
    """A temporary file is no file of the store; a start removes it after an hour, and not before."""
    store.fs._make_file(store.path(".tmp-x-dead"), b"half", sync=False)
    store.make()
    assert (store.names(), hidden(store)) == ([], [".tmp-x-dead"])
    now = time.time()
    monkeypatch.setattr("onceflow.storage.hdfs.time.time", lambda: now + 3_700)
    store.make()
    assert hidden(store) == []


def test_lines_go_on_where_another_holds_the_file(store):
    """A writer that died holds the file of lines: one line is not kept, and those behind it are, with those before."""
    Lines(store, 10).add("before")
    held = store.fs._context.create(store.fs._path(store.path("current.jsonl")), store.fs._append, store.fs._options)
    lines = Lines(store, 10)
    with pytest.raises(CheckpointStoreError):
        lines.add("lost")
    lines.add("after")
    lines.add("and on")
    with contextlib.suppress(Exception):
        held.close()
    assert list(lines.read()) == ["before", "after", "and on"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_decision_whose_answer_is_lost(store, when):
    """It is there and counts, or it is not there and a void takes its place: never both."""
    is_lost, journal = threading.Event(), store.below("journal")
    journal.make()
    torn = meddled(journal, **{when: lambda: lost() if is_lost.is_set() else None})
    stores.a_decision_counts_or_is_voided(journal, torn, is_lost, was_made=when == "after")


def test_two_drivers_of_one_journal(store):
    """A second start ends the first one's power to append, also where both write at one moment."""
    store.below("journal").make()
    stores.a_second_start_ends_the_firsts_power(store.below("journal"), store.below("journal"))


def test_what_was_answered_is_there_when_hdfs_was_killed(tmp_path):
    """NameNode and DataNodes are killed and come back: each file whose creation was answered is there, whole."""
    hdfs = MiniHdfs(tmp_path / "hdfs").start()
    try:
        store = hdfs.store()
        store.make()
        for number in range(10):
            store.create(str(number), bytes([number]) * 1_000)
        hdfs.kill()
        with pytest.raises(CheckpointStoreError, match=store.path("late")):
            store.create("late", b"")
        hdfs.start()
        wait_until(lambda: _is_back(store), what="HDFS out of safe mode")
        assert [store.read(str(number)) for number in range(10)] == [bytes([n]) * 1_000 for n in range(10)]
    finally:
        hdfs.kill()


def _is_back(store):
    with contextlib.suppress(CheckpointStoreError):
        store.replace("back", b"")
        return True
    return False


def test_sparks_files_there(store):
    """What a start looks for among Spark's files, and what it puts right of them, is so on HDFS."""

    def write(path, content):
        *folders, name = path.split("/")
        folder = functools.reduce(lambda above, part: above.below(part), folders, store)
        folder.make()
        folder.replace(name, content)

    stores.sparks_files(store, write)


def test_a_place_on_hdfs(hdfs):
    """A checkpoint's location with and without a slash at its end is one place, which is empty before a job."""
    uri = f"{hdfs.root}/checkpoints/new"
    place = place_at(f"{hdfs.root}//checkpoints/new/", 100)
    assert place.uri == uri
    assert place.is_empty()
    assert not place.has_undone()
    assert isinstance(place, Place)
    assert json.dumps(place.checkpoint.query_id()) == '""'
