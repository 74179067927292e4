"""A job's process is kept going by a parent, with one count of failures; real processes, and no Spark in them."""

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

import onceflow as of
from onceflow.checkpoint.deleting import begin_deleting
from onceflow.checkpoint.identity import JobIdentity, create_identity
from onceflow.checkpoint.place import Place
from onceflow.cli.init import init
from onceflow.cli.run import _log_of
from onceflow.control import client
from onceflow.control.server import Server
from onceflow.control.standing import JobStatus
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointStoreError,
    ConfigurationError,
    FencedError,
    PreCommitError,
    SetupError,
)
from onceflow.options import restarting
from onceflow.options.restarting import Restarts
from onceflow.supervision import child, detached, log_file
from onceflow.supervision.attempts import Attempts
from onceflow.supervision.counting import Counting, Reported, keep_in, recorded_in
from onceflow.supervision.others import look_for_others
from onceflow.supervision.signals import Signals
from tests.support.advice import parts_of

JOB = """
import json, os, signal, sys, time
from functools import partial
from pathlib import Path
from onceflow.checkpoint.place import Place
from onceflow.control.server import Server
from onceflow.control.standing import JobStatus
from onceflow.supervision.child import parent
from onceflow.supervision.counting import Reported, keep_in

place = Path({place!r})
above = parent()
tries = place / "tries"
number = len(tries.read_text().splitlines()) if tries.exists() else 0
with tries.open("a") as file:
    file.write(f"{{os.getpid()}} {{sys.argv[1]}}\\n")
standing = JobStatus("kept", place.as_uri(), supervisor=above.pid)

def newest():
    return max((int(each.name) for each in (place / "commits").glob("*")), default=None)

def begin():
    job = dict(name="kept", retain=100, strategy={strategy}, tolerable={tolerable}, recorded=newest())
    told = above.begin(job | dict(checkpoint={checkpoint!r}), partial(keep_in, Place.at(str(place), 100)))
    standing.restarts = told["restarts"]
    standing.begin(lambda: number)
    return told

def epoch(n):
    (place / "commits").mkdir(exist_ok=True)
    (place / "commits" / str(n)).write_text("v1\\n{{}}")
    above.reached(n)

def die(by=signal.SIGKILL):
    os.kill(os.getpid(), by)

with Server(standing):
{body}
"""

PARENT = """
import sys
from pathlib import Path
from onceflow import program
from onceflow.supervision.parent import Supervision
program.show_log()
commands = ([sys.executable, "-c", sys.argv[1], number] for number in ("first", "again"))
code = Supervision(*commands).run()
loaded = {"pyspark", "kafka", "confluent_kafka", "pyarrow"} & set(sys.modules)
print("loaded", sorted(loaded))
sys.exit(code)
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A checkpoint of a job, and a folder of its own for what runs."""
    monkeypatch.setenv("ONCEFLOW_RUNTIME_DIR", str(tmp_path / "run"))
    path = tmp_path / "checkpoint"
    (path / "onceflow").mkdir(parents=True)
    (path / "onceflow" / "job.json").write_text("{}")
    return path


ON_HDFS = "hdfs://namenode:8020/checkpoint"
"""A checkpoint that the parent cannot read; what the job's process keeps is in a folder of the test's."""


def script(place, body, strategy, tolerable=0, checkpoint=""):
    indented = "\n".join(f"    {line}" for line in body.strip().splitlines())
    told = repr(restarting.dumps(strategy))
    checkpoint = checkpoint or str(place)
    return JOB.format(place=str(place), checkpoint=checkpoint, strategy=told, tolerable=tolerable, body=indented)


def environment():
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


def supervised(place, body, strategy, tolerable=0, checkpoint=""):
    """A parent that runs."""
    command = [sys.executable, "-c", PARENT, script(place, body, strategy, tolerable, checkpoint)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment(), **pipes)


