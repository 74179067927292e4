"""Whole folders: what one on a disk does, and where one is by its location.

Those on HDFS: tests/integration/operations/test_hdfs_savepoints.py.
"""

import pytest

from onceflow.errors import ConfigurationError
from onceflow.spark import locations
from onceflow.storage.locations import is_elsewhere, local_path
from onceflow.storage.posix import Posix
from onceflow.storage.store import Store
from onceflow.storage.tree import folder_of


class Unreached:
    """A way to HDFS that nobody goes."""


def on_hdfs(uri="hdfs://nn:8020/x"):
    return Store(uri, Unreached())


def test_a_folder_is_that_of_its_store(tmp_path):
    """On a disk and on HDFS: with the store's place, and one beside it has its name between two texts."""
    local, there = folder_of(Store(tmp_path / "x")), folder_of(on_hdfs())
    assert isinstance(local.fs, Posix)
    assert isinstance(there.fs, Unreached)
    assert (local.where, there.where) == (tmp_path / "x", "hdfs://nn:8020/x")
    assert (local.beside(".a-", "-b").where, there.beside(".a-", "-b").where) == (
        tmp_path / ".a-x-b",
        "hdfs://nn:8020/.a-x-b",
    )
    assert there.below("y/z").store.path() == "hdfs://nn:8020/x/y/z"


def test_a_savepoints_place_is_a_path_or_a_uri(tmp_path, monkeypatch):
    """A path as it is written, also a relative one; a file: URI; and what this version does not know is refused."""
    monkeypatch.chdir(tmp_path)
    assert locations.folder_at("s").where == tmp_path / "s" == locations.folder_at(tmp_path / "s").where
    for uri in (f"file://{tmp_path}/s", f"file:{tmp_path}/s"):
        assert locations.folder_at(uri).where == (tmp_path / "s").resolve()
    with pytest.raises(ConfigurationError, match="is refused"):
        locations.folder_at("hdfs:///s")


@pytest.mark.parametrize("scheme", ["s3", "s3a", "hdfs", "s3n", "http"])
def test_a_location_with_a_login_is_refused_without_it(scheme):
    """As Hadoop's older forms had keys, also with a slash in them."""
    asked = local_path if scheme in ("s3n", "http") else is_elsewhere
    with pytest.raises(ConfigurationError, match="is refused") as refused:
        asked(f"{scheme}://id:PW/PW@bucket/folder")
    assert "PW" not in f"{refused.value} {vars(refused.value)}"
