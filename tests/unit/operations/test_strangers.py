"""What somebody else has made and a command is given, and what a command leaves for others to see."""

import os
import sys
from pathlib import Path

import pytest

import onceflow
import onceflow as of
from onceflow.cli.shell import _history
from onceflow.errors import CheckpointCorruptError, ConfigurationError, SetupError
from onceflow.flinksql.pipelines import function_at
from onceflow.flinksql.problems import Position
from onceflow.flinksql.settings import ScriptSettings
from onceflow.operations.savepoints import reading, writing
from onceflow.operations.savepoints.manifest import FORMAT, NAME
from onceflow.options.auditing import read_key
from onceflow.storage import envelope
from onceflow.storage.tree import Folder
from onceflow.supervision import log_file
from tests.support import checkpoints


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


def test_a_log_that_is_a_link_is_not_written(tmp_path):
    """In a folder of others a link leads to any file of this user; so does the older log's name."""
    victim = tmp_path / "victim"
    victim.write_text("somebody's")
    (tmp_path / "job.log").symlink_to(victim)
    with pytest.raises(SetupError, match="it is a link"):
        log_file.opened(tmp_path / "job.log")
    (tmp_path / "other.log").write_bytes(b"x" * (log_file.LARGEST + 1))
    (tmp_path / "other.log.1").symlink_to(victim)
    log_file.bound(tmp_path / "other.log")
    assert victim.read_text() == "somebody's"


def test_a_log_that_is_a_pipe_keeps_no_start_waiting(tmp_path):
    """Somebody has made it in a folder of all: nobody reads at its other end."""
    os.mkfifo(tmp_path / "job.log")
    with pytest.raises(SetupError, match="no file"):
        log_file.opened(tmp_path / "job.log")
    reading = os.open(tmp_path / "job.log", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(SetupError, match="another user's, or no file"):
        log_file.opened(tmp_path / "job.log")
    os.close(reading)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a file to another user")
def test_a_log_that_another_user_has_made_is_not_written(tmp_path):
    """Root may write to it; he who made it reads it, and changes what stands there."""
    (tmp_path / "job.log").touch(mode=0o666)
    os.chown(tmp_path / "job.log", 65534, 65534)
    with pytest.raises(SetupError, match="another user's"):
        log_file.opened(tmp_path / "job.log")


@pytest.mark.parametrize(("mode", "told"), [(0o600, 0), (0o400, 0), (0o640, 1), (0o644, 1)])
def test_a_secret_that_others_may_read_is_told(tmp_path, caplog, mode, told):
    """Of a file that is named as a key or as a password."""
    path = tmp_path / "key"
    path.write_text("a secret of enough bytes")
    path.chmod(mode)
    with caplog.at_level("WARNING"):
        read_key(path)
        of.KafkaCluster(
            "localhost:9092",
            security_protocol="SASL_SSL",
            sasl_mechanism="PLAIN",
            username="bank",
            password={"file": path},
        )
    assert caplog.text.count(f"{path} holds a secret") == 2 * told
    assert "enough bytes" not in caplog.text


@pytest.mark.parametrize(
    "key",
    [
        "spark.driver.extraJavaOptions",
        "spark.executor.defaultJavaOptions",
        "spark.jars",
        "spark.jars.packages",
        "spark.plugins",
        "spark.authenticate",
        "spark.executorEnv.PYTHONPATH",
        "spark.sql.extensions",
        "spark.sql.catalog.own",
        "spark.extraListeners",
        "spark.sql.queryExecutionListeners",
        "spark.pyspark.python",
        "spark.driver.extraClassPath",
        "SPARK.JARS",
        "spark.hadoop.fs.own.impl",
        "spark.onceflow.unauthenticated",
    ],
)
def test_a_script_sets_nothing_that_runs_code(key):
    """Whoever starts it may, on the command line."""
    settings = ScriptSettings({})
    with pytest.raises(ConfigurationError, match="runs code") as refused:
        settings.set(Position(1, 1), key, "x")
    assert f"-D {key}=" in refused.value.action
    if key.startswith("spark."):
        assert ScriptSettings({key: "x"}).of_spark() == {key: "x"}
    settings.set(Position(1, 1), "spark.sql.shuffle.partitions", "2")


def changed_links(files):
    """Ways in which a savepoint's files lead out of it."""
    outside = files.parent.parent / "outside"
    outside.mkdir()
    file = next(path for path in sorted(files.rglob("*")) if path.is_file())
    (outside / "file").write_bytes(file.read_bytes())
    return outside, file


def test_a_savepoint_in_which_a_file_is_a_link_is_not_what_it_was(tmp_path):
    """Whoever can write what it leads to could change a checkpoint behind ``verify``."""
    path = tmp_path / "of" / "savepoint"
    writing.create(checkpoints.make(tmp_path / "checkpoint", 2), path, "shop")
    outside, file = changed_links(path / "files")
    file.unlink()
    file.symlink_to(outside / "file")
    with pytest.raises(CheckpointCorruptError, match="is not what it was"):
        reading.verify(path)


def test_a_savepoint_with_a_link_to_a_folder_is_not_what_it_was(tmp_path):
    """It is no file, and what it leads to is no part of the savepoint."""
    path = tmp_path / "of" / "savepoint"
    writing.create(checkpoints.make(tmp_path / "checkpoint", 2), path, "shop")
    outside, _ = changed_links(path / "files")
    (path / "files" / "more").symlink_to(outside)
    with pytest.raises(CheckpointCorruptError, match="more was added"):
        reading.verify(path)


def test_a_file_of_another_user_is_copied_and_never_linked(tmp_path, monkeypatch):
    """He could write it later by the name that he has: the checkpoint would change under the job."""
    (tmp_path / "of").mkdir()
    (tmp_path / "of" / "file").write_text("content")
    mine, theirs = Folder(tmp_path / "mine"), Folder(tmp_path / "theirs")
    mine.take(Folder(tmp_path / "of"), ["file"])
    uid = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: uid + 1)
    theirs.take(Folder(tmp_path / "of"), ["file"])
    assert (mine.where / "file").stat().st_nlink == 2
    assert (theirs.where / "file").stat().st_nlink == 1
    assert theirs.read("file") == b"content"


