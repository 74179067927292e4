"""How a job ends, as its supervisor sees it: the lines that it leaves, its exit code, and what of it is left over.

The lines are all of stdout and stderr.
"""

import contextlib
import os
import re
import signal

import pytest

from onceflow.processes import command_line, descendants
from tests.support.harness import Ended, Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

JAVAS = "Picked up JAVA_TOOL_OPTIONS"  # where this machine sets it
OF_SPARK = re.compile(
    r"[\d/]{8} [\d:]{8} (ERROR|WARN) \w+: |\tat |\t\.\.\. "
    r"|(Exception in thread .*|Caused by: )?(java|org\.apache\.spark)\.\w+"
)
LOGGED = re.compile(r"\d{4}-\d\d-\d\d [\d:,]+ (INFO|WARNING) +(.*)")


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """A job over an empty topic, in a process group of its own."""
    return Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", own_group=True)


def lines(ended: Ended) -> list[str]:
    return [line for line in ended.log.splitlines() if not line.startswith(JAVAS)]


def is_spark(pid: int) -> bool:
    """Whether it is Spark's Java, and no longer what puts its command line together."""
    told = command_line(pid)
    return "deploy.SparkSubmit" in told and "launcher.Main" not in told and "/java" in told


def journal(p: Pipeline) -> int:
    return len(list((p.ours / "journal").glob("*.json")))


def test_an_error_with_a_message_is_that_message_and_nothing_else(pipeline):
    """A record that cannot be read: log lines, four lines of the error and one for the supervisor; no traceback."""
    pipeline.job = "failing"
    pipeline.send(10, value=lambda _: b"{not json")
    ended = pipeline.run(FAULT="record")
    assert ended.code == 1
    *before, what, harmless, cause, action, last = lines(ended)
    assert before
    assert all(map(LOGGED.match, before)), ended.log
    where = f"error: the record at topic {pipeline.source}, partition \\d, offset 0 cannot be read: "
    assert re.fullmatch(where + "its value: it is no JSON object, or one that is cut short", what)
    assert harmless.startswith("  Harmless when: for what is visible")
    assert cause.startswith("  Likely cause: the source's on_malformed=fail")
    assert action.startswith("  What to do: correct the schema")
    assert last == "  MalformedRecordError, exit code 1: do not start it again as it is"


@pytest.mark.faults
def test_an_error_in_a_users_function_is_told_with_its_line(pipeline):
    """Its class, its words and where it was raised are the first line; nothing else of Spark's traceback is there."""
    pipeline.job = "failing"
    pipeline.send(10)
    ended = pipeline.run(FAULT="function")
    assert ended.code == 75
    *before, what, harmless, cause, action, last = lines(ended)
    assert all(map(LOGGED.match, before)), ended.log
    said = (
        r"ValueError: a mistake of the user's, with \d+ ids, at .*/failing_job\.py:17, in broken: raise ValueError\(.*"
    )
    assert re.fullmatch(f"error: epoch 0 failed before its decision: {said}", what), ended.log
    assert harmless.startswith("  Harmless when: always: nothing of it is visible")
    assert cause.startswith("  Likely cause: your function raised it")
    assert action.startswith("  What to do: mend that line")
    assert last == "  EpochFailedError, exit code 75: start it again as it is"


def send(number: signal.Signals, to: str, pid: int) -> None:
    """Send a signal to the driver, to its process group, or at once to all processes, as service managers do."""
    if to == "group":
        os.killpg(pid, number)
        return
    if to == "all":
        for each in descendants(pid):
            # Java ends its idle workers by itself: one may have ended since it was listed.
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, number)
    os.kill(pid, number)


