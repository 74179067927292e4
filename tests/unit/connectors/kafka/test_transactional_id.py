"""Names of transactions: ours parse back, foreign ones are never touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.connectors.kafka.transactional_id import (
    TransactionalId,
    job_prefix,
    name_transaction,
    parse_transactional_id,
)

JOB = "0123abcd4567"
SINKS = st.from_regex(r"\A[A-Za-z0-9._-]{1,20}\Z") | st.sampled_from(["x-3-0-1", "-", "1-0-0", "0-x-0-0-0", "a-"])
NUMBERS = st.integers(0, 2**40)


@given(SINKS, NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_our_names_parse_back(sink, incarnation, shard, epoch, attempt):
    """Whatever a sink is called, even like the end of a name, the parts come back as they went in."""
    name = name_transaction("onceflow", JOB, incarnation, sink, shard, epoch, attempt)
    expected = TransactionalId("onceflow", JOB, incarnation, sink, shard, epoch % 2, attempt)
    assert parse_transactional_id(name, "onceflow", JOB) == expected


@given(st.text(max_size=60))
def test_a_foreign_name_is_not_ours(text):
    """Parsing never raises, with our prefix before it or without; what parses is exactly what we would have written."""
    for name in (text, job_prefix("onceflow", JOB) + text):
        parsed = parse_transactional_id(name, "onceflow", JOB)
        assert parsed is None or str(parsed) == name


@pytest.mark.parametrize(
    "name",
    [
        f"onceflow-{JOB}-1-s-0-0",  # a number is missing
        f"onceflow-{JOB}-1-s-0-2-0",  # no parity
        f"onceflow-{JOB}-01-s-0-0-0",  # we write no leading zeros
        f"onceflow-{JOB}-1-s-00-0-0",
        f"onceflow-{JOB}-1--0-0-0",  # no sink
        f"onceflow-{JOB}-1-s s-0-0-0",  # no sink of ours has a blank in its name
        f"onceflow-{JOB}-1-s-0-0-0\n",
        f"other-{JOB}-1-s-0-0-0",
        "onceflow-0123abcd4568-1-s-0-0-0",
        f"onceflow-{JOB}-\u0661-s-0-0-0",  # a digit, but not one that we write
        f"onceflow-{JOB}-1\u0662-s-0-0-0",
        f"onceflow-{JOB}-1-s-1\u0662-0-0",
        f"onceflow-{JOB}-fence",
    ],
)
def test_nearly_ours_is_not_ours(name):
    """A name that we would not have written is nobody's business of ours."""
    assert parse_transactional_id(name, "onceflow", JOB) is None


def test_another_jobs_names_are_not_ours():
    """A job whose prefix begins like ours does not have our names."""
    name = name_transaction("onceflow-x", JOB, 1, "s", 0, 0, 0)
    assert parse_transactional_id(name, "onceflow", JOB) is None
