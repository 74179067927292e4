"""The corpus before Flink's own parser; run by ``make sql-oracle``."""

from collections.abc import Iterator

import pytest

from onceflow.flinksql.reserved import RESERVED
from tests.sql.cases import TABLES, Case, cases
from tests.sql.flink_parser import FlinkParser

pytestmark = pytest.mark.oracle


@pytest.fixture(scope="module")
def flink() -> Iterator[FlinkParser]:
    """Flink's parser."""
    with FlinkParser() as parser:
        yield parser


@pytest.mark.parametrize("case", cases(), ids=str)
def test_flinks_parser_takes_what_the_corpus_says(flink, case: Case):
    """What runs here or is refused by name Flink's parser takes, and what is rejected here it rejects."""
    objection = flink.objection(case.text.rstrip(";") if "BEGIN" not in case.text else case.text)
    assert (objection is not None) == (case.expected in ("rejected", "exception")), objection


def test_flinks_parser_takes_the_tables(flink):
    """The tables that the corpus speaks of are Flink's, too."""
    assert flink.objection(TABLES) is None


def test_the_reserved_words_are_flinks(flink):
    """The list is what the parser tells of itself."""
    assert flink.reserved() == RESERVED
