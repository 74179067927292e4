"""What is proven of a store on HDFS and in S3 holds on a disk and in a bucket in memory as well.

The same on real services: tests/integration/test_hdfs.py and test_s3.py.
"""

import functools
import os
import threading
from pathlib import Path

import obstore
import pytest
from obstore.exceptions import GenericError
from obstore.store import MemoryStore

from onceflow.storage.objects import Bucket
from onceflow.storage.posix import Posix
from onceflow.storage.store import Store
from tests.support import stores


def store_at(location):
    """One on a disk, for the other process."""
    return Store(Path(location))


@pytest.fixture
def disk(tmp_path):
    made = Store(tmp_path / "store")
    made.make()
    return made


@pytest.fixture
def bucket():
    return Store("s3a://bucket/store", Bucket(MemoryStore(), "s3a://bucket"))


@pytest.fixture(params=["disk", "bucket"])
def store(request):
    """A folder in which nothing is, on a disk and in a bucket."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def meddled(monkeypatch):
    """The same folder, with something that happens around the one step by which a file gets a name that is free."""
    here = threading.local()

    def between(step):
        def meddles(*given, **named):
            if named.get("mode", "create") != "create" or not hasattr(here, "around"):
                return step(*given, **named)
            here.around[0]()
            done = step(*given, **named)
            here.around[1]()
            return done

        return meddles

    monkeypatch.setattr(os, "link", between(os.link))
    monkeypatch.setattr(obstore, "put", between(obstore.put))

    def of(store, before=lambda: None, after=lambda: None):
        class Meddled(type(store.fs)):
            def __init__(self):
                vars(self).update(vars(store.fs))

            def put(self, *given, **named):
                here.around = before, after
                try:
                    super().put(*given, **named)
                finally:
                    del here.around

        return Store(store.folder, Meddled())

    return of


def lost(store):
    """What a file system raises where its answer is lost."""
    raise OSError("the answer is lost") if isinstance(store.fs, Posix) else GenericError("the answer is lost")


def test_the_contract_of_a_store(store):
    """Each method of the contract does what it says, in one walk through all of them."""
    stores.the_contract(store)


@pytest.mark.parametrize("rounds", [10])
def test_one_of_many_wins(disk, rounds):
    """Of eight writers that create one name, threads of two processes, exactly one wins, and what it wrote is read."""
    stores.one_of_many_wins(disk, __name__, rounds)


def test_a_writer_that_stalls_stands_in_nobodys_way(store, meddled):
    """While one sleeps before its file has the name another creates it; the sleeper is told that it lost."""
    held = stores.Held()
    stores.a_sleeper_has_lost(store, meddled(store, before=held.sleep), held)


def test_an_answer_that_is_lost_is_found_by_the_objects_writer(bucket, meddled):
    """An object is made and the answer lost: it has won. Where another made it, the same content, it has lost.

    On a disk the journal alone finds it, as below.
    """
    stores.a_lost_answer_is_found(bucket, meddled(bucket, after=lambda: lost(bucket)))


def test_a_request_that_is_lost_is_told_as_such(store, meddled):
    """Where nothing was made nobody is told that it was, and the error names the file."""
    error = stores.a_lost_request_is_told(store, meddled(store, before=lambda: lost(store)))
    assert "the answer is lost" in str(error)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_decision_whose_answer_is_lost(store, meddled, when):
    """It is there and counts, or it is not there and a void takes its place: never both."""
    is_lost = threading.Event()
    torn = meddled(store, **{when: lambda: lost(store) if is_lost.is_set() else None})
    stores.a_decision_counts_or_is_voided(store, torn, is_lost, was_made=when == "after")


def test_two_drivers_of_one_journal(store):
    """A second start ends the first one's power to append."""
    stores.a_second_start_ends_the_firsts_power(store, Store(store.folder, store.fs))


def test_sparks_files_there(store):
    """What a start looks for among Spark's files, and what it puts right of them."""

    def write(path, content):
        *folders, name = path.split("/")
        folder = functools.reduce(lambda above, part: above.below(part), folders, store)
        folder.make()
        folder.replace(name, content)

    stores.sparks_files(store, write)
