"""The store on a real HDFS: a name has one winner, a file is whole, and what is answered is there after a crash."""

import contextlib
import json
import subprocess
import sys
import threading
import time

import pytest

from onceflow.checkpoint.hdfs import HdfsStore
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.lines import Lines
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import CheckpointCorruptError, CheckpointStoreError
from onceflow.spark.places import place_at
from onceflow.twophase.messages import Appended, Superseded, Unanswered, Voided
from onceflow.twophase.records import Decide, Void
from tests.integration.harness import wait_until
from tests.integration.hdfs import MiniHdfs

pytestmark = [pytest.mark.spark, pytest.mark.faults]

JOB = "0123456789ab"


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory):
    made = MiniHdfs(tmp_path_factory.mktemp("hdfs") / "files")
    try:
        yield made.start()
    finally:
        made.kill()


@pytest.fixture
def store(hdfs):
    made = hdfs.store()
    made.make()
    return made


class Meddled:
    """The way to HDFS, with something that happens around the rename; what it does otherwise is HDFS's own."""

    def __init__(self, store, before=lambda: None, after=lambda: None):
        self._files, self._before, self._after = store.files, before, after

    def __getattr__(self, name):
        return getattr(self._files, name)

    def rename(self, path, to, *, over):
        self._before()
        self._files.rename(path, to, over=over)
        self._after()


def meddled(store, **how):
    return HdfsStore(Meddled(store, **how), store.path())


def lost():
    raise OSError("the answer is lost")


def test_the_contract_of_a_store(store):
    """Each method of the contract does on HDFS what it says, in one walk through all of them."""
    below = store.below("a").below("b")
    assert (below.exists(), below.names(), below.count("*")) == (False, [], 0)
    with below.untouched():
        below.make()
        assert below.exists()
    assert not store.below("a").exists()
    below.make()
    below.create("x", b"\0first\xff\n")
    with pytest.raises(FileExistsError):
        below.create("x", b"second")
    assert below.read("x") == b"\0first\xff\n"
    below.replace("x", b"third")
    below.put("y", b"fourth")
    below.append("lines", b"1\n")
    below.append("lines", b"2\n")
    assert (below.read("x"), below.read("y"), below.read("lines")) == (b"third", b"fourth", b"1\n2\n")
    assert below.contents(["lines", "nowhere", "x"]) == [b"1\n2\n", None, b"third"]
    below.rename("lines", "y")
    assert below.read("y") == b"1\n2\n"
    assert sorted(below.names()) == ["x", "y"]
    assert store.count("a/*/x") == 1
    below.sync()
    below.remove("x")
    below.remove("x")
    with pytest.raises(FileNotFoundError):
        below.read("x")
    with pytest.raises(CheckpointStoreError, match=below.path("y/z")):
        below.below("y").create("z", b"")
    store.below("nowhere").sync()


CREATES = """
import sys
from onceflow.spark.hadoop import store_at
store = store_at(sys.argv[1])
print("ready", flush=True)
for line in sys.stdin:
    try:
        store.create(line.strip(), sys.argv[2].encode() * 100)
        print("won", flush=True)
    except FileExistsError:
        print("lost", flush=True)
"""


@pytest.mark.parametrize("rounds", [10, pytest.param(1_000, marks=pytest.mark.timeout(900))])
def test_one_of_many_wins(store, rounds):
    """Of eight writers that create one name, threads of two processes, exactly one wins, and what it wrote is read."""
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


def test_a_writer_that_stalls_before_its_rename_stands_in_nobodys_way(store):
    """While one sleeps between its write and its rename another creates the name; the sleeper is told that it lost."""
    asleep, go_on, told = threading.Event(), threading.Event(), []

    def sleep():
        asleep.set()
        go_on.wait(60)

    def slow():
        try:
            meddled(store, before=sleep).create("x", b"slow")
        except FileExistsError as error:
            told.append(error)

    sleeper = threading.Thread(target=slow)
    sleeper.start()
    assert asleep.wait(60)
    assert store.names() == []
    store.create("x", b"quick")
    go_on.set()
    sleeper.join()
    assert len(told) == 1
    assert store.read("x") == b"quick"
    assert hidden(store) == []


def hidden(store):
    """What writers have left."""
    return [name for name in store.files.names(store.path()) if name.startswith(".")]


def test_an_answer_that_is_lost_is_found_by_the_files_number(store):
    """A rename is done and its answer lost: it has won. Where it was not done, nobody is told that it was."""
    meddled(store, after=lost).create("x", b"same")
    assert store.read("x") == b"same"
    with pytest.raises(FileExistsError):
        store.create("x", b"same")
    with pytest.raises(CheckpointStoreError, match="the answer is lost"):
        meddled(store, before=lost).create("y", b"never")
    assert store.names() == ["x"]
    assert hidden(store) == []


