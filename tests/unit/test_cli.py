"""The command line: exit codes, errors in plain lines, JSON, and finding the job in a file. No Spark, no broker."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import onceflow
from onceflow.cli import main as entry
from onceflow.cli.run import find_job
from onceflow.errors import ConfigurationError, KafkaUnavailableError

ONE_JOB = """
import onceflow as of
job = of.Job("one", checkpointing=of.Checkpointing("checkpoints/one"))
again = job
if __name__ == "__main__":
    raise SystemExit("started")
"""


def call(monkeypatch, *arguments):
    """Call ``main``; its exit code."""
    monkeypatch.setattr(sys, "argv", ["onceflow", *arguments])
    with pytest.raises(SystemExit) as end:
        entry.main()
    return end.value.code or 0


def failing(error):
    def command(*_):
        raise error

    return command


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    monkeypatch.delenv(entry.DEBUG, raising=False)
    monkeypatch.setattr(sys, "path", list(sys.path))


def test_version(monkeypatch, capsys):
    """``--version`` prints the package's version and is no error."""
    assert call(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"onceflow {onceflow.__version__}\n"


def test_usage(monkeypatch, capsys):
    """An unknown command or option ends with 2."""
    assert call(monkeypatch, "fly") == 2
    assert call(monkeypatch, "run", "job.py", "--fast") == 2
    assert call(monkeypatch, "run", "job.py", "--claim", "--as-new") == 2
    assert "two different things" in capsys.readouterr().err


def test_our_errors_are_plain_lines(monkeypatch, capsys):
    """An OnceflowError ends with 1 and its own words on stderr, without a traceback."""
    assert call(monkeypatch, "run", "nowhere.py") == 1
    told = capsys.readouterr()
    assert told.err.startswith("error: there is no file nowhere.py\n")
    assert "Traceback" not in told.err
    assert told.out == ""


def test_our_errors_as_json(monkeypatch, capsys):
    """With ``--output json`` the last line of stdout is one object with the error's parts."""
    assert call(monkeypatch, "run", "nowhere.py", "--output", "json") == 1
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["error"] == "ConfigurationError"
    assert told["reason"] == "failed"
    assert told["exit_code"] == 1


def test_debug_shows_the_traceback(monkeypatch):
    """``--debug`` lets the error through."""
    monkeypatch.setattr(sys, "argv", ["onceflow", "--debug", "run", "nowhere.py"])
    monkeypatch.setenv(entry.DEBUG, "")
    with pytest.raises(ConfigurationError):
        entry.main()


def test_ctrl_c(monkeypatch):
    """A command that Ctrl-C ends exits with 130."""
    monkeypatch.setattr("onceflow.cli.jars.spark_jars", failing(KeyboardInterrupt()))
    assert call(monkeypatch, "jars") == 130


def test_extra_is_missing(monkeypatch):
    """Without typer or rich there is one line that names what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "rich" else object())
    assert call(monkeypatch, "run", "job.py") == "the command line needs rich: pip install 'onceflow[cli]'"


def test_jars(monkeypatch, capsys):
    """``jars`` prints what ``spark-submit --jars`` takes."""
    monkeypatch.setattr("onceflow.cli.jars.spark_jars", lambda _: [Path("/a.jar"), Path("/b.jar")])
    assert call(monkeypatch, "jars") == 0
    assert capsys.readouterr().out == "/a.jar,/b.jar\n"
    assert call(monkeypatch, "jars", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out) == {"jars": ["/a.jar", "/b.jar"]}


class TestFindJob:
    def test_one(self, tmp_path):
        """The job is found, also under two names, and the file's own ``__main__`` part does not run."""
        file = tmp_path / "job.py"
        file.write_text(ONE_JOB)
        assert find_job(file).name == "one"
        assert find_job(file, "one").name == "one"

    def test_imports_its_neighbours(self, tmp_path):
        """A module beside the file can be imported, as with ``python FILE``."""
        (tmp_path / "my_neighbour_module.py").write_text("NAME = 'next door'\n")
        file = tmp_path / "job.py"
        file.write_text("import my_neighbour_module\n" + ONE_JOB.replace('"one"', "my_neighbour_module.NAME"))
        assert find_job(file).name == "next door"

    def test_none(self, tmp_path):
        """A file without a job is refused, and told how to make one."""
        file = tmp_path / "job.py"
        file.write_text("x = 1\n")
        with pytest.raises(ConfigurationError, match="makes no job"):
            find_job(file)

    def test_several(self, tmp_path):
        """Of several jobs one must be named; a wrong name lists those that there are."""
        file = tmp_path / "job.py"
        file.write_text(ONE_JOB + 'other = of.Job("two", checkpointing=of.Checkpointing("checkpoints/two"))\n')
        with pytest.raises(ConfigurationError, match="makes 2 jobs: one, two"):
            find_job(file)
        assert find_job(file, "two").name == "two"
        with pytest.raises(ConfigurationError, match="its jobs are one, two"):
            find_job(file, "three")


@pytest.mark.parametrize(
    ("body", "arguments", "code", "reason"),
    [
        ("pass", ["--bounded"], 0, "caught up"),
        ("raise of.Stopped(signal.SIGTERM, clean=True)", [], 143, "stopped by SIGTERM"),
        ("raise of.Stopped(signal.SIGINT, clean=True)", [], 130, "stopped by SIGINT"),
    ],
)
def test_run_tells_how_it_ended(tmp_path, monkeypatch, capsys, body, arguments, code, reason):
    """``run --output json`` ends with one object that says why the job ended; signals keep their exit codes."""
    file = tmp_path / "job.py"
    file.write_text("import signal\n" + ONE_JOB + f"def run(**settings):\n    {body}\n\njob.run = run\n")
    assert call(monkeypatch, "run", str(file), *arguments, "--output", "json") == code
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told == {"job": "one", "file": str(file), "reason": reason, "exit_code": code}


def test_run_ends_what_hangs(tmp_path):
    """What could not be ended cleanly cannot hold the process, and JSON still says why it ended."""
    file = tmp_path / "job.py"
    body = "threading.Thread(target=threading.Event().wait).start(); raise of.Stopped(signal.SIGTERM, clean=False)"
    file.write_text("import signal, threading\n" + ONE_JOB + f"def run(**settings):\n    {body}\n\njob.run = run\n")
    command = [sys.executable, "-m", "onceflow.cli.main", "run", str(file), "--output", "json"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert ended.returncode == 143, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1])["reason"] == "stopped by SIGTERM"


def test_run_passes_on_what_was_asked(tmp_path, monkeypatch, capsys):
    """``--bounded`` and ``--as-new`` reach the job."""
    file = tmp_path / "job.py"
    file.write_text(ONE_JOB + "job.run = lambda **settings: print(sorted(settings.items()))\n")
    assert call(monkeypatch, "run", str(file), "--bounded", "--as-new") == 0
    assert capsys.readouterr().out == "[('takeover', 'as-new'), ('until', 'caught-up')]\n"


def test_module_runs_as_a_program():
    """``python -m onceflow.cli.main`` is the same command line."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "onceflow.cli.main", "--version"]
    told = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert told.stdout.startswith("onceflow ")


def test_unavailable_kafka_says_that_it_may_be_retried(monkeypatch, capsys):
    """A program can tell from the JSON whether the same command may be tried again as it is."""
    monkeypatch.setattr("onceflow.cli.jars.spark_jars", failing(KafkaUnavailableError("no broker")))
    assert call(monkeypatch, "jars", "--output=json") == 1
    assert json.loads(capsys.readouterr().out)["retriable"] is True
