"""What is told of an exception in a function of the user's: its class, its words or not, and its line."""

import json
from pathlib import Path

import pytest

from onceflow.checkpoint.refusals import Refusals
from onceflow.errors import EpochFailedError, EpochRefusedError
from onceflow.execution.failures import from_failure
from onceflow.execution.patience import Patience
from onceflow.program import exit_code
from onceflow.spark.raised import in_a_task, is_theirs
from onceflow.storage.store import Store
from onceflow.twophase.messages import Failure, FailureKind
from tests.support.advice import parts_of

SPARKS = "Job aborted due to stage failure: Lost task 0.0: org.apache.spark.api.python.PythonException: "
WORKER = """Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/pyspark/python/lib/pyspark.zip/pyspark/worker.py", line 2044, in process
    serializer.dump_stream(out_iter, outfile)
"""
BEHIND = """

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:581)
Caused by: org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/elsewhere.py", line 1, in other
OSError: another one
"""


def told(*lines, said):
    """Spark's text of an exception, with these frames of the user's and of libraries."""
    frames = "".join(f'  File "{file}", line {line}, in {name}\n    {text}\n' for file, line, name, text in lines)
    return in_a_task(f"{SPARKS}{WORKER}{frames}{said}{BEHIND}")


USERS = ("/home/ann/job.py", 12, "ratio", "return a / b")
LIBRARYS = ("/usr/lib/python3.11/json/decoder.py", 355, "raw_decode", 'raise JSONDecodeError("Expecting value", s)')


def test_class_words_line_and_function_stand_in_one_line():
    """Of all frames the newest one of the user's, as an editor opens it, with the line itself."""
    raised = told(("/home/ann/job.py", 3, "outer", "ratio(1, 0)"), USERS, said="ZeroDivisionError: division by zero")
    assert str(raised) == "ZeroDivisionError: division by zero, at /home/ann/job.py:12, in ratio: return a / b"
    assert raised.comes_again


@pytest.mark.parametrize(
    ("text", "said", "words"),
    [
        ("return int(text)", "ValueError: invalid literal for int() with base 10: 'IBAN'", ""),
        ('return names["IBAN"]', "KeyError: 'IBAN'", ""),
        ('raise ValueError(f"no price for {item}")', "ValueError: no price for ABC-1", "no price for ABC-1"),
        ("return text.upper()", "AttributeError: 'NoneType' object has no attribute 'upper'", "'NoneType' object has"),
        ("return ask(url)", "requests.exceptions.ConnectionError: refused", "refused"),
        ("raise ValueError", "ValueError", ""),
    ],
)
def test_words_that_may_hold_a_value_are_told_where_their_author_wrote_them(text, said, words):
    """Python's own words of a ValueError or a KeyError repeat the value; those behind a ``raise`` are the user's."""
    raised = told(("/home/ann/job.py", 12, "f", text), said=said)
    assert raised.words.startswith(words)
    assert bool(raised.words) is bool(words)
    assert raised.hides is ("IBAN" in said)
    assert "IBAN" not in f"{raised.kind}{raised.words}"


def test_words_of_a_library_that_was_given_a_value_are_not_told():
    """The line is the user's that called it."""
    raised = told(USERS, LIBRARYS, said="json.decoder.JSONDecodeError: Expecting value: IBAN")
    assert str(raised) == "json.decoder.JSONDecodeError, at /home/ann/job.py:12, in ratio: return a / b"
    assert json.decoder.JSONDecodeError, "it is known since this module is loaded"


@pytest.mark.parametrize(
    ("said", "again"),
    [
        ("TypeError: 'NoneType' object is not subscriptable", True),
        ("json.decoder.JSONDecodeError: Expecting value", True),
        ("ConnectionRefusedError: [Errno 111] Connection refused", False),
        ("requests.exceptions.ConnectionError: refused", False),
        ("MemoryError", False),
        ("RuntimeError: CUDA out of memory", False),
    ],
)
def test_what_comes_again_with_the_same_records_is_told_from_what_may_pass(said, again):
    """Only of Python's own classes about values, and of those below them, is it known."""
    assert told(USERS, said=said).comes_again is again


def test_of_exceptions_that_led_to_one_another_the_last_is_told():
    """It is the one that ended the task."""
    first = f"{WORKER}{_frame(USERS)}KeyError: 'IBAN'\n\nDuring handling of the above exception, another exception "
    second = f"occurred:\n\n{WORKER}{_frame(('/home/ann/job.py', 15, 'f', 'raise Wrong(1)'))}__main__.Wrong: 1\n"
    raised = in_a_task(SPARKS + first + second + BEHIND)
    assert (raised.kind, raised.line, raised.words) == ("__main__.Wrong", 15, "1")


def _frame(frame):
    return '  File "{}", line {}, in {}\n    {}\n'.format(*frame)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no traceback",
        f"{SPARKS}{WORKER}ValueError: of Spark's own\n{BEHIND}",
        "Traceback (most recent call last):\n",
    ],
)
def test_what_no_line_of_the_users_raised_is_none(text):
    """Nobody is blamed for what a library does by itself."""
    assert in_a_task(text) is None


def test_frames_are_told_apart():
    """A notebook's cell and an interactive line are the user's; onceflow's, wherever it lies, are not."""
    here = Path(__file__).parents[3]
    assert all(
        map(is_theirs, ("<stdin>", "<ipython-input-3-0a>", "/run/ipykernel_1/2.py", str(here / "examples/a.py")))
    )
    ours = here / "src/onceflow/execution/task.py"
    assert not any(map(is_theirs, (str(ours), "<frozen importlib>", "/opt/spark/python/lib/pyspark.zip/pyspark/a.py")))


def _failed(text):
    return from_failure(Failure(FailureKind.RUN_FAILED, 7, (), "x"), RuntimeError(text), "file:///checkpoint", "")


def test_a_function_that_fails_is_the_first_line_and_at_its_third_start_one_for_a_person(tmp_path):
    """A supervisor starts it again twice; what may pass, as long as it takes."""

    def starts(said, number):
        text = f"{SPARKS}{WORKER}{_frame(USERS)}{said}{BEHIND}"
        kept = Refusals(Store(tmp_path / said[:4]))
        return [Patience(kept).failed(_failed(text), 7, "v1\n{}\n{}") for _ in range(number)]

    told = starts("ZeroDivisionError: division by zero", 3)
    assert [type(each) for each in told] == [EpochFailedError, EpochFailedError, EpochRefusedError]
    assert [exit_code(each) for each in told] == [75, 75, 1]
    first = str(told[0]).splitlines()[0]
    assert first.startswith("epoch 7 failed before its decision: ZeroDivisionError: division by zero, at /home/ann/job")
    parts_of(
        told[2], EpochRefusedError, "3 starts in a row", "ZeroDivisionError at /home/ann/job.py:12", "mend that line"
    )
    assert {exit_code(each) for each in starts("ConnectionRefusedError: no", 5)} == {75}
