"""``Job.run`` in other people's programs, and ``Job.main``: what each does to its process. No Spark, no broker.

Each test is a program of its own. Spark's session is left out: what is called here ends before it is needed. With Spark
the same is shown by ``tests/integration/execution/test_faults.py``.
"""

import os
import subprocess
import sys

import pytest

import onceflow as of
from onceflow.errors import ConfigurationError

HOST = """
import logging, os, signal, sys, threading

import onceflow as of
from onceflow import job as module

module.make_session = lambda *_, **__: None
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


def test_the_sinks_of_a_job_are_those_of_its_sources_dead_letters_too():
    """Each once: what is decided of them is committed before Spark is started, and `onceflow txn` looks at them."""
    kafka = of.KafkaCluster("broker:9092")
    out, dead = of.KafkaSink(kafka, "out"), of.KafkaSink(kafka, "dead")
    letters = [of.DeadLetter(dead), of.DeadLetter(dead), "skip"]
    sources = [of.KafkaSource(kafka, "in", value=of.Text(), on_malformed=each) for each in letters]
    job = of.Job("j", checkpointing=of.Checkpointing("c"))
    job.stream(sinks=[out], sources=sources)(lambda spark: None)
    assert job.sinks == (out, dead)


def ended(tmp_path, body, program, **environment):
    """Run a host program to its end."""
    return subprocess.run(
        [sys.executable, "-c", HOST.format(body=body) + program, str(tmp_path / "checkpoint")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
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
    """``job.main()`` raises what is not ours, and the log has a place on stderr."""
    script = ended(tmp_path, "logging.getLogger('onceflow.x').info('an epoch'); raise Mine", "job.main()")
    assert script.returncode == 1
    assert "INFO    an epoch" in script.stderr
    assert "Mine" in script.stderr


def test_a_function_that_returns_no_stream_is_named(tmp_path):
    """Nothing, or a query that it started by itself: the error says whose mistake it is, and what to return."""
    script = ended(tmp_path, "return None", "job.run()")
    assert "your function stream returned None" in script.stderr
    assert "What to do: return one streaming DataFrame, or {sink: DataFrame}" in script.stderr
    program = """
from pyspark.sql.streaming.query import StreamingQuery

stream.__code__ = (lambda spark: object.__new__(StreamingQuery)).__code__
stream.__globals__["StreamingQuery"] = StreamingQuery
job.run()
"""
    script = ended(tmp_path, "return None", program)
    assert "your function stream returned something of type StreamingQuery" in script.stderr
    assert "Likely cause: it started a query by itself; onceflow starts it" in script.stderr


def test_a_function_is_decorated_with_or_without_parentheses():
    """Both forms keep the function as it is; only with parentheses are there sinks to name."""
    sink = of.KafkaSink(of.KafkaCluster("localhost:1"), "t")

    def stream(spark):
        return spark

    bare, called = (of.Job("j", checkpointing=of.Checkpointing("c")) for _ in range(2))
    assert bare.stream(stream) is stream
    assert bare.sinks == ()
    assert called.stream(sinks=[sink])(stream) is stream
    assert called.sinks == (sink,)
    with pytest.raises(ConfigurationError, match="two stream functions"):
        bare.stream(lambda spark: spark)


@pytest.mark.parametrize(
    ("cells", "allowed"),
    [
        ([("<cell 1>", "\n@job.stream\ndef orders(spark): return 1"), ("<cell 1>", None)], True),
        ([("<cell 1>", "@job.stream\ndef orders(spark): return 1"), ("<cell 2>", None)], True),
        ([("<stdin>", "@job.stream\ndef orders(spark): return 1"), ("<stdin>", None)], True),
        ([("<cell 1>", "@job.stream\ndef orders(spark): return 1"), ("<cell 2>", "sales")], False),
        ([("job.py", "@job.stream\ndef orders(spark): return 1"), ("job.py", "\n\n")], False),
    ],
)
def test_a_cell_that_runs_again_writes_its_function_anew(cells, allowed):
    """Edited or not; another function beside it, or a second one of its name in one file, is refused."""
    names = {"job": of.Job("j", checkpointing=of.Checkpointing("c"))}
    (first, text), (second, change) = cells
    again = text.replace("orders", change) if change == "sales" else (change or "") + text
    exec(compile(text, first, "exec"), names)  # noqa: S102 - as a notebook does
    if allowed:
        exec(compile(again, second, "exec"), names)  # noqa: S102
        assert names["job"]._require_function() is names["orders"]
    else:
        with pytest.raises(ConfigurationError, match="two stream functions"):
            exec(compile(again, second, "exec"), names)  # noqa: S102


def test_a_function_needs_no_name(tmp_path):
    """A partial has none: it runs as others do."""
    program = """
import functools
other = of.Job("other", checkpointing=of.Checkpointing(sys.argv[1]))
other.stream(functools.partial(stream))
other.run()
"""
    assert "your function partial returned None" in ended(tmp_path, "return None", program).stderr


@pytest.mark.parametrize(
    ("kind", "code", "again"),
    [("EpochFailedError", 75, "start it again as it is"),
     ("FencedError", 1, "do not start it again as it is")],
)  # fmt: skip
def test_a_script_that_fails_by_our_error_shows_only_its_message(tmp_path, kind, code, again):
    """The message, and what a supervisor goes by, are the whole of stderr; the traceback comes when asked for."""
    program = f"from onceflow.errors import {kind}\njob.main()"
    script = ended(tmp_path, f"raise {kind}('what', cause='why')", program)
    assert script.returncode == code
    told = [line for line in script.stderr.splitlines() if " INFO " not in line]
    assert told == ["error: what", "  Likely cause: why", f"  {kind}, exit code {code}: {again}"]
    script = ended(tmp_path, f"raise {kind}('what', cause='why')", program, ONCEFLOW_DEBUG="1")
    assert "Traceback" in script.stderr


def test_a_line_comes_once_although_py4j_logs(tmp_path):
    """py4j's way of logging gives the root logger a handler; our lines stay single, and its tracebacks stay away."""
    body = """
    import py4j.java_gateway
    exec(compile("logging.info('x'); logging.error('broken pipe')", py4j.java_gateway.__file__, "exec"))
    logging.getLogger("py4j.clientserver").error("an exception of the proxy")
    logging.getLogger("onceflow.x").info("an epoch")
    logging.getLogger("theirs").warning("the user's own")"""
    script = ended(tmp_path, body, "job.main()")
    assert script.stderr.count("an epoch") == 1
    assert "broken pipe" not in script.stderr
    assert "proxy" not in script.stderr
    assert "the user's own" in script.stderr
