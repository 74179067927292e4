"""What somebody else has made and a command is given, and what a command leaves for others to see."""

import pytest

from onceflow.checkpoint import envelope
from onceflow.cli.shell import _history
from onceflow.errors import CheckpointCorruptError
from onceflow.operations.savepoints import reading, writing
from onceflow.operations.savepoints.manifest import FORMAT, NAME
from tests.unit import checkpoints


@pytest.mark.parametrize("name", ["../../victim", "/victim", "a/../../../victim", "a//b", "./a", "", "a/\0", "a\\b"])
def test_a_savepoint_that_names_files_outside_of_it_is_refused(name, tmp_path):
    """Its seal is no signature: whoever has made it could have other files deleted by it."""
    victim = tmp_path / "victim"
    victim.write_text("somebody's")
    path = tmp_path / "of" / "savepoint"
    place = checkpoints.make(tmp_path / "checkpoint", 2)
    writing.create(place, path, "shop")
    body = envelope.unseal((path / NAME).read_bytes(), FORMAT)
    body["files"][name] = next(iter(body["files"].values()))
    (path / NAME).write_bytes(envelope.seal({"format": FORMAT} | body))
    before = sorted(path.rglob("*"))
    for command in (reading.read, reading.verify, writing.dispose):
        with pytest.raises(CheckpointCorruptError, match="outside of its folder"):
            command(path)
    assert victim.read_text() == "somebody's"
    assert sorted(path.rglob("*")) == before


def test_the_shells_history_is_its_owners_and_has_no_secret(tmp_path):
    """Statements are written into a file, and a table's password stands in one."""
    path = tmp_path / "state" / "onceflow" / "history"
    history = _history(path)
    history.append_string("SELECT * FROM payments;")
    history.append_string("CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'password' = 'it''s CANARY');")
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "SELECT" in path.read_text()
    assert "CANARY" not in path.read_text()
    path.chmod(0o644)
    _history(path)
    assert path.stat().st_mode & 0o777 == 0o600
