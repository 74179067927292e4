"""The corpus of SQL: what Flink's parser takes we take or refuse by name, and what it rejects we reject."""

import pytest
from tools import sql_options

from onceflow.errors import ConfigurationError
from onceflow.flinksql.connectors import rules_of
from tests.sql.cases import Case, cases, script

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_statement_is_taken_refused_or_rejected(case: Case):
    """Each statement of the corpus does what stands before it; whatever is not taken has its line and column."""
    if case.expected in ("runs", "exception"):
        list(script().run(case.text))
        return
    with pytest.raises(ConfigurationError) as raised:
        list(script().run(case.text))
    error = raised.value
    assert {"line", "column"} <= error.facts.keys(), error
    assert f"line {error.facts['line']}, column {error.facts['column']}: " in error.what
    if case.expected == "refused":
        assert error.facts.get("refused") == case.word, error
    assert error.action or error.cause, error


def test_the_corpus_is_large_enough():
    """At least 200 statements, of which at least 100 run; how many are refused is known."""
    count = {
        kind: sum(case.expected == kind for case in CASES) for kind in ("runs", "refused", "rejected", "exception")
    }
    assert len(CASES) >= 200
    assert count["runs"] >= 100
    assert count["refused"] >= 60


def test_the_page_of_options_is_made_from_the_tables():
    """docs/sql-options.md is what `make sql-options` writes: each option, setting and function."""
    assert sql_options.PAGE.read_text() == sql_options.page()


def test_flinks_own_options_are_all_known():
    """Each option that Flink's documents name for its Kafka connector is taken, without effect and said, or refused."""
    for connector, names in FLINKS.items():
        known = {rule.key for rule in rules_of(connector)}
        assert set(names.split()) <= known


FLINKS = {
    "kafka": """connector topic topic-pattern properties.bootstrap.servers properties.group.id format key.format
        key.fields key.fields-prefix value.format value.fields-include scan.startup.mode scan.startup.specific-offsets
        scan.startup.timestamp-millis scan.bounded.mode scan.bounded.specific-offsets scan.bounded.timestamp-millis
        scan.topic-partition-discovery.interval scan.parallelism sink.partitioner sink.semantic sink.delivery-guarantee
        sink.transactional-id-prefix sink.transaction-naming-strategy sink.parallelism""",
    "upsert-kafka": """connector topic properties.bootstrap.servers key.format key.fields-prefix value.format
        value.fields-include scan.parallelism scan.bounded.mode scan.bounded.specific-offsets
        scan.bounded.timestamp-millis sink.parallelism sink.buffer-flush.max-rows sink.buffer-flush.interval
        sink.delivery-guarantee sink.transactional-id-prefix""",
}
