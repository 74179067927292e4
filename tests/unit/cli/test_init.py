"""``onceflow init``: what it writes, and that it writes over nothing. What it writes is run elsewhere."""

import json

import pytest
from typer.testing import CliRunner

from onceflow.cli.app import app
from onceflow.errors import ConfigurationError

FILES = ["job.py", "onceflow.toml", "test_job.py"]


def init(*arguments):
    return CliRunner().invoke(app, ["init", *map(str, arguments)])


def test_it_writes_a_job_its_settings_and_its_test(tmp_path):
    """In a folder that it makes; the text is Python, and the folder is told."""
    folder = tmp_path / "new" / "job"
    done = init(folder, "--output", "json")
    assert json.loads(done.stdout) == {"folder": str(folder), "files": FILES}
    assert sorted(path.name for path in folder.iterdir()) == FILES
    for path in folder.glob("*.py"):
        compile(path.read_text(), path, "exec")


def test_the_job_and_its_settings_are_taken(tmp_path, monkeypatch):
    """``onceflow config`` reads both: the file counts before the job, and the checkpoint lies beside it."""
    init(tmp_path)
    monkeypatch.setenv("ONCEFLOW_CONFIG", "")  # the command names it for its process
    monkeypatch.delenv("CHECKPOINT", raising=False)
    told = CliRunner().invoke(
        app, ["config", str(tmp_path / "job.py"), "--config", str(tmp_path / "onceflow.toml"), "--output", "json"]
    )
    found = {each["setting"]: each for each in json.loads(told.stdout)["settings"]}
    assert found["execution.checkpointing.dir"]["value"] == str(tmp_path / "checkpoint")
    assert found["execution.checkpointing.tolerable-failed-checkpoints"] == {
        "setting": "execution.checkpointing.tolerable-failed-checkpoints",
        "value": "3",
        "source": f"file {tmp_path / 'onceflow.toml'}",
        "becomes": None,
    }


def test_without_a_folder_it_is_this_one(tmp_path, monkeypatch):
    """And two lines say what is there and what to do next."""
    monkeypatch.chdir(tmp_path)
    assert init().stdout.splitlines() == [
        ".: job.py, onceflow.toml, test_job.py",
        "Next, in that folder: `pytest` tries the job on a Kafka of its own; job.py tells the rest.",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_written_over(tmp_path, name):
    """Where one of its files is there, none is written, and it says which."""
    (tmp_path / name).write_text("mine")
    done = init(tmp_path)
    assert isinstance(done.exception, ConfigurationError)
    assert done.exception.what == f"{tmp_path} has {name} already"
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_that_cannot_be_is_told(tmp_path):
    """A file is in its place."""
    (tmp_path / "job").write_text("mine")
    done = init(tmp_path / "job" / "inner")
    assert isinstance(done.exception, ConfigurationError)
    assert "cannot be written" in done.exception.what
