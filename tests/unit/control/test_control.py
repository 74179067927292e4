"""The jobs of this user: found by their sockets, asked how they stand, and ordered to end."""

import json
import os
import socket
import subprocess
import sys
import threading

import pytest
from typer.testing import CliRunner

from onceflow.cli.app import app
from onceflow.control import client, registry
from onceflow.control.server import Server
from onceflow.control.standing import JobStatus
from onceflow.errors import ConfigurationError, NotEndedError, SetupError
from onceflow.supervision import detached
from tests.support.advice import parts_of


@pytest.fixture(autouse=True)
def runtime(monkeypatch, tmp_path):
    """A folder of its own."""
    path = tmp_path / "run"
    monkeypatch.setenv("ONCEFLOW_RUNTIME_DIR", str(path))
    return path


def job(name="orders", checkpoint="file:///checkpoint"):
    return JobStatus(name, checkpoint)


def test_a_job_is_found_and_says_how_it_stands(runtime):
    """From its start to its end; of two each for itself, and nobody else may enter the folder."""
    orders, alerts = job(), job("alerts")
    with Server(orders), Server(alerts):
        orders.begin(lambda: 7)
        orders.failed("a broker was away")
        first, second = client.running()
        assert (first.name, first.state, first.epoch) == ("alerts", "STARTING", None)
        assert (second.name, second.state, second.epoch, second.restarts) == ("orders", "RESTARTING", 7, 1)
        assert (second.pid, second.failure) == (os.getpid(), "a broker was away")
        assert runtime.stat().st_mode & 0o777 == 0o700
    assert client.running() == []
    assert list(runtime.iterdir()) == []


def test_what_a_killed_job_has_left_is_removed(runtime):
    """Nobody answers at its socket."""
    left = (
        "import os; from onceflow.control.server import Server; from onceflow.control.standing import JobStatus\n"
        "Server(JobStatus('killed', 'file:///c')); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", left], check=False)
    assert len(list(runtime.iterdir())) == 1
    assert client.running() == []
    assert list(runtime.iterdir()) == []


def test_a_job_that_is_asked_before_it_listens_is_found_behind_that(monkeypatch):
    """Its socket is bound before it listens: who asks in between must not take it for one of a killed job."""
    asked = []

    class AskedBeforeItListens(socket.socket):
        def listen(self, *backlog):
            asked.append(client.running())
            super().listen(*backlog)

    monkeypatch.setattr(socket, "socket", AskedBeforeItListens)
    with Server(job()):
        assert asked == [[]]
        assert [each.name for each in client.running()] == ["orders"]


@pytest.mark.parametrize("asked", [b"", b"restart\n", b"\xff\xfe\n", b"x" * 10_000 + b"\n", b'{"a": 1}\n'])
def test_what_is_no_order_changes_nothing(asked):
    """It is answered by an error, or not at all; the job goes on, and answers the next one."""
    orders = job()
    with Server(orders):
        (path,) = registry.sockets()
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(str(path))
            one.sendall(asked)
            one.shutdown(socket.SHUT_WR)
            assert "error" in json.loads(one.makefile("rb").readline())
        assert orders.ordered is None
        assert [each.name for each in client.running()] == ["orders"]


@pytest.mark.parametrize("what", ["stop", "cancel"])
def test_an_order_is_waited_for(what):
    """Until the job is gone; what it does meanwhile is its own."""
    orders = job()
    server = Server(orders)

    def end():
        assert orders.was_ordered.wait(30)
        server.close()

    ending = threading.Thread(target=end)
    ending.start()
    client.order(client.find("orders"), what, 30)
    ending.join()
    assert (orders.ordered, orders.state) == (what, "ENDING")


def test_a_cancel_goes_before_a_stop():
    """Whoever has stopped may cancel then; not the other way round."""
    orders = job()
    for what in ("stop", "cancel", "stop"):
        orders.order(what)
    assert orders.ordered == "cancel"


def test_a_job_that_does_not_end_in_time():
    """It is told, with what to do; the order stands, and the other one that is advised reaches it, too."""
    orders = job()
    with Server(orders):
        with pytest.raises(NotEndedError, match=r"has not ended within 0 s") as told:
            client.order(client.find("orders"), "stop", 0)
        assert "onceflow cancel orders" in told.value.action
        parts = parts_of(told.value, NotEndedError, "orders", str(os.getpid()))
        assert "ENDING" in parts.cause
        assert orders.ordered == "stop"
        with pytest.raises(NotEndedError):
            client.order(client.find("orders"), "cancel", 0)
        assert orders.ordered == "cancel"


def test_one_job_must_be_meant():
    """None of the name, or two of it, which are told with their processes."""
    with pytest.raises(ConfigurationError, match="no jobs named orders run here"):
        client.find("orders")
    with Server(job()), Server(job(checkpoint="file:///another")):
        with pytest.raises(ConfigurationError, match="2 jobs named orders run here") as told:
            client.find("orders")
        assert str(os.getpid()) in told.value.cause


@pytest.mark.parametrize("how", ["open", "link", "file"])
def test_a_folder_that_others_may_enter_is_refused(runtime, tmp_path, caplog, how):
    """Somebody else could order jobs to end; a job says so, and runs without being found."""
    if how == "open":
        runtime.mkdir(mode=0o755)
    elif how == "link":
        (tmp_path / "theirs").mkdir(mode=0o700)
        runtime.symlink_to(tmp_path / "theirs")
    else:
        runtime.write_text("")
    with pytest.raises(SetupError, match="running jobs cannot be found at"):
        registry.folder()
    with Server(job()):
        assert "onceflow list will not show this job" in caplog.text


