"""Rows that a table or a topic does not take are in the sink that is named for them, once, whatever dies."""

import json
import random
import uuid
from collections import Counter

import psycopg
import pytest
from kafka.admin import NewTopic

from tests.support.harness import Pipeline, audited, read_topic
from tests.support.postgres import running

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

EPOCH, RECORDS, LETTERS, LARGEST = 1, 6_000, 5, 20_000
NAMES = [None, "", "a", "Anna", "Berta", "Cäsar", "Dorothea", "a\0b", "é" * 5, "é" * 6]


class Refusing(Pipeline):
    """A pipeline whose sinks do not take each row."""

    def send_people(self, count: int, seed: int = 0) -> None:
        numbers = random.Random(seed)

        def value(i: int) -> bytes:
            size = numbers.choice([0, 0, 0, 0, 0, 0, 0, 0, 0, LARGEST + 1]) if i % 20 == 0 else 1
            return json.dumps({"id": i, "name": numbers.choice(NAMES), "size": size}).encode()

        self.send(count, value=value)

    def rows_of(self, name: str) -> list[dict]:
        return [json.loads(value) for _, value in read_topic(self.cluster, self.environment[name])]

    def in_table(self) -> list[tuple]:
        with psycopg.connect(self.environment["DATABASE"]) as connection:
            return connection.execute("select id, name, length(text) from people").fetchall()

    def check_refused(self, letters: dict[int, int] | int = LETTERS) -> None:
        """Each row that was sent is in the table or in its topic of refused rows, and likewise of the other topic."""
        sent = {row["id"]: row for row in (json.loads(value) for _, value in self.sent)}
        allowed = dict.fromkeys(sent, letters) if isinstance(letters, int) else letters
        takes = {i for i, row in sent.items() if table_takes(row["name"], allowed[i])}
        assert Counter(i for i, _, _ in self.in_table()) == dict.fromkeys(takes, 1)
        refused = self.rows_of("NOT_IN_TABLE")
        assert Counter(row["id"] for row in refused) == dict.fromkeys(set(sent) - takes, 1)
        assert all(
            (row.get("name"), len(row["text"])) == (sent[row["id"]]["name"], sent[row["id"]]["size"]) for row in refused
        )
        assert {row["reason"] for row in refused} <= {
            "column name takes no null, and is null",
            "column name takes 5 letters, and has more",
            "column name has a text with U+0000",
        }
        taken = {i for i, row in sent.items() if row["name"] is not None and row["size"] <= 1}
        assert Counter(json.loads(value)["id"] for _, value in self.read()) == dict.fromkeys(taken, 1)
        aside = self.rows_of("NOT_IN_OUT")
        assert Counter(row["id"] for row in aside) == dict.fromkeys(set(sent) - taken, 1)
        assert self.open_transactions() == []


def table_takes(name: str | None, letters: int) -> bool:
    return name is not None and len(name) <= letters and "\0" not in name


@pytest.fixture(scope="module")
def server():
    with running() as one:
        yield one


@pytest.fixture
def pipeline(admin, cluster, new_topic, tmp_path, server):
    def make(shape: str = "copy", **more: str) -> Refusing:
        unique = "unique" if shape == "count" else ""
        server.execute(
            "drop schema public cascade",
            "create schema public",
            f"create table people (id bigint not null, name varchar({LETTERS}) not null {unique}, text text)",
        )
        small = f"test-{uuid.uuid4().hex[:10]}"
        configs = {"cleanup.policy": "compact", "max.message.bytes": str(LARGEST)}
        admin.create_topics([NewTopic(small, 2, 1, topic_configs=configs)])
        admin.wait_for_topics([small])
        made = Refusing(cluster, new_topic(4), small, tmp_path / "checkpoint", job="refused")
        made.environment = {"SHAPE": shape, "DATABASE": server.url()} | more
        made.environment |= {name: new_topic(2) for name in ("NOT_IN_TABLE", "NOT_IN_OUT")}
        return made

    return make


@pytest.mark.parametrize(
    "point", ["D5", *(pytest.param(each, marks=pytest.mark.faults) for each in ("D3", "D4", "D6", "D6a", "D7"))]
)
def test_a_death_leaves_each_row_once_taken_or_refused(pipeline, point):
    p = pipeline()
    p.send_people(RECORDS)
    p.die_at(f"{point}@{EPOCH}")
    p.run_well()
    p.check_refused()


@pytest.mark.faults
def test_an_audit_looks_at_refused_rows_and_a_second_run_gives_the_same(pipeline):
    p = pipeline()
    p.send_people(RECORDS)
    p.run_well()
    p.check_refused()
    code, report = audited(p, "--recompute", "0..")
    assert (code, report["findings"], report["rows"]) == (0, [], 2 * RECORDS)


@pytest.mark.faults
def test_a_decided_epoch_goes_by_the_limits_of_its_time(pipeline, server):
    """The table takes more by the next start: that one ends with the limits of the epoch that it found decided."""
    p = pipeline()
    p.send_people(RECORDS)
    p.die_at(f"D7@{EPOCH}")
    server.execute("alter table people alter name type varchar(50)")
    p.run_well()
    p.check_refused()
    p.send_people(2_000, seed=1)
    p.run_well()
    p.check_refused({i: LETTERS if i < RECORDS else 50 for i in range(RECORDS + 2_000)})


@pytest.mark.faults
def test_of_a_plan_that_keeps_state(pipeline, server):
    """State is kept once, whichever of the sinks gets a row: the newest of each name is there, or refused."""
    p = pipeline("count")
    p.send_people(RECORDS)
    p.die_at(f"D7@{EPOCH}")
    p.run_well()
    sent = [json.loads(value) for _, value in p.sent]
    newest = {row["name"]: row["id"] for row in sorted(sent, key=lambda row: row["id"])}
    taken = {name: i for name, i in newest.items() if table_takes(name, LETTERS)}
    assert {name: i for i, name, _ in p.in_table()} == taken
    found = {row.get("name"): 0 for row in p.rows_of("NOT_IN_TABLE")}
    for row in p.rows_of("NOT_IN_TABLE"):
        found[row.get("name")] = max(row["id"], found[row.get("name")])
    assert found == {name: i for name, i in newest.items() if name not in taken}
