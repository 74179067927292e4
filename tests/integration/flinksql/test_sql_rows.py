"""The rows of Flink's SQL on real Spark: each expression and query of tests/sql/rows_data, beside what Flink gave.

Flink's answers are kept in flink.json, with its version; ``make sql-rows`` asks it for those that are not there.
What is known to differ stands in ours.json, with the reason: there it must differ.
"""

import json
import re

import pytest

from onceflow.flinksql.functions import AGGREGATES, FUNCTIONS
from tests.sql.on_spark import OnSpark, as_kept, same_type
from tests.sql.rows import FLINKS, asked, ours, records

pytestmark = pytest.mark.spark

KEPT, OURS = json.loads(FLINKS.read_text()), ours()
ANSWERS = KEPT["answers"]
EXPRESSIONS = [text for text in asked("expressions.sql") if text in ANSWERS]
QUERIES = [text for text in asked("queries.sql") if text in ANSWERS]
FAILS = {"fails": True}
ONLY_HERE = {"NOW"}
"""Whose value is another in each run."""


@pytest.fixture(scope="module")
def engine(spark, tmp_path_factory):
    """The table, in Spark."""
    return OnSpark(spark, tmp_path_factory.mktemp("rows"))


def stops(text: str) -> list[int]:
    """In which rows an expression stops the job here."""
    return [int(i) for i, value in OURS.get(text, {}).get("rows", {}).items() if value == FAILS]


def test_flinks_answers_are_of_these_rows():
    """The rows are those that Flink was given, it rejected nothing, and each answer is of something that is asked."""
    assert KEPT["given"] == records()
    assert list(ANSWERS) == [*EXPRESSIONS, *QUERIES]
    assert len(ANSWERS) > 950
    assert [text for text, answer in ANSWERS.items() if "rejected" in answer] == []
    assert OURS.keys() <= ANSWERS.keys()


def test_every_function_is_asked_for():
    """No function and no aggregate is taken whose rows nobody has seen."""
    text = "\n".join([*EXPRESSIONS, *QUERIES])
    assert {name for name in (*FUNCTIONS, *AGGREGATES) if re.search(rf"\b{name}\(", text) is None} == ONLY_HERE


def test_every_expression_gives_in_every_row_what_flink_gives(engine):
    """Types and values are Flink's, but for what is known to differ; rows in which one of them fails are left out."""
    fails = {
        text: {i for i, value in enumerate(ANSWERS[text]["rows"]) if isinstance(value, dict)} | set(stops(text))
        for text in EXPRESSIONS
    }
    found = engine.expressions(EXPRESSIONS, {text: sorted(rows) for text, rows in fails.items() if rows})
    wrong: list[object] = []
    for text in EXPRESSIONS:
        here, there, known = found[text], ANSWERS[text], OURS.get(text, {})
        assert not here.refused, here.refused
        kind, differs = here.kinds[0], known.get("rows", {})
        if there["type"] and (str(kind) != known["type"] if "type" in known else not same_type(kind, there["type"])):
            wrong.append((text, str(kind), there["type"]))
        for i, value in enumerate(here.rows):
            expected = as_kept(there["rows"][i], there["type"])
            if i in fails[text]:
                continue
            if value != differs.get(str(i), expected) or (str(i) in differs and value == expected):
                wrong.append((text, i, value, expected))
    assert not wrong, "\n".join(map(str, wrong))
    assert not engine.types


def test_every_query_gives_the_rows_that_flink_gives(engine):
    """Groups, windows and joins: the same rows, in any order, but for what is known to differ."""
    wrong = []
    for text in QUERIES:
        here, there, known = engine.query(text), ANSWERS[text], OURS.get(text, {})
        assert not here.refused, here.refused
        flinks = [
            [as_kept(value, kind) for value, kind in zip(row, there["types"], strict=True)] for row in there["rows"]
        ]
        types = [str(kind) for kind, of in zip(here.kinds, there["types"], strict=True) if not same_type(kind, of)]
        expected = known.get("rows", sorted(flinks, key=repr))
        failed = any(isinstance(row, dict) for row in here.rows)
        if types != known.get("types", []) or (not failed if expected == FAILS else here.rows != expected):
            wrong.append((text, types, here.rows, expected))
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.faults
def test_what_is_said_to_stop_the_job_stops_it(engine):
    """Of each expression that is known to fail, the first row in which it does: it fails, and gives no other value."""
    given = {text: engine.failure(text, rows[0]) for text in EXPRESSIONS if (rows := stops(text))}
    assert len(given) > 50
    assert {text: value for text, value in given.items() if not isinstance(value, dict)} == {}