def test_what_a_dead_writer_left_is_cleared_when_it_is_old(store, monkeypatch):
    """A temporary file is no file of the store; a start removes it after an hour, and not before."""
    store.files.write(store.path(".tmp-x-dead"), b"half", sync=False)
    store.make()
    assert (store.names(), hidden(store)) == ([], [".tmp-x-dead"])
    now = time.time()
    monkeypatch.setattr("onceflow.checkpoint.hdfs.time.time", lambda: now + 3_700)
    store.make()
    assert hidden(store) == []


def test_lines_go_on_where_another_holds_the_file(store):
    """A writer that died holds the file of lines: one line is not kept, and those behind it are, with those before."""
    Lines(store, 10).add("before")
    held = store.files._context.create(
        store.files._path(store.path("current.jsonl")), store.files._append, store.files._options
    )
    lines = Lines(store, 10)
    with pytest.raises(CheckpointStoreError):
        lines.add("lost")
    lines.add("after")
    lines.add("and on")
    with contextlib.suppress(Exception):
        held.close()
    assert list(lines.read()) == ["before", "after", "and on"]


def decide(epoch, incarnation):
    return Decide(incarnation, epoch, f"offsets of {epoch}", ("alerts",), ())


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_decision_whose_answer_is_lost(store, when):
    """It is there and counts, or it is not there and a void takes its place: never both."""
    fails = False
    store.below("journal").make()
    torn = Journal(meddled(store.below("journal"), **{when: lambda: lost() if fails else None}))
    start = torn.start(JOB).incarnation
    fails = True
    answer = torn.append(decide(0, start))
    fails = False
    if when == "after":
        assert isinstance(answer, Appended)
    else:
        assert isinstance(answer, Unanswered)
        assert isinstance(torn.append_void(Void(start, 0)), Voided)
    kinds = [type(entry.record).__name__ for entry in Journal(store.below("journal")).read()]
    assert kinds == ["Start", "Decide" if when == "after" else "Void"]


def test_two_drivers_of_one_journal(store):
    """A second start ends the first one's power to append, also where both write at one moment."""
    store.below("journal").make()
    first, second = (Journal(store.below("journal")) for _ in range(2))
    one = first.start(JOB).incarnation
    assert isinstance(first.append(decide(0, one)), Appended)
    two = second.start(JOB).incarnation
    assert isinstance(first.append(decide(1, one)), Superseded)
    assert isinstance(second.append(decide(1, two)), Appended)


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
    checkpoint, text = SparkCheckpoint(store), 'v1\n{"batchTimestampMs":1}\n{"t":{"0":%d}}'
    assert (checkpoint.has_run(), checkpoint.newest_commit(), checkpoint.beginning()) == (False, None, None)
    for name, files in {
        "offsets": {"0": text % 5, "1": text % 7, "2": "", "3": text % 9},
        "commits": {"0": "v1\n{}", "1": 'v2\n{"stateUniqueIds":{"0":[["a"]]}}'},
        "sources/0": {"0": '\0v1\n{"t":{"0":2}}'},
        "state/0/1": {"1_a.changelog": "-"},
    }.items():
        folder = store
        for part in name.split("/"):
            folder = folder.below(part)
        folder.make()
        for file, content in files.items():
            folder.replace(file, content.encode())
    store.replace("metadata", b'{"id":"the-id"}')
    assert checkpoint.query_id() == "the-id"
    assert checkpoint.is_stateful()
    assert checkpoint.changelogs() == 1
    assert checkpoint.initial_offsets(0) == '{"t":{"0":2}}'
    assert checkpoint.beginning() == store.path("sources/0/0")
    checkpoint.refuse_incomplete(dict)
    checkpoint.mend(lambda: {2: text % 8})
    assert checkpoint.offsets(2) == text % 8
    checkpoint.sync(0)
    checkpoint.sync(2)
    checkpoint.take_back(2, [2, 3])
    assert checkpoint.newest_offsets() == 1
    checkpoint.set_start(2, text % 6)
    assert checkpoint.offsets(1) == text % 6
    assert checkpoint.restore_offsets(2, text % 8)
    assert not checkpoint.restore_offsets(2, text % 9)
    store.below("state").below("0").below("1").remove("1_a.changelog")
    store.below("state").below("0").remove("1")
    with pytest.raises(CheckpointCorruptError, match=store.path("state/0")):
        checkpoint.refuse_incomplete(dict)


def test_a_place_on_hdfs(hdfs):
    """A checkpoint's location with and without a slash at its end is one place, which is empty before a job."""
    uri = f"{hdfs.root}/checkpoints/new"
    place = place_at(f"{hdfs.root}//checkpoints/new/", 100)
    assert place.uri == uri
    assert place.is_empty()
    assert not place.has_undone()
    assert isinstance(place, Place)
    assert json.dumps(place.checkpoint.query_id()) == '""'
