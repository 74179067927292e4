"""The command line: exit codes, errors in plain lines, JSON, and finding the job in a file. No Spark, no broker."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import onceflow
from onceflow import program
from onceflow.cli import main as entry
from onceflow.cli.job_file import find_job
from onceflow.errors import CheckpointConflictError, ConfigurationError, KafkaUnavailableError
from tests.support.typed import call

ONE_JOB = """
import onceflow as of
job = of.Job("one", checkpointing=of.Checkpointing("checkpoints/one"))
again = job
if __name__ == "__main__":
    raise SystemExit("started")
"""


def failing(error):
    def command(*_, **__):
        raise error

    return command


@pytest.fixture(autouse=True)
def _clean(monkeypatch):
    monkeypatch.delenv(program.DEBUG, raising=False)
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
    first, action, last = told.err.splitlines()
    assert first == "error: there is no file nowhere.py"
    assert action.startswith("  What to do: ")
    assert last == "  ConfigurationError, exit code 1: do not start it again as it is"
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
    monkeypatch.setenv(program.DEBUG, "")
    with pytest.raises(ConfigurationError):
        entry.main()


def test_ctrl_c(monkeypatch):
    """A command that Ctrl-C ends exits with 130."""
    monkeypatch.setattr("onceflow.cli.jars.spark_jars", failing(KeyboardInterrupt()))
    assert call(monkeypatch, "jars") == 130


def test_extra_is_missing(monkeypatch):
    """Without typer or rich there is one line that names what to install."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "rich" else object())
    told = call(monkeypatch, "run", "job.py")
    assert told.startswith("the command line needs rich, ")
    assert "pip install '.[cli]'" in told


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
        ("pass", ["--until", "caught-up"], 0, "caught up"),
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
    """``--until caught-up``, ``--as-new`` and ``-D`` reach the job."""
    file = tmp_path / "job.py"
    file.write_text(ONE_JOB + "job.run = lambda **settings: print(sorted(settings.items()))\n")
    assert call(monkeypatch, "run", str(file), "--until", "caught-up", "--as-new", "-D", "a=b=c") == 0
    assert capsys.readouterr().out == "[('settings', {'a': 'b=c'}), ('takeover', 'as-new'), ('until', 'caught-up')]\n"


def test_a_command_is_advised_by_its_flags(tmp_path, monkeypatch, capsys):
    """The same refusal names ``--claim`` and ``--as-new`` here, and arguments to a program in Python."""
    (tmp_path / "checkpoint" / "offsets").mkdir(parents=True)
    (tmp_path / "checkpoint" / "offsets" / "0").write_text("v1")
    (tmp_path / "checkpoint" / "onceflow" / "journal").mkdir(parents=True)
    (tmp_path / "checkpoint" / "onceflow" / "journal" / "0.json").write_text("{}")
    file = tmp_path / "job.py"
    file.write_text(
        ONE_JOB
        + f"""
from onceflow.launch.request import StartRequest, place_of
from onceflow.launch.ownership import identify
place = place_of(StartRequest("one", of.Checkpointing({str(tmp_path / "checkpoint")!r})))
job.run = lambda **_: identify(place, "cluster", "onceflow", None)
"""
    )
    assert call(monkeypatch, "run", str(file), "--output=json") == 1
    assert re.findall("--[a-z-]+|takeover=", json.loads(capsys.readouterr().out)["action"]) == ["--claim", "--as-new"]
    with pytest.raises(CheckpointConflictError) as caught:
        find_job(file).run()
    assert "--" not in caught.value.action
    assert caught.value.action.count("takeover=") == 2


def test_module_runs_as_a_program():
    """``python -m onceflow`` is the same command line."""
    assert module("--version").startswith("onceflow ")


def module(*arguments, **environment):
    """What ``python -m onceflow`` prints."""
    told = subprocess.run(
        [sys.executable, "-m", "onceflow", *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )
    return told.stdout


def test_a_passing_error_has_an_exit_code_of_its_own(monkeypatch, capsys):
    """A supervisor can tell from exit code, last line and JSON whether the same command may be tried again as it is."""
    monkeypatch.setattr("onceflow.cli.jars.spark_jars", failing(KafkaUnavailableError("no broker")))
    assert call(monkeypatch, "jars", "--output=json") == 75
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert (found["retriable"], found["exit_code"]) == (True, 75)
    assert told.err == "error: no broker\n  KafkaUnavailableError, exit code 75: start it again as it is\n"


PASSES = """
import onceflow as of
from onceflow.errors import KafkaUnavailableError

class Away(of.Job):
    def run(self, **_):
        raise KafkaUnavailableError("no broker answers")

job = Away("away", checkpointing=of.Checkpointing("checkpoints/away"))
if __name__ == "__main__":
    job.main()
"""


@pytest.mark.parametrize(
    "command",
    [["job.py"], ["-m", "onceflow", "run", "job.py"], ["-m", "onceflow", "run", "job.py", "--output", "json"]],
)
@pytest.mark.parametrize("log", ["/dev/null", "/dev/full"])
def test_a_full_disk_of_logs_leaves_the_exit_code_as_it_is(tmp_path, command, log):
    """What passes is told by 75 alone to whoever starts the job again, also where no line can be written any more."""
    (tmp_path / "job.py").write_text(PASSES)
    with open(log, "w") as full:  # noqa: PTH123 - a device
        ran = subprocess.run([sys.executable, *command], stdout=full, stderr=full, cwd=tmp_path, check=False)
    assert ran.returncode == 75


def test_the_first_line_comes_before_what_takes_its_time(tmp_path):
    """``onceflow run`` says what it runs before the file, and with it Spark, is loaded."""
    file = tmp_path / "job.py"
    file.write_text("raise SystemExit")
    command = [sys.executable, "-m", "onceflow.cli.main", "run", str(file)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, timeout=60)
    assert ran.stderr.splitlines()[0].endswith(f"INFO    onceflow {onceflow.__version__} runs {file}")


def test_the_command_line_loads_neither_spark_nor_kafka():
    """Help and first lines come at once."""
    heavy = ("pyspark", "kafka", "confluent_kafka", "pyarrow", "pydantic")
    code = f"import sys, onceflow.cli.app; assert not [name for name in {heavy} if name in sys.modules]"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=60)


