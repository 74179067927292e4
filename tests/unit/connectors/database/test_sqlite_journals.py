"""What other users lay beside a database of SQLite, in a folder where they may: it takes their files for its own."""

import os
import sqlite3

import pytest

from onceflow.connectors.database import sqlite
from onceflow.connectors.database.sink import DatabaseSink
from onceflow.errors import ConfigurationError, OnceflowError
from tests.support.sqlite_worlds import SqliteWorld, forged_journal

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
NOBODY = 65_534


@pytest.fixture
def world(tmp_path):
    """A table of a job's in a folder like /tmp; the file is its user's alone."""
    made = SqliteWorld(tmp_path)
    made.sink().connect()
    with sqlite3.connect(made.path) as file:
        file.execute("create table payments (key text, amount bigint)")
        file.execute("insert into payments values ('honest', 1)")
    file.close()
    made.path.chmod(0o600)
    tmp_path.chmod(0o1777)
    return made


def rows(world):
    """As SQLite reads them, who takes the journal."""
    with sqlite3.connect(world.path) as file:
        found = [key for (key,) in file.execute("select key from payments")]
    file.close()
    return found


@as_root
@pytest.mark.parametrize("ending", ["-journal", "-wal"])
def test_a_journal_of_another_user_becomes_no_rows_of_a_database_that_he_may_not_write(world, tmp_path, ending):
    """He may write to the folder alone. SQLite asks nobody whose it is: taken, it is there behind the next look."""
    planted = world.path.with_name(world.path.name + ending)
    planted.write_bytes(forged_journal(tmp_path / "his.db", wal=ending == "-wal"))
    os.chown(planted, NOBODY, NOBODY)
    with pytest.raises(ConfigurationError, match="another user"):
        world.sink().connect()
    assert planted.exists()
    taken = world.path.with_name("taken.db")
    taken.write_bytes(world.path.read_bytes())
    planted.rename(taken.with_name(taken.name + ending))
    assert rows(world) == ["honest"]
    world.path = taken
    assert rows(world) == ["forged"]


@pytest.mark.parametrize("ending", ["-journal", "-wal", "-shm"])
def test_a_journal_that_is_a_link_is_not_written_through(world, tmp_path, ending):
    """SQLite makes its journal where the link leads, as the job's user."""
    led_to = tmp_path / "led to"
    world.path.with_name(world.path.name + ending).symlink_to(led_to)
    with pytest.raises(ConfigurationError, match="no file"):
        world.sink().connect()
    assert not led_to.exists()


def test_a_journal_of_ones_own_is_taken(world):
    """As a process leaves it that dies in a transaction."""
    planted = world.path.with_name(f"{world.path.name}-journal")
    planted.write_bytes(b"")
    world.sink().connect().close()


@as_root
def test_who_may_write_the_database_may_have_a_journal_there(world):
    world.path.chmod(0o666)
    planted = world.path.with_name(f"{world.path.name}-journal")
    planted.write_bytes(b"")
    os.chown(planted, NOBODY, NOBODY)
    world.sink().connect().close()


@pytest.mark.parametrize(("mode", "told"), [(0o1777, 1), (0o755, 0)])
def test_a_database_in_a_folder_of_others_is_told(world, tmp_path, caplog, mode, told):
    """Between a look and SQLite's own a journal may come."""
    tmp_path.chmod(mode)
    sqlite._tell_of_others.cache_clear()
    world.sink().connect().close()
    assert caplog.text.count("others may write to") == told


def test_a_folder_that_is_none_is_told_as_sqlite_tells_it(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OnceflowError, match="unable to open database file"):
        DatabaseSink(f"sqlite:///{tmp_path}/file/bank.db", "payments").connect()
