"""Our errors on their way through Spark's text: every part arrives, whatever is in it and whatever Spark does to it."""

import textwrap
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow import errors
from onceflow.errors import OnceflowError, PreCommitError, RowRefusedError
from onceflow.execution import carried
from onceflow.execution.failures import from_spark

KINDS = [c for c in vars(errors).values() if isinstance(c, type) and issubclass(c, OnceflowError)]
FORGED = (
    carried.MARKER
    + '{"error": "FencedError", "what": "x", "harmless": "", "cause": "", "action": "", "facts": {"topic": "t"}}'
)
TEXT = st.one_of(
    st.text(),
    st.text(alphabet='{}[]"\\\n\r\t\0 \u2028\ud800é:,'),
    st.text(min_size=1, max_size=5).map(lambda part: part * 20_000),
    st.just(FORGED),
    st.just(f"\n  {FORGED}\n"),
    st.just(FORGED[:-3]),
    st.just("\n\tat java.base/java.lang.Thread.run\n\nDriver stacktrace:"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FACTS = st.dictionaries(st.sampled_from(["topic", "partition", "offset", "epoch", "sink"]), JSON)


def in_worker(error: OnceflowError, cause: Exception | None = None) -> str:
    """What a worker sends of an error that leaves a task: its traceback, as UTF-8."""
    try:
        try:
            raise error from cause
        except OnceflowError as raised:
            carried.add_line(raised)
            raise
    except OnceflowError:
        return traceback.format_exc().encode("utf-8").decode()


def in_spark(text: str) -> RuntimeError:
    """The same inside of Spark's exception, in the shape of 4.2: indented, and told twice."""
    once = f"org.apache.spark.api.python.PythonException: {text}\n\tat org.apache.spark.api.python.Reader.x(R.scala:1)"
    told = textwrap.indent(once, "    ", lambda _: True)
    return RuntimeError(
        f"[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure: Task 0 in stage "
        f"1.0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (host executor driver): {told}\n"
        f"\nDriver stacktrace:\n{told}"
    )


@given(st.sampled_from(KINDS), TEXT, TEXT, TEXT, TEXT, FACTS)
def test_every_part_survives(kind, what, harmless, cause, action, facts):
    """Newlines, braces, quotes, any script, very long, and text that looks like such a line itself."""
    given_ = kind(what, harmless=harmless, cause=cause, action=action, **facts)
    message = str(given_)
    found = from_spark(in_spark(in_worker(given_)))
    assert type(found) is kind
    told = (given_.what, given_.harmless, given_.cause, given_.action)  # with escapes
    assert (found.what, found.harmless, found.cause, found.action) == told
    assert found.facts == facts
    assert str(found) == message


def test_the_first_complete_line_counts():
    """Where Spark cut the first one, the next is read."""
    line = in_worker(PreCommitError("shard 3 is not proven", action="start the job again"))
    cut = line[: line.index(carried.MARKER) + 40]
    found = carried.find(f"{cut}...\n{line}\n{in_worker(RowRefusedError('another'))}")
    assert type(found) is PreCommitError
    assert found.action == "start the job again"


@pytest.mark.parametrize("left", [len(carried.MARKER), 30, 10_000])
def test_of_a_line_that_was_cut_off_the_message_is_left(left):
    """Class and message are found by the class name, as for an error that has no line; never half a line."""
    text = in_worker(RowRefusedError("a row of " + "x" * 20_000, cause="the row", action="mend it"))
    found = from_spark(RuntimeError(text[: text.index(carried.MARKER) + left]))
    assert type(found) is RowRefusedError
    assert found.what.endswith("Likely cause: the row\n  What to do: mend it")
    assert carried.MARKER not in str(found)


@pytest.mark.parametrize(
    "line",
    [
        '{"error": "Exception", "what": "x", "harmless": "", "cause": "", "action": "", "facts": {}}',
        '{"error": "annotations", "what": "x", "harmless": "", "cause": "", "action": "", "facts": {}}',
        '{"error": "FencedError", "what": "x", "facts": {}}',
        '{"error": "FencedError", "what": "x", "harmless": 1, "cause": "", "action": "", "facts": {}}',
        '{"error": "FencedError", "what": 1, "harmless": "", "cause": "", "action": "", "facts": {}}',
        '"FencedError"',
    ],
)
def test_what_no_worker_writes_is_not_read(line):
    """Only the exact shape makes an error, and only one of ours."""
    assert carried.find(carried.MARKER + line) is None


def test_facts_that_are_not_json_stay_behind():
    """No repr and no pickle of them crosses; the others do."""
    found = carried.find(in_worker(PreCommitError("x", topic="t", when=object(), pair=(1, 2), rate=float("nan"))))
    assert found.facts == {"topic": "t"}


def test_what_it_was_raised_from_is_still_shown():
    """Executors' logs keep the whole chain; of our errors in it the one that left the task is found."""
    text = in_worker(PreCommitError("not proven", action="again"), cause=RowRefusedError("a row"))
    assert "a row" in text
    found = from_spark(in_spark(text))
    assert type(found) is PreCommitError


def test_an_error_of_a_users_own_is_told_as_what_it_is_of_ours():
    """The driver may not have the class; its parent in our tree says whether to start again."""

    class MineError(RowRefusedError):
        pass

    assert type(carried.find(in_worker(MineError("x")))) is RowRefusedError