@pytest.mark.parametrize("how", ["another user's", "of all"])
def test_a_folder_that_another_user_may_move_is_refused(monkeypatch, tmp_path, how):
    """The session's folder of who has called `sudo`: he lays one of his own into its place, whose jobs are asked."""
    if how == "of all":
        tmp_path.chmod(0o777)
    elif os.getuid() == 0:
        os.chown(tmp_path, 65534, 65534)
    else:
        pytest.skip("only root can give a folder to another user")
    monkeypatch.delenv("ONCEFLOW_RUNTIME_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(SetupError, match="may lay another folder into its place"):
        registry.folder()


def test_no_job_is_started_in_the_background_where_it_would_not_be_found(runtime, tmp_path):
    """Somebody has made the folder before: the command failed, and the job ran behind it."""
    runtime.mkdir(mode=0o755)
    with pytest.raises(SetupError, match="running jobs cannot be found at"):
        detached.start([sys.executable, "-c", f"open({str(tmp_path / 'ran')!r}, 'w')"], tmp_path / "log", 5)
    assert not (tmp_path / "ran").exists()


def test_the_commands(tmp_path):
    """``list``, ``info`` and ``stop`` for people and for programs; a job is named by its name or its file."""
    runner = CliRunner()
    file = tmp_path / "job.py"
    file.write_text('import onceflow as of\njob = of.Job("orders", checkpointing=of.Checkpointing("somewhere"))\n')
    assert json.loads(runner.invoke(app, ["list", "--output", "json"]).stdout) == {"jobs": []}
    nobody = runner.invoke(app, ["list"])
    assert nobody.stderr.startswith(f"no job of this user runs on this machine (looked at: {registry.folder()});")
    orders = job()
    with Server(orders):
        orders.begin(lambda: 3)
        line = runner.invoke(app, ["list"]).stdout.strip()
        assert line.startswith(f"orders  RUNNING  pid {os.getpid()}  since ")
        assert line.endswith("epoch 3  file:///checkpoint")
        told = json.loads(runner.invoke(app, ["info", str(file), "--output", "json"]).stdout)
        assert (told["name"], told["state"], told["epoch"]) == ("orders", "RUNNING", 3)
        lines = runner.invoke(app, ["info", "orders"]).stdout.splitlines()
        assert {"state       RUNNING", "writes_as   -"} <= set(lines)
        orders.writes_as = "onceflow-5f0c2d1e"
        lines = runner.invoke(app, ["info", "orders"]).stdout.splitlines()
        assert "writes_as   onceflow-5f0c2d1e (how its transactional ids begin)" in lines
        with pytest.raises(NotEndedError):
            runner.invoke(app, ["stop", "orders", "--within", "0"], catch_exceptions=False)
    assert orders.ordered == "stop"


class Gate:
    """A running job's: it notes what is asked of it."""

    def __init__(self, *, holds=True):
        self.holds, self.held, self.released = holds, 0, threading.Event()

    def hold(self, within_s):
        self.held += self.holds
        return self.holds

    def release(self):
        self.held -= 1
        self.released.set()


def test_a_job_is_held_for_as_long_as_somebody_wants_it():
    """Its next epoch waits inside, and only there; meanwhile it answers others."""
    orders, gate = job(), Gate()
    with Server(orders):
        orders.begin(lambda: 7, gate)
        with client.held(client.find("orders")):
            assert gate.held == 1
            assert client.find("orders").epoch == 7
        assert gate.held == 0


def test_a_job_goes_on_when_who_holds_it_is_gone():
    """Killed, or cut off: no epoch waits for a process that is not there."""
    orders, gate = job(), Gate()
    with Server(orders):
        orders.begin(lambda: 7, gate)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(client.find("orders").socket))
        connection.sendall(b"hold\n")
        assert json.loads(connection.makefile("rb").readline()) == {"held": True}
        connection.close()
        connection = None
        assert gate.released.wait(30)
        assert gate.held == 0


@pytest.mark.parametrize("gate", [None, Gate(holds=False)])
def test_a_job_that_cannot_be_held_says_so(gate):
    """One that starts, or is in a long epoch: nothing is held, and asked again it is."""
    orders = job()
    with Server(orders):
        orders.gate = gate
        with pytest.raises(ConfigurationError) as raised, client.held(client.find("orders")):
            pass
        parts_of(raised.value, ConfigurationError, "was not held")
        orders.gate = Gate()
        with client.held(client.find("orders")):
            assert orders.gate.held == 1


def test_a_job_that_was_not_held_to_the_end_says_so(monkeypatch):
    """It goes on when it is held for too long, and what was done meanwhile does not count."""
    monkeypatch.setattr("onceflow.control.server.HELD_FOR_S", 0.05)
    orders, gate = job(), Gate()
    with Server(orders):
        orders.begin(lambda: 7, gate)
        with pytest.raises(ConfigurationError) as raised, client.held(client.find("orders")):
            assert gate.released.wait(30)
        parts_of(raised.value, ConfigurationError, "has gone on")