def test_a_file_that_others_may_write_is_copied_and_never_linked(tmp_path):
    """As a copy of a savepoint is that came with its mode from elsewhere: in the checkpoint it would have it, too."""
    (tmp_path / "of").mkdir()
    (tmp_path / "of" / "file").write_text("content")
    (tmp_path / "of" / "file").chmod(0o666)
    mine = Folder(tmp_path / "mine")
    mine.take(Folder(tmp_path / "of"), ["file"])
    (tmp_path / "of" / "file").write_text("changed")
    assert mine.read("file") == b"content"


def test_a_function_of_a_script_is_not_looked_for_in_a_working_folder_of_others(tmp_path, monkeypatch):
    """A module of anybody's name stands before all others there, and is imported into the driver."""
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "laid_there.py").write_text("def twice(n: int) -> int:\n    return 2 * n\n")
    tmp_path.chmod(0o1777)
    with pytest.raises(ConfigurationError, match="there is no function") as refused:
        function_at("laid_there.twice")
    assert "others may write to the working folder" in refused.value.cause
    assert "" not in sys.path
    tmp_path.chmod(0o755)
    found, _ = function_at("laid_there.twice")
    assert found(4) == 8


def test_no_python_is_started_with_the_working_folder_before_its_library():
    """By `-m` it takes modules from there first, whoever has laid them there: -P keeps them out."""
    started = [
        (path.name, line.strip())
        for path in Path(onceflow.__file__).parent.rglob("*.py")
        for line in path.read_text().splitlines()
        if "sys.executable" in line and '"-m"' in line
    ]
    assert len(started) >= 4
    assert [each for each in started if '"-P", "-m"' not in each[1]] == []
