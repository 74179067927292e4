"""A table, or its whole server, is gone for good when an epoch is decided: the messages lead out, word by word."""

import re

import pytest

from tests.support.harness import Pipeline, follow, rows_of
from tests.support.postgres import running

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]

EPOCH = 1


@pytest.fixture
def server():
    with running() as one:
        yield one


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path, server):
    """Three epochs' worth of input, and a job that writes it to a topic and a table."""
    made = Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job="both")
    made.environment = {"DATABASE": server.url()}
    made.send(6_000)
    return made


def refused(p: Pipeline, *said: str, code: int = 1, **environment: str):
    """A start that ends with these words."""
    ended = p.run(**environment)
    assert ended.code == code
    assert [each for each in said if each not in ended.log] == [], ended.log
    return ended


def decided(p: Pipeline, sink: str) -> int:
    """How many rows of the epoch were decided for a sink."""
    (found,) = [d for d in p.decisions() if d["epoch"] == EPOCH]
    return rows_of(found, sink)


@pytest.mark.parametrize("point", ["D5", "D6"])
def test_a_table_that_is_gone_for_good(pipeline, server, point):
    """Resolve shows what is visible where, in numbers; with a choice, and without the sink, the job goes on."""
    pipeline.die_at(f"{point}@{EPOCH}")
    visible, rows = len(pipeline.read()), decided(pipeline, "payments")
    server.execute("drop table payments, payments_onceflow_staged")
    pipeline.environment |= {"NO_TABLE": "yes"}
    ended = refused(pipeline, "table payments of sink payments does not exist", f"{rows} rows of epoch {EPOCH}")
    assert len(pipeline.read()) == visible, "nothing more is made visible before somebody has chosen"
    told = follow(pipeline, ended)
    assert f"sink payments: of {rows} rows {rows} untold" in told
    assert "table public.payments was dropped, with what it had; what was staged is gone, too" in told
    out = decided(pipeline, pipeline.sink)
    (numbers,) = re.findall(rf"sink {pipeline.sink}: of {out} rows (.*)", told)
    counted = {said: int(n) for n, said in (each.split() for each in numbers.split(", "))}
    assert sum(counted.values()) == out
    assert set(counted) == ({"prepared"} if point == "D5" else {"visible", "prepared"})
    ended.log = ended.log.replace(f"<job file> {EPOCH}`", f"<job file> {EPOCH} --choice count-as-written --why ...`")
    assert f"{rows} rows of sink payments count as written" in follow(pipeline, ended)
    pipeline.environment |= {"NO_SINK": "yes"}
    refused(pipeline, "was made for another Kafka cluster, database or lake table", 'takeover="claim"')
    ended = pipeline.run_well(TAKEOVER="claim")
    assert f"an operator has given up {rows} rows" in ended.log
    pipeline.run_well()
    pipeline.check_output()
    assert pipeline.open_transactions() == []


def test_a_table_of_a_job_with_state_that_is_gone(pipeline, server):
    """The epoch's plan runs once more for its state, without the sink; the other sink has each change once."""
    pipeline.job = "totals"
    pipeline.die_at(f"D5@{EPOCH}")
    server.execute("drop table totals, totals_onceflow_staged")
    pipeline.environment |= {"NO_TABLE": "yes"}
    ended = refused(pipeline, "table totals of sink totals does not exist")
    ended.log = ended.log.replace(f"<job file> {EPOCH}`", f"<job file> {EPOCH} --choice count-as-written --why ...`")
    follow(pipeline, ended)
    pipeline.environment |= {"NO_SINK": "yes"}
    pipeline.run_well(TAKEOVER="claim")
    pipeline.job = "count"  # whose output it is
    pipeline.check_output()
    assert pipeline.open_transactions() == []


def test_a_server_that_is_gone_for_good(pipeline, server):
    """Nothing answers any more: without the sink a start says by which command its rows are given up."""
    pipeline.die_at(f"D6@{EPOCH}")
    server.kill()
    refused(pipeline, "did not answer", "take the sink out of the job", code=75)
    pipeline.environment |= {"NO_SINK": "yes"}
    refused(pipeline, "was made for another Kafka cluster, database or lake table", 'takeover="claim"')
    ended = refused(pipeline, f"epoch {EPOCH} is decided and not finished, and its sink payments", TAKEOVER="claim")
    rows = decided(pipeline, "payments")
    assert f"{rows} rows of sink payments count as written" in follow(pipeline, ended)
    pipeline.run_well()
    pipeline.check_output()
    assert pipeline.open_transactions() == []
