"""What is proven of a store wherever it is: each function is one fact, which the tests of each have by its name.

Must not know: which store it is, and how one lets an answer be lost there or a writer sleep.
"""

import contextlib
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import CheckpointCorruptError, CheckpointStoreError
from onceflow.storage.store import Store
from onceflow.storage.tree import folder_of
from onceflow.twophase.messages import Appended, Superseded, Unanswered, Voided
from onceflow.twophase.records import Decide, Void

JOB = "0123456789ab"


def decide(epoch: int, incarnation: int) -> Decide:
    """A decision of an epoch, of one sink and without parts."""
    return Decide(incarnation, epoch, f"offsets of {epoch}", ("alerts",), ())


def kinds(store: Store) -> list[str]:
    """What the journal in a folder holds, oldest first."""
    return [type(entry.record).__name__ for entry in Journal(store).read()]


def the_contract(store: Store) -> None:
    """One walk through all methods of the contract, in a folder in which nothing is."""
    below = store.below("a").below("b")
    assert (below.exists(), below.names(), below.count("*")) == (False, [], 0)
    with below.untouched():
        below.make()
    assert not store.below("a").exists()
    with below.untouched():
        store.below("a").make()
    assert not store.below("a").exists()
    below.make()
    below.create("x", b"\0first\xff\n")
    for other in (b"\0first\xff\n", b"second"):
        with pytest.raises(FileExistsError):
            below.create("x", other)
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
    store.below("nowhere").sync()


CREATES = """
import importlib, sys
store = importlib.import_module(sys.argv[1]).store_at(sys.argv[2])
print("ready", flush=True)
for line in sys.stdin:
    try:
        store.create(line.strip(), sys.argv[3].encode() * 100)
        print("won", flush=True)
    except FileExistsError:
        print("lost", flush=True)
"""


def one_of_many_wins(store: Store, module: str, rounds: int) -> None:
    """Of eight writers that create one name, threads of two processes, exactly one wins, and what it wrote is read.

    The other process has the store by ``store_at`` of a module, which gets the folder's location.
    """
    other = subprocess.Popen(
        [sys.executable, "-c", CREATES, module, str(store.path()), "H"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    to_it, from_it = other.stdin, other.stdout
    assert from_it.readline() == "ready\n"
    try:
        for number in range(rounds):
            won: list[bytes] = []
            gate = threading.Barrier(8)

            def contend(who: bytes, name: str = str(number), won: list[bytes] = won, gate: threading.Barrier = gate):
                gate.wait()
                if who == b"H":
                    to_it.write(f"{name}\n")
                    to_it.flush()
                    if from_it.readline() == "won\n":
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
        to_it.close()
        other.wait()


class Held:
    """Somebody who sleeps on the way until he is let go."""

    def __init__(self) -> None:
        self.asleep, self.go_on = threading.Event(), threading.Event()

    def sleep(self) -> None:
        """Until then, or for a minute."""
        self.asleep.set()
        self.go_on.wait(60)


def a_sleeper_has_lost(store: Store, slow: Store, held: Held) -> None:
    """While one that creates a name is held another creates it; the sleeper is told that it lost."""
    told = []

    def create() -> None:
        try:
            slow.create("x", b"slow")
        except FileExistsError as error:
            told.append(error)

    sleeper = threading.Thread(target=create)
    sleeper.start()
    assert held.asleep.wait(60)
    assert store.names() == []
    store.create("x", b"quick")
    held.go_on.set()
    sleeper.join()
    assert len(told) == 1
    assert store.read("x") == b"quick"


def a_lost_answer_is_found(store: Store, torn: Store) -> None:
    """A file is made and the answer lost: it has won. Where another made it, the same content, it has lost."""
    torn.create("x", b"same")
    assert store.read("x") == b"same"
    for each in (torn, store):
        with pytest.raises(FileExistsError):
            each.create("x", b"same")
    assert store.names() == ["x"]


def a_lost_request_is_told(store: Store, torn: Store) -> CheckpointStoreError:
    """Where nothing was made nobody is told that it was; the error, which names the file."""
    with pytest.raises(CheckpointStoreError, match=str(store.path("y"))) as caught:
        torn.create("y", b"never")
    assert store.names() == []
    return caught.value


def a_decision_counts_or_is_voided(store: Store, torn: Store, is_lost: threading.Event, *, was_made: bool) -> None:
    """A decision whose answer is lost is there and counts, or is not there and a void takes its place: never both."""
    journal = Journal(torn)
    start = journal.start(JOB).incarnation
    is_lost.set()
    answer = journal.append(decide(0, start))
    is_lost.clear()
    if was_made:
        assert isinstance(answer, Appended)
    else:
        assert isinstance(answer, Unanswered)
        assert isinstance(journal.append_void(Void(start, 0)), Voided)
    assert kinds(store) == ["Start", "Decide" if was_made else "Void"]


def a_second_start_ends_the_firsts_power(store: Store, other: Store) -> None:
    """Two drivers of one journal, each with a store of its own: the older one cannot append any more."""
    first, second = Journal(store), Journal(other)
    one = first.start(JOB).incarnation
    assert isinstance(first.append(decide(0, one)), Appended)
    two = second.start(JOB).incarnation
    assert isinstance(first.append(decide(1, one)), Superseded)
    assert isinstance(second.append(decide(1, two)), Appended)


def sparks_files(store: Store, write: Callable[[str, bytes], None]) -> None:
    """What a start looks for among Spark's files and puts right of them; ``write(path, content)`` makes one."""
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
        write(path, content.encode())
    assert checkpoint.query_id() == "the-id"
    assert checkpoint.is_stateful()
    assert checkpoint.changelogs() == 1
    assert checkpoint.initial_offsets(0) == '{"t":{"0":2}}'
    assert checkpoint.beginning() == store.path("sources/0/0")
    checkpoint.require_complete(dict)
    checkpoint.mend(lambda: {2: text % 8})
    assert checkpoint.offsets(2) == text % 8
    checkpoint.sync(0)
    checkpoint.sync(2)
    checkpoint.take_back(2, [2, 3])
    assert checkpoint.newest_offsets() == 1
    checkpoint.set_start(2, text % 6)
    assert checkpoint.offsets(1) == text % 6
    for end in (8, 8, 9):  # missing, the same, another driver's
        checkpoint.put_right(2, text % end)
        assert checkpoint.offsets(2) == text % end
    folder_of(store).remove_all("state/0/1")
    with pytest.raises(CheckpointCorruptError, match=str(store.path("state/0"))):
        checkpoint.require_complete(dict)
