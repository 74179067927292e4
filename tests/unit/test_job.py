"""``Job.run`` in other people's programs, and ``Job.main``: what each does to its process. No Spark, no broker.

Each test is a program of its own. Spark's session is left out: what is called here ends before it is needed. With Spark
the same is shown by ``tests/integration/test_faults.py``.
"""

import os
import subprocess
import sys

import pytest

HOST = """
import logging, os, signal, sys, threading

import onceflow as of
from onceflow import job as module

module.make_session = lambda name, settings: None
job = of.Job("hosted", checkpointing=of.Checkpointing(sys.argv[1]))

class Mine(Exception):
    pass

@job.stream()
def stream(spark):
    {body}

def theirs(number, frame):
    print("their handler")

signal.signal(signal.SIGTERM, theirs)
signal.signal(signal.SIGINT, theirs)

def process():
    loggers = [logging.getLogger(name) for name in (None, "onceflow", "onceflow.job")]
    told = [(one.level, one.handlers, one.propagate) for one in loggers]
    return repr(told), signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT), sys.excepthook

before = process()
"""

RAISES = "raise Mine"
TOLD = "os.kill(os.getpid(), signal.{}); raise Mine('a handler runs before the next line')"


def ended(tmp_path, body, program):
    """Run a host program to its end."""
    return subprocess.run(
        [sys.executable, "-c", HOST.format(body=body) + program, str(tmp_path / "checkpoint")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_a_host_keeps_its_process_when_the_job_fails(tmp_path):
    """In the main thread and in another one the error is raised; logging and signals stay, and it is silent."""
    program = """
def attempt():
    try:
        job.run()
    except Mine:
        print("raised")

attempt()
assert process() == before
thread = threading.Thread(target=attempt)
thread.start()
thread.join()
assert process() == before
os.kill(os.getpid(), signal.SIGTERM)
print("alive")
"""
    host = ended(tmp_path, RAISES, program)
    assert host.returncode == 0, host.stderr
    assert host.stdout.splitlines() == ["raised", "raised", "their handler", "alive"]
    assert host.stderr == ""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_host_is_told_of_the_signal_and_lives(tmp_path, name):
    """``Stopped`` carries the signal, passes an ``except Exception``, and the handlers are the host's again."""
    program = """
try:
    try:
        job.run()
    except Exception:
        print("retried")
except of.Stopped as stopped:
    print(stopped, stopped.signal.name, stopped.clean)
assert process() == before
os.kill(os.getpid(), signal.SIGINT)
print("alive")
"""
    host = ended(tmp_path, TOLD.format(name), program)
    assert host.returncode == 0, host.stderr
    assert host.stdout.splitlines() == [f"stopped by {name} {name} False", "their handler", "alive"]


def test_in_another_thread_signals_stay_the_hosts(tmp_path):
    """A job in a thread takes none: the host's handler runs, and the job goes on."""
    program = """
seen = []
signal.signal(signal.SIGTERM, lambda number, frame: seen.append("their handler"))

def attempt():
    try:
        job.run()
    except Mine:
        seen.append("raised")

thread = threading.Thread(target=attempt)
thread.start()
thread.join()
print(sorted(seen))
"""
    host = ended(tmp_path, "os.kill(os.getpid(), signal.SIGTERM); raise Mine", program)
    assert host.returncode == 0, host.stderr
    assert host.stdout == "['raised', 'their handler']\n"


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_script_ends_with_its_signal(tmp_path, name, code):
    """``job.main()`` ends the process with 128 + the signal, although a thread of it hangs."""
    program = """
threading.Thread(target=threading.Event().wait).start()
job.main()
print("went on")
"""
    script = ended(tmp_path, TOLD.format(name), program)
    assert script.returncode == code, script.stderr
    assert script.stdout == ""


def test_a_script_that_fails_shows_why(tmp_path):
    """``job.main()`` raises as ``run`` does, and the log has a place on stderr."""
    script = ended(tmp_path, "logging.getLogger('onceflow.x').info('an epoch'); raise Mine", "job.main()")
    assert script.returncode == 1
    assert "INFO    an epoch" in script.stderr
    assert "Mine" in script.stderr