@pytest.mark.parametrize(
    ("number", "to"),
    [
        pytest.param(signal.SIGTERM, "driver", marks=pytest.mark.faults),
        pytest.param(signal.SIGTERM, "group", marks=pytest.mark.faults),
        (signal.SIGTERM, "all"),
        pytest.param(signal.SIGINT, "group", marks=pytest.mark.faults),
    ],
)
def test_a_job_that_is_stopped_says_so_in_one_line(pipeline, processes, number, to):
    """Whoever gets the signal, the end is clean: log lines only, nothing open, no process left, each record once.

    Where Spark's Python workers get it as well, Spark may say so.
    """
    pipeline.per_epoch = 200
    pipeline.send(10_000)
    process = pipeline.start(UNTIL="stopped")
    processes.append(process)
    wait_until(lambda: process.poll() is not None or (pipeline.checkpoint / "commits" / "1").exists(), what="an epoch")
    family = descendants(process.pid)
    send(number, to, process.pid)
    ended = pipeline.end(process, 30)
    assert ended.code == 128 + number, ended.log
    # Of a Python worker that the signal ended, in the middle of a task or before its first, Spark tells itself.
    told = [line for line in lines(ended) if to != "all" or not OF_SPARK.match(line)]
    assert all(map(LOGGED.match, told)), ended.log
    assert LOGGED.match(told[-1])[2] == f"copy: stopped by {number.name}"
    assert ended.log.count("stopped by") == 1
    assert pipeline.open_transactions() == []
    wait_until(lambda: not any(map(command_line, family)), what="the end of Java and its workers")
    pipeline.per_epoch = 10_000
    pipeline.run_well()
    pipeline.check()


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        pytest.param("Java starts", signal.SIGTERM, marks=pytest.mark.faults),
        pytest.param("Spark starts", signal.SIGTERM, marks=pytest.mark.faults),
        pytest.param("Spark starts", signal.SIGINT, marks=pytest.mark.faults),
        ("the checkpoint is taken over", signal.SIGTERM),
    ],
)
def test_a_job_that_is_stopped_while_it_starts_says_so_in_one_line(pipeline, processes, moment, number):
    """Nothing but that line, nothing later from a Java that was half started, and the exit code is the signal's."""
    pipeline.send(100)
    process = pipeline.start(UNTIL="stopped")
    processes.append(process)
    reached = {
        "Java starts": lambda: descendants(process.pid),
        "Spark starts": lambda: any(map(is_spark, descendants(process.pid))),
        "the checkpoint is taken over": lambda: journal(pipeline),
    }[moment]
    wait_until(lambda: process.poll() is not None or reached(), what=moment)
    family = descendants(process.pid)
    process.send_signal(number)
    pipeline.end(process, 30)
    wait_until(lambda: not any(map(command_line, family)), what="the end of Java")
    ended = pipeline.end(process)  # again: with what Java wrote behind our end
    assert ended.code == 128 + number, ended.log
    told = [LOGGED.match(line) for line in lines(ended)]
    assert all(told), ended.log
    assert told[-1][2] == f"copy: stopped by {number.name}"
    assert ended.log.count("stopped by") == 1


@pytest.mark.faults
def test_nothing_is_left_of_a_killed_driver(pipeline, processes):
    """SIGKILL of Python in the middle of epochs: Java, in a session of its own, ends by itself, and its workers too."""
    pipeline.per_epoch = 200
    pipeline.send(10_000)
    process = pipeline.start(UNTIL="stopped")
    processes.append(process)
    wait_until(lambda: process.poll() is not None or (pipeline.checkpoint / "commits" / "1").exists(), what="an epoch")
    family = descendants(process.pid)
    assert [pid for pid in family if "SparkSubmit" in command_line(pid) and os.getsid(pid) != os.getsid(process.pid)]
    process.kill()
    process.wait()
    wait_until(lambda: not any(map(command_line, family)), what="the end of Java and its workers")
    pipeline.per_epoch = 10_000
    pipeline.run_well()
    pipeline.check()


@pytest.mark.faults
def test_a_java_that_was_killed_is_a_reason_to_start_again(pipeline, processes):
    """What the system does for want of memory: the error says with what Java ended, and the exit code is 75."""
    pipeline.per_epoch = 200
    pipeline.send(10_000)
    process = pipeline.start(UNTIL="stopped")
    processes.append(process)
    wait_until(lambda: process.poll() is not None or (pipeline.checkpoint / "commits" / "1").exists(), what="an epoch")
    for pid in descendants(process.pid):
        if "SparkSubmit" in command_line(pid):
            os.kill(pid, signal.SIGKILL)
    ended = pipeline.end(process, 60)
    assert ended.code == 75, ended.log
    assert "error: Spark's Java ended with SIGKILL while the job ran" in ended.log
    pipeline.per_epoch = 10_000
    pipeline.run_well()
    pipeline.check()