def ended(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def tries(place):
    """Which command each process of the job had."""
    return [line.split()[1] for line in (place / "tries").read_text().splitlines()]


def history(place):
    return Place.at(str(place), 2).failures.read()


TWICE = of.FixedDelay(attempts=2, delay="0 s")


def test_a_strategy_crosses_to_another_process():
    """Each comes back equal, from JSON."""
    given = [of.NoRestart(), TWICE, of.ExponentialDelay(max_backoff="3 s"), of.FailureRate(delay="1 s")]
    assert [restarting.loads(json.loads(json.dumps(restarting.dumps(each)))) for each in given] == given


def test_a_killed_process_is_started_again_until_the_strategy_ends_it(place):
    """Each death is told and kept; takeover is for the first process; the parent loads no Spark, and ends with 75."""
    code, out, err = ended(supervised(place, "begin(); epoch(number); die()", TWICE))
    assert (code, tries(place)) == (75, ["first", "again", "again"])
    assert "loaded []" in out
    assert err.count("ended with SIGKILL, and is started again in 0.0 s") == 2
    assert "ended with SIGKILL, and is not started again" in err
    kept = history(place)
    assert [each.followed_by for each in kept] == ["restart after 0.0 s", "restart after 0.0 s", "the job ended"]
    assert [(each.error, each.recorded) for each in kept] == [("Died", 0), ("Died", 1), ("Died", 2)]


def test_on_hdfs_a_process_keeps_what_the_one_before_has_died_by(place):
    """Its parent has no Java to write it; the death that ends the job is in the parent's log alone."""
    code, out, err = ended(supervised(place, "begin(); epoch(number); die()", TWICE, checkpoint=ON_HDFS))
    assert (code, tries(place)) == (75, ["first", "again", "again"])
    assert "loaded []" in out
    assert "ended with SIGKILL, and is not started again" in err
    kept = history(place)
    assert [(each.error, each.recorded) for each in kept] == [("Died", 0), ("Died", 1)]
    assert [each.followed_by for each in kept] == ["restart after 0.0 s"] * 2
    assert len({each.pid for each in kept}) == 2


@pytest.mark.parametrize("how", ["die()", "sys.exit(75)"])
def test_what_ends_before_its_job_begins_is_one_more_failure(place, how):
    """Also behind a process that had run: each is counted, so that the strategy comes to its end."""
    body = f"if number: {how}\nbegin(); epoch(number); die()"
    code, _, err = ended(supervised(place, body, TWICE))
    assert (code, tries(place)) == (75, ["first", "again", "again"])
    assert "is not started again" in err
    assert [each.recorded for each in history(place)] == [0, 0, 0]


@pytest.mark.parametrize("checkpoint", [ON_HDFS, "s3a://bucket/checkpoint"])
def test_what_a_process_cannot_keep_any_more_the_next_one_keeps(place, checkpoint):
    """Of a checkpoint elsewhere: its Java is gone, by which it would have been kept."""
    body = """
begin()
epoch(number)
if number:
    sys.exit(0)
assert above.failed(Reported("EpochFailedError", "Java is gone", here=False)) is None
assert Place.at(str(place), 100).failures.read() == []
sys.exit(75)
"""
    assert ended(supervised(place, body, TWICE, checkpoint=checkpoint))[0] == 0
    assert [each.what for each in history(place)] == ["Java is gone"]


def test_a_death_is_noticed_while_a_forked_helper_lives(place):
    """It has the job's end of the line, and that of its Java's input: the job is started again, and it is ended."""
    body = """
begin()
epoch(number)
if number:
    sys.exit(0)
helper = os.fork()
if helper == 0:
    signal.pause()
(place / "helper").write_text(str(helper))
die()
"""
    process = supervised(place, body, TWICE)
    try:
        code, _, err = ended(process)
        assert (code, tries(place)) == (0, ["first", "again"]), err
        assert "ended with SIGKILL, and is started again" in err
        deadline = time.monotonic() + 30
        while _lives(int((place / "helper").read_text())):
            assert time.monotonic() < deadline, "the helper of a dead process goes on"
    finally:
        process.kill()
        with contextlib.suppress(ProcessLookupError):
            os.kill(int((place / "helper").read_text()), signal.SIGKILL)


def _lives(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_process_that_follows_another_one_does_not_begin_a_new_job(place):
    """The checkpoint was deleted meanwhile, by somebody who did not see the job: it ends by 1, for good."""
    body = """
import shutil
import onceflow as of
from onceflow import program
from onceflow.options.job_options import JobOptions
from onceflow.supervision.attempts import counting
options = JobOptions(of.Checkpointing(str(place)), of.FixedDelay(attempts=5, delay="0 s"))
try:
    counting(options, Place.at(str(place), 100), standing, above)
except of.OnceflowError as error:
    program.fail(error)
epoch(number)
shutil.rmtree(place / "onceflow")
shutil.rmtree(place / "commits")
die()
"""
    code, _, err = ended(supervised(place, body, TWICE))
    assert (code, tries(place)) == (1, ["first", "again"]), err
    assert "is not in" in err
    assert "it went while the job ran" in err


@pytest.mark.parametrize("left", ["nothing", "another job", "being deleted"])
def test_a_restart_in_the_process_does_not_begin_a_new_job(tmp_path, left):
    """Whatever it failed by: where its checkpoint is not any more, it is not started again."""
    at = Place.at(tmp_path, 100)
    at.ours.make()
    mine = create_identity(at.ours, JobIdentity.new(at.uri, "", "onceflow"))
    starts = []

    def wait(_):
        if left == "being deleted":
            begin_deleting(at.ours, mine)
        else:
            at.ours.remove("job.json")
        if left == "another job":
            create_identity(at.ours, JobIdentity.new(at.uri, "", "onceflow"))
        raise CheckpointStoreError("the journal's folder is gone")

    def start(first):
        starts.append(first)
        driver = SimpleNamespace(done=None, newest_epoch=lambda: 0, newest_done=lambda: 0)
        return SimpleNamespace(driver=driver, wait=wait, close=lambda: None)

    counts = Counting(Restarts(TWICE, 0, time.monotonic), lambda _: None, None)
    with pytest.raises(CheckpointConflictError, match="it went while the job ran"):
        Attempts("kept", counts, Signals(), JobStatus("kept", at.uri), at).run(start)
    assert starts == [True]


def test_a_job_whose_place_a_new_one_has_taken_is_told_as_fenced(tmp_path):
    """``--as-new`` by a second start: the checkpoint is another job's, and its start has said so by itself."""
    at = Place.at(tmp_path, 100)
    at.ours.make()
    create_identity(at.ours, JobIdentity.new(at.uri, "", "onceflow"))

    def wait(_):
        at.ours.remove("job.json")
        create_identity(at.ours, JobIdentity.new(at.uri, "", "onceflow"))
        raise FencedError("a newer start has begun")

    def start(_):
        driver = SimpleNamespace(done=None, newest_epoch=lambda: 0, newest_done=lambda: 0)
        return SimpleNamespace(driver=driver, wait=wait, close=lambda: None)

    counts = Counting(Restarts(TWICE, 0, time.monotonic), lambda _: None, None)
    with pytest.raises(FencedError, match="a newer start has begun"):
        Attempts("kept", counts, Signals(), JobStatus("kept", at.uri), at).run(start)


def test_what_a_dying_process_has_said_is_heard(place):
    """Its last words are in the line when its death is seen: the strategy is not asked once more."""
    body = """
begin()
if number:
    sys.exit(0)
above.reached(3)
above.failed(Reported("PreCommitError", "it passes", here=False))
die()
"""
    code, _, err = ended(supervised(place, body, TWICE))
    assert code == 0, err
    assert [(each.what, each.recorded) for each in history(place)] == [("it passes", 3)]


def test_a_process_that_dies_with_an_answer_unread_has_died(place):
    """By that its end of the line is reset, and not closed: one death like others, and not the parent's own end."""
    body = """
import os, select, signal, socket
line = socket.socket(fileno=int(os.environ["ONCEFLOW_SUPERVISOR"]))
line.sendall(b'{"asked": 1}' + bytes([10]))
select.select([line], [], [])
os.kill(os.getpid(), signal.SIGKILL)
"""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    code, _, err = ended(subprocess.Popen([sys.executable, "-c", PARENT, body], env=environment(), **pipes))
    assert code == 75, err
    assert "ended with SIGKILL before its job began" in err


def test_what_dies_before_its_first_epoch_is_not_started_again(place):
    """A person has to see it, as of a failure in the process."""
    assert ended(supervised(place, "begin(); die()", TWICE))[0] == 75
    assert tries(place) == ["first"]


@pytest.mark.parametrize("checkpoint", ["", ON_HDFS])
def test_restarts_in_the_process_and_by_the_parent_are_one_count(place, checkpoint):
    """Two restarts in all: one in the process, one by its death; then neither is there."""
    body = """
told = begin()
epoch(number)
if number == 0:
    assert above.failed(Reported("EpochFailedError", "one", 0, True)) == 0.0
    die()
assert told["restarts"] == 2
assert above.failed(Reported("EpochFailedError", "three", 7, True)) is None
sys.exit(75)
"""
    assert ended(supervised(place, body, TWICE, checkpoint=checkpoint))[0] == 75
    assert tries(place) == ["first", "again"]
    assert [each.what for each in history(place)] == ["one", "the job's process ended with SIGKILL", "three"]
    assert [each.epoch for each in history(place)] == [0, None, 7]


def test_tolerable_failures_are_counted_by_the_parent_too(place):
    """They go before the strategy, in a row, and are kept as what they are."""
    body = """
begin()
epoch(0)
assert above.failed(Reported("EpochFailedError", "borne", 1, True)) == 0.0
assert above.failed(Reported("EpochFailedError", "past", 1, True)) is None
sys.exit(75)
"""
    assert ended(supervised(place, body, of.NoRestart(), tolerable=1))[0] == 75
    assert [each.followed_by for each in history(place)] == ["restart after 0.0 s (tolerable)", "the job ended"]


def test_javas_end_is_one_failure_that_takes_a_new_process(place):
    """It is counted when it is told, and not once more when the process has ended by it."""
    body = """
begin()
epoch(number)
if number:
    sys.exit(0)
assert above.failed(Reported("EpochFailedError", "Java is gone", here=False)) is None
sys.exit(75)
"""
    assert ended(supervised(place, body, of.FixedDelay(attempts=1, delay="0 s")))[0] == 0
    assert tries(place) == ["first", "again"]
    assert [each.what for each in history(place)] == ["Java is gone"]


@pytest.mark.parametrize("code", [0, 1, 2])
def test_what_no_restart_mends_ends_the_parent(place, code):
    """With the same exit code; a failure that does not pass is kept."""
    body = f"begin(); epoch(0)\nabove.failed(Reported('FencedError', 'no', retriable=False))\nsys.exit({code})"
    assert ended(supervised(place, body, TWICE))[0] == code
    assert tries(place) == ["first"]
    assert [each.followed_by for each in history(place)] == ["the job ended"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_is_handed_on(place, number):
    """The job ends as it does by its own signal, and the parent with it; no restart follows."""
    body = """
def end(number, frame):
    (place / "handed on").write_text(str(number))
    sys.exit(128 + number)
for each in (signal.SIGTERM, signal.SIGINT):
    signal.signal(each, end)
begin(); epoch(0)
(place / "runs").touch()
time.sleep(60)
"""
    parent = supervised(place, body, TWICE)
    wait_for((place / "runs").exists)
    parent.send_signal(number)
    assert ended(parent)[0] == 128 + number
    assert (place / "handed on").read_text() == str(int(number))
    assert history(place) == []


def wait_for(condition):
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.02)


def test_a_job_whose_parent_dies_ends_at_a_clean_point(place):
    """As by SIGTERM: it does not go on without the one who would start it again."""
    body = """
def end(number, frame):
    (place / "ended").write_text(str(number))
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, end)
begin(); epoch(0)
(place / "runs").touch()
time.sleep(60)
"""
    parent = supervised(place, body, TWICE)
    wait_for((place / "runs").exists)
    parent.kill()
    wait_for((place / "ended").exists)
    parent.communicate()


@pytest.mark.parametrize("what", ["stop", "cancel"])
def test_a_job_that_waits_for_its_restart_can_be_ended(place, what):
    """The parent answers for it, under its name; it ends with 0 and starts nothing more."""
    parent = supervised(place, "begin(); epoch(number); die()", of.FixedDelay(attempts=9, delay="1 h"))
    wait_for(lambda: [job.state for job in client.running()] == ["RESTARTING"])
    (job,) = client.running()
    assert (job.name, job.pid, job.restarts) == ("kept", parent.pid, 1)
    assert "SIGKILL" in job.failure
    client.order(job, what, 30)
    assert ended(parent)[0] == 0
    assert tries(place) == ["first"]


def test_of_a_supervised_job_one_is_listed(place):
    """While it waits and while its process comes up, and then: the parent's answer never comes beside the process's."""
    seen = []
    body = """
if number:
    time.sleep(1)
begin(); epoch(number)
if number:
    time.sleep(60)
die()
"""
    parent = supervised(place, body, of.FixedDelay(attempts=1, delay="0 s"))

    def second_runs():
        seen.append(client.running())
        return (
            seen[-1] and seen[-1][0].pid != parent.pid and seen[-1][0].restarts == 1 and "RUNNING" in seen[-1][0].state
        )

    wait_for(second_runs)
    parent.send_signal(signal.SIGTERM)
    assert ended(parent)[0] == 143
    assert max(map(len, seen)) == 1


class TestDetached:
    """A job in the background."""

    def start(self, place, body, within=60.0):
        log = place.parent / "logs" / "job.log"
        command = [sys.executable, "-c", PARENT, script(place, body, TWICE)]
        os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
        return detached.start(command, log, within), log

    @pytest.fixture(autouse=True)
    def path(self, monkeypatch):
        """So that it is put back."""
        monkeypatch.setenv("PYTHONPATH", "")

    def test_returns_when_the_job_runs(self, place):
        """With what `list` shows; its log is for its user alone, and it goes on by itself, in a session of its own."""
        found, log = self.start(place, "begin(); print('it runs', flush=True); time.sleep(60)")
        try:
            (job,) = client.running()
            assert (found.job, found.state, found.pid, found.exit_code) == ("kept", "RUNNING", job.pid, None)
            assert found.supervisor == job.supervisor
            assert stat.S_IMODE(log.stat().st_mode) == 0o600
            assert os.getsid(job.pid) == found.supervisor
            wait_for(lambda: "it runs" in log.read_text())
        finally:
            os.kill(found.supervisor, signal.SIGTERM)
        os.waitpid(found.supervisor, 0)
        assert client.running() == []

    def test_says_why_it_did_not_come_up(self, place):
        """The error of this start, and the exit code; an older one in the same file is none of its."""
        (place.parent / "logs").mkdir()
        (place.parent / "logs" / "job.log").write_text("error: an older one\n")
        found, _ = self.start(place, "print('a line\\nerror: no broker\\n  it is away', flush=True); sys.exit(75)")
        assert (found.state, found.exit_code, found.said.splitlines()[:2]) == (
            "ENDED",
            75,
            ["error: no broker", "  it is away"],
        )

    def test_waits_no_longer_than_it_was_told(self, place):
        """It says how far the job is, which goes on."""
        found, _ = self.start(place, "time.sleep(60)", within=0.0)
        assert (found.job, found.state, found.exit_code) == ("", "STARTING", None)
        os.kill(found.supervisor, signal.SIGTERM)
        os.waitpid(found.supervisor, 0)


class TestTheLog:
    """The file that a job without a terminal writes to."""

    def test_is_of_one_job(self, tmp_path, monkeypatch):
        """Two projects of ``onceflow init`` in folders of one name: each its own, from wherever it is started."""
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        monkeypatch.setattr(sys, "path", list(sys.path))
        for project in ("blue", "green"):
            init(tmp_path / project / "shop")
        blue, green = (_log_of(tmp_path / project / "shop" / "job.py", None, {}) for project in ("blue", "green"))
        monkeypatch.chdir(tmp_path / "blue")
        assert _log_of(Path("shop", "job.py"), None, {}) == blue != green
        assert {log.parent for log in (blue, green)} == {tmp_path / "state" / "onceflow"}
        assert {log.name.rpartition("-")[0] for log in (blue, green)} == {"paid-orders"}
        other = log_file.default("a/b" * 200, "file:///c")
        assert (other.parent, len(other.name) < 255) == (blue.parent, True)

    def test_does_not_grow_without_end(self, tmp_path, monkeypatch):
        """What was there is beside it, once; who writes to it goes on at its end."""
        monkeypatch.setattr(log_file, "LARGEST", 100)
        path = tmp_path / "a.log"
        with log_file.opened(path) as file:
            for round_ in range(3):
                file.write(f"{round_}".encode() * 101)
                log_file.bound(path)
            file.write(b"end")
            log_file.bound(path)
        assert path.read_text() == "end"
        assert path.with_name("a.log.1").read_text() == "2" * 101
        assert stat.S_IMODE(path.with_name("a.log.1").stat().st_mode) == 0o600

    def test_is_for_its_user_alone(self, tmp_path):
        """Also where it was there, and others could read it."""
        path = tmp_path / "a.log"
        path.write_text("before\n")
        path.chmod(0o644)
        log_file.opened(path).close()
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("before\n", 0o600)

    def test_that_cannot_be_written_is_told(self, tmp_path):
        """Before anything is started."""
        (tmp_path / "file").write_text("")
        with pytest.raises(SetupError) as told:
            log_file.opened(tmp_path / "file" / "a.log")
        assert "--log" in parts_of(told.value, SetupError, "a.log").cause


def test_a_process_without_a_parent_has_none(monkeypatch):
    """Nor one whose variable was passed on to it by somebody else."""
    monkeypatch.delenv(child.LINE, raising=False)
    assert child.parent() is None
    monkeypatch.setenv(child.LINE, "987")
    assert child.parent() is None
    assert child.LINE not in os.environ


class TestOthers:
    """Jobs that run when one begins."""

    @pytest.fixture(autouse=True)
    def runtime(self, monkeypatch, tmp_path):
        """A folder of its own."""
        monkeypatch.setenv("ONCEFLOW_RUNTIME_DIR", str(tmp_path / "run"))

    def told(self, mine, other, caplog):
        other._started_at = "2026-01-01T10:00:00.000+00:00"  # both are of this process
        with Server(mine), Server(other), caplog.at_level("WARNING"):
            look_for_others(mine)
        return caplog.text

    def test_of_the_same_name(self, caplog):
        """It is said: an order by name could not be given."""
        told = self.told(JobStatus("a", "file:///1"), JobStatus("a", "file:///2", writes_as="onceflow-7"), caplog)
        assert "another job of this name runs" in told

    def test_on_the_same_checkpoint(self, caplog):
        """It is said that it ends; but not of one's own parent, which answers for the job until it begins."""
        assert "takes over" in self.told(JobStatus("a", "file:///1"), JobStatus("b", "file:///1"), caplog)
        caplog.clear()
        mine = JobStatus("a", "file:///1", supervisor=os.getpid())
        assert self.told(mine, JobStatus("a", "file:///1"), caplog) == ""

    def test_on_a_copy_of_the_checkpoint(self, caplog):
        """It is refused: both would write under the same names."""
        mine, copy = (JobStatus("a", f"file:///{n}", writes_as="onceflow-7") for n in (1, 2))
        with pytest.raises(ConfigurationError) as refused:
            self.told(mine, copy, caplog)
        assert "--as-new" in parts_of(refused.value, ConfigurationError, "file:///2").action

    def test_that_have_nothing_in_common(self, caplog):
        """Are no matter, nor is the job itself."""
        other = JobStatus("b", "file:///2", writes_as="onceflow-8")
        assert self.told(JobStatus("a", "file:///1", writes_as="onceflow-7"), other, caplog) == ""


class TestCountingAlone:
    """A process that nobody supervises counts by itself."""

    def counting(self, place, strategy=TWICE, tolerable=0):
        checkpoint = Place.at(str(place), 2)
        return Counting(
            Restarts(strategy, tolerable, time.monotonic), partial(keep_in, checkpoint), recorded_in(checkpoint)
        )

    def test_an_epoch_that_is_reached_since_is_a_success(self, place):
        """What was recorded before this process is none, nor is it when it is told again: the job ends."""
        (place / "commits").mkdir()
        (place / "commits" / "7").write_text("v1\n{}")
        counts = self.counting(place)
        for epoch in (None, 6, 7):
            counts.reached(epoch)
        assert counts.failed(Reported("KafkaUnavailableError", "away")) is None
        counts.reached(8)
        assert [counts.failed(Reported("KafkaUnavailableError", "away")) for _ in range(3)] == [0.0, 0.0, None]
        assert [each.recorded for each in history(place)] == [7, 8, 8, 8]

    def test_what_a_new_process_is_for_is_no_restart_here(self, place):
        """It is kept, and takes nothing from the number."""
        counts = self.counting(place)
        counts.reached(0)
        assert counts.failed(Reported("EpochFailedError", "Java is gone", here=False)) is None
        assert counts.failed(Reported("EpochFailedError", "x")) == 0.0
        assert [each.followed_by for each in history(place)] == ["the job ended", "restart after 0.0 s"]

    def test_a_refused_start_leaves_nothing_behind(self, place):
        """Neither where no job has begun, nor where one has: nothing was started."""
        counts = self.counting(place)
        assert counts.failed(Reported("CheckpointConflictError", "a copy", retriable=False)) is None
        assert history(place) == []
        (place / "onceflow" / "job.json").unlink()
        assert counts.failed(Reported("KafkaUnavailableError", "away")) is None
        assert history(place) == []

    def test_what_is_told_of_an_error(self):
        """Its class, its first line, its epoch, and whether it is one of an epoch before its decision."""
        told = Reported.of(PreCommitError("not proven\nmore", epoch=7))
        assert told == Reported("PreCommitError", "not proven", 7, undecided=True)
        told = Reported.of(FencedError("a newer start", epoch=None), here=False)
        assert told == Reported("FencedError", "a newer start", retriable=False, here=False)
