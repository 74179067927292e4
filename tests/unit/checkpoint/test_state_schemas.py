"""Schemas of state: a checkpoint that was moved or copied reads its own, or is refused; it never reads another's."""

import json
import os
from pathlib import Path

import pytest

from onceflow.checkpoint import state_schemas
from onceflow.checkpoint.place import Place
from onceflow.errors import CheckpointCorruptError
from onceflow.launch.ownership import require_complete
from onceflow.storage.store import Store
from tests.support import checkpoints
from tests.support.advice import parts_of

SCHEMA = "state/0/_stateSchema/default/0_a1b2"


def metadata(*folders):
    """What Spark keeps of an operator whose schema was written in these checkpoints, one after the other."""
    paths = [f"file:{folder}/{SCHEMA}" for folder in folders]
    store = {"storeName": "default", "numPartitions": 2, "stateSchemaFilePaths": paths}
    return "v2\n" + json.dumps({"operatorInfo": {"operatorId": 0}, "stateStoreInfo": [store]})


@pytest.fixture
def moved(tmp_path):
    """A checkpoint that was at another place when its schema was written."""
    place = checkpoints.make(tmp_path / "new", 2)
    checkpoints.write(tmp_path / "new" / SCHEMA, "a schema")
    checkpoints.write(tmp_path / "new/state/0/_metadata/v2/0", metadata(tmp_path / "old"))
    checkpoints.write(tmp_path / "new/state/0/_metadata/v2/.0.crc", "of what is there")
    return place


def named(folder, version=0):
    """The schemas that the checkpoint's operator names."""
    return state_schemas.paths_in((folder / f"state/0/_metadata/v2/{version}").read_text())


def test_a_moved_checkpoint_names_its_own_schemas(moved, tmp_path):
    """Also one that was moved twice; the checksum of what was there goes, since Spark would refuse the new file."""
    checkpoints.write(tmp_path / "new/state/0/_metadata/v2/1", metadata(tmp_path / "older", tmp_path / "old"))
    require_complete(moved, whatever_is_undone=True)
    state_schemas.bring_home(Store(tmp_path / "new"))
    assert named(tmp_path / "new") == [f"file:{tmp_path}/new/{SCHEMA}"]
    assert named(tmp_path / "new", 1) == [f"file:{tmp_path}/new/{SCHEMA}"] * 2
    assert not list((tmp_path / "new/state/0/_metadata/v2").glob(".*.crc"))


def test_a_savepoint_that_shares_the_file_keeps_it(moved, tmp_path):
    """A savepoint's files are second names of the checkpoint's: what is put right gets a file of its own."""
    path = tmp_path / "new/state/0/_metadata/v2/0"
    os.link(path, tmp_path / "kept")
    before = path.read_bytes()
    state_schemas.bring_home(Store(tmp_path / "new"))
    assert (tmp_path / "kept").read_bytes() == before != path.read_bytes()


def test_a_checkpoint_in_its_place_is_left_alone(tmp_path):
    """Nothing is written where all paths are its own, and a torn file, or one of another kind, is Spark's business."""
    folder = tmp_path / "here, 100% so"
    checkpoints.write(folder / "state/0/_metadata/v2/0", metadata(folder))
    checkpoints.write(folder / "state/0/_metadata/v2/1", "")
    checkpoints.write(folder / "state/1/_metadata/v2/0", "v2\n[]")
    before = {path: path.stat().st_ino for path in folder.rglob("*")}
    state_schemas.require_schemas(Store(folder))
    state_schemas.bring_home(Store(folder))
    assert {path: path.stat().st_ino for path in folder.rglob("*")} == before


@pytest.mark.parametrize("there", ["gone", "still there"])
def test_a_schema_that_did_not_come_along_is_told_by_name(moved, tmp_path, there):
    """Whether the other place still has it or not: it may be gone tomorrow. The copied file leads on."""
    if there == "still there":
        checkpoints.write(tmp_path / "old" / SCHEMA, "a schema")
    (tmp_path / "new" / SCHEMA).unlink()
    with pytest.raises(CheckpointCorruptError) as raised:
        require_complete(moved, whatever_is_undone=True)
    error = parts_of(raised.value, CheckpointCorruptError)
    assert str(tmp_path / "new" / SCHEMA) in error.what
    assert str(tmp_path / "old") in error.what
    checkpoints.write(tmp_path / "new" / SCHEMA, "a schema")
    require_complete(Place.at(moved.checkpoint.folder, retain=1), whatever_is_undone=True)


def test_where_a_schema_is_inside_follows_from_the_end_of_its_path():
    """Whatever folders a checkpoint lies in."""
    assert state_schemas.inside(f"file:/data/state/0/_stateSchema/x/{SCHEMA}") == SCHEMA
    assert state_schemas.inside(f"file:/data/state/of/c/{SCHEMA}") == SCHEMA
    assert state_schemas.inside("file:/elsewhere") == "file:/elsewhere"
    told = state_schemas.moved(metadata("/old/state/of/c"), Path("/new"))
    assert state_schemas.paths_in(told) == [f"file:/new/{SCHEMA}"]