@pytest.mark.parametrize("command", ["", "txn", "dev"])
def test_help_is_not_cut(command):
    """At 80 columns, and in a pipe, the list of commands has each first sentence whole; ``-h`` asks for it."""
    told = module(*command.split(), "-h", COLUMNS="80")
    listed = told.partition("Commands:\n")[2]
    assert listed
    assert "..." not in listed
    assert "…" not in listed
    assert all(len(line) <= 80 for line in told.splitlines())
    assert "  -h, --help" in told


def test_completion():
    """A shell that has run ``--install-completion`` gets the commands that begin so."""
    asked = {"_ONCEFLOW_COMPLETE": "complete_bash", "COMP_CWORD": "1"}
    assert module(COMP_WORDS="onceflow ja", **asked).split() == ["jars"]


SPARKS = """from pyspark.errors import AnalysisException
plan = ";\\n'Proj" + "ect [a]"
raise AnalysisException("no column `a`. Did you mean `b`?" + plan)
"""


class TestTheUsersOwnErrors:
    """What FILE raises is shown by its own lines, as text and as JSON, and the whole only with --debug."""

    FUNCTION = """
import onceflow as of
job = of.Job("one", checkpointing=of.Checkpointing("checkpoints/one"))
def stream():
    return 1 + None
job.run = lambda **_: stream()
"""

    @pytest.mark.parametrize(
        ("text", "kind", "line"),
        [
            ("x = (1,\n", "SyntaxError", "line 1"),
            ("import no_such_module\n", "ModuleNotFoundError", "line 1, in <module>"),
            (FUNCTION, "TypeError", "line 5, in stream"),
            (SPARKS, "AnalysisException", "line 3, in <module>"),
        ],
    )
    def test_are_cut_to_the_users_lines(self, tmp_path, monkeypatch, capsys, text, kind, line):
        """No frame of typer, of onceflow or of Python's import; a JSON object tells the same."""
        file = tmp_path / "job.py"
        file.write_text(text)
        assert call(monkeypatch, "run", str(file), "--output", "json") == 1
        told = capsys.readouterr()
        assert told.err.startswith(f"error: {file} raised {kind}\n")
        assert f'File "{file}", {line}' in told.err
        assert f"{kind}: " in told.err
        assert {f for f in told.err.split('"') if f.endswith(".py")} == {str(file)}
        assert "Project" not in told.err, "a plan of Spark's"
        assert len(told.err.splitlines()) <= 10
        found = json.loads(told.out)
        assert (found["exit_code"], found["retriable"]) == (1, False)
        assert found["what"].startswith(f"{file} raised {kind}\n")

    def test_those_of_a_neighbour_have_its_lines_too(self, tmp_path, monkeypatch, capsys):
        """A module that FILE imports is the user's as well."""
        (tmp_path / "my_broken_neighbour.py").write_text("def f():\n    return 1 / 0\nf()\n")
        file = tmp_path / "job.py"
        file.write_text("import my_broken_neighbour\n")
        assert call(monkeypatch, "run", str(file)) == 1
        told = capsys.readouterr().err
        assert "importlib" not in told
        assert 'my_broken_neighbour.py", line 2, in f' in told
        assert "ZeroDivisionError: division by zero" in told

    def test_our_own_errors_in_it_pass_as_they_are(self, tmp_path, monkeypatch, capsys):
        """An OnceflowError that FILE meets has its four parts."""
        file = tmp_path / "job.py"
        file.write_text('import onceflow as of\nof.KafkaCluster("localhost:9092", security_protocol="SASL_SSL")\n')
        assert call(monkeypatch, "run", str(file)) == 1
        told = capsys.readouterr().err
        assert "raised" not in told
        assert "sasl_mechanism" in told

    def test_an_error_of_ours_is_not_theirs(self, tmp_path, monkeypatch):
        """A mistake in onceflow itself, by no line of FILE, keeps its traceback."""
        file = tmp_path / "job.py"
        file.write_text(ONE_JOB)
        monkeypatch.setattr(onceflow.Job, "run", failing(KeyError("ours")))
        monkeypatch.setattr(sys, "argv", ["onceflow", "run", str(file)])
        with pytest.raises(KeyError):
            entry.main()
