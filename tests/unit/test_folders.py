"""Whole folders: what one on a disk does, where one is by its location, and what is refused between two kinds.

Those on HDFS: tests/integration/test_hdfs_savepoints.py.
"""

import pytest

from onceflow.checkpoint.folders import HdfsFolder, LocalFolder, folder_of
from onceflow.checkpoint.hdfs import HdfsStore
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.store import LocalStore
from onceflow.errors import ConfigurationError
from onceflow.operations.savepoints import restoring, resuming, writing
from onceflow.spark import places
from tests.unit import checkpoints
from tests.unit.advice import parts_of


class Unreached:
    """A way to HDFS that nobody goes."""


def on_hdfs(uri="hdfs://nn:8020/x"):
    return HdfsStore(Unreached(), uri)


def test_a_folder_is_that_of_its_store(tmp_path):
    """On a disk and on HDFS: with the store's place, and one beside it has its name between two texts."""
    local, there = folder_of(LocalStore(tmp_path / "x")), folder_of(on_hdfs())
    assert isinstance(local, LocalFolder)
    assert isinstance(there, HdfsFolder)
    assert (local.where, there.where) == (tmp_path / "x", "hdfs://nn:8020/x")
    assert (local.beside(".a-", "-b").where, there.beside(".a-", "-b").where) == (
        tmp_path / ".a-x-b",
        "hdfs://nn:8020/.a-x-b",
    )
    assert there.below("y/z").store.path() == "hdfs://nn:8020/x/y/z"


def test_a_savepoints_place_is_a_path_or_a_uri(tmp_path, monkeypatch):
    """A path as it is written, also a relative one; a file: URI; and what this version does not know is refused."""
    monkeypatch.chdir(tmp_path)
    assert places.folder_at("s").where == tmp_path / "s" == places.folder_at(tmp_path / "s").where
    assert places.folder_at(f"file://{tmp_path}/s").where == (tmp_path / "s").resolve()
    with pytest.raises(ConfigurationError, match="is refused"):
        places.folder_at("hdfs:///s")


def test_between_two_kinds_of_file_system_nothing_is_made(tmp_path, monkeypatch):
    """A savepoint of a checkpoint elsewhere, and a checkpoint of such a savepoint, are refused first of all."""
    monkeypatch.setattr("onceflow.spark.hadoop.store_at", on_hdfs)
    monkeypatch.setattr(HdfsFolder, "is_taken", lambda _: False)
    monkeypatch.setattr(HdfsFolder, "has", lambda *_: True)
    place, there = checkpoints.make(tmp_path / "c", 2), "hdfs://nn:8020/s"
    manifest = writing.create(place, tmp_path / "s").manifest
    new = Place.on(on_hdfs(), "hdfs://nn:8020/x", 1)
    for refuse in (
        lambda: writing.create(place, there),
        lambda: writing.create(new, tmp_path / "no"),
        lambda: writing.export(tmp_path / "s", there),
        lambda: writing.export(there, tmp_path / "no"),
        lambda: restoring.restore(tmp_path / "s", manifest, new),
        lambda: resuming.opened(there, tmp_path / "no").__enter__(),
        lambda: LocalFolder(tmp_path).take(folder_of(on_hdfs()), []),
        lambda: folder_of(on_hdfs()).copy(LocalFolder(tmp_path), []),
    ):
        with pytest.raises(ConfigurationError, match="are on two kinds of file system") as caught:
            refuse()
        parts_of(caught.value, ConfigurationError)
    assert {path.name for path in tmp_path.iterdir()} == {"c", "s"}
