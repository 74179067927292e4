"""Keyed digests: the definition that docs/audit.md gives, with its vectors, is what tasks and the auditor compute."""

import json
import re
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa

from onceflow.audit import keyed as audited
from onceflow.audit.tables import hash_rows, netstrings
from onceflow.connectors.contract import Run, Shard
from onceflow.execution.task import DIGEST, PARTITION, SHA256, Output, Task, output_column
from onceflow.twophase.keyed import MASK, id_of, key_of_rows, keyed, masked, unmasked
from onceflow.twophase.participants import Part, Participant, TaskReport
from tests.support.keyed_rows import KEY, kept, message, of_rows
from tests.support.xx64 import of_columns

DOCS = Path(__file__).parents[3] / "docs" / "audit.md"


class Writer:
    """Keeps which columns it is handed."""

    def __init__(self):
        self.columns = []

    def write(self, rows):
        self.columns.append(rows.schema.names)

    def prepare(self):
        return {}

    def abort(self):
        raise AssertionError("nothing fails")


def test_the_vectors_of_the_page_come_out_everywhere():
    """By the auditor and by a task, from the key to the digest of one row and the sum of two."""
    (text,) = re.findall(r"```json\n(\{\"key\".*?)\n```", DOCS.read_text(), re.DOTALL)
    told = json.loads(text)
    key, job = told["key"].encode(), told["job"]
    assert key_of_rows(key, job).hex() == audited.key_of_rows(key, job).hex() == told["key_of_rows"]
    columns = [["text", "string"], ["amount", "bigint"]]
    values = [[row["text"] for row in told["rows"]], [row["amount"] for row in told["rows"]]]
    made = list(zip(*netstrings(columns, values), strict=True))
    first = message(told["destination"].encode())
    assert [(first + b"".join(row)).decode() for row in made] == [row["message"] for row in told["rows"]]
    mine = key_of_rows(key, job)
    assert sum(audited.digests(mine, told["destination"], netstrings(columns, values))) & audited.MASK == int(
        told["keyed"], 16
    )
    assert keyed(mine, [bytes.fromhex(row["sha256"]) for row in told["rows"]]) == int(told["keyed"], 16)
    assert unmasked(mine, told["kept"]) == audited.kept(mine, told["kept"]) == int(told["keyed"], 16)
    assert kept(key, job, int(told["keyed"], 16)) == told["kept"]
    assert id_of(mine) == audited.id_of(mine) == told["id"]


def test_a_sum_is_never_kept_bare_and_no_two_masks_are_the_same():
    """Of bare sums of known rows a lattice makes other rows with the same one; under another key nothing is read."""
    mine = key_of_rows(KEY, "job")
    twice = masked(mine, 5), masked(mine, 5)
    assert len(set(twice)) == 2
    assert [unmasked(mine, each) for each in twice] == [audited.kept(mine, each) for each in twice] == [5, 5]
    assert unmasked(key_of_rows(KEY, "other"), twice[0]) != 5
    assert audited.kept(mine, "5") is None
    assert unmasked(mine, masked(mine, MASK + 3)) == 2


def test_a_task_sums_the_rows_of_each_part_and_hands_a_writer_none_of_it():
    """Parts have the keyed digests of their own rows, whatever batches these came in; a writer gets its columns."""
    writer = Writer()
    hashes = [bytes([n]) * 32 for n in range(6)]
    numbers = [0, 0, 1, 1, 1, 0]
    mine = key_of_rows(KEY, "job")
    task = Task((Output("s", lambda _: writer),), Run("job", "p", 1, 1), key=mine)
    batches = [
        pa.record_batch(
            {
                output_column(0, "value"): pa.array([b"v"] * len(part)),
                output_column(0, DIGEST): pa.array([1] * len(part), pa.int64()),
                output_column(0, SHA256): pa.array([hashes[n] for n in part], pa.binary()),
                PARTITION: pa.array([numbers[n] for n in part], pa.int32()),
            }
        )
        for part in (range(4), range(4, 6))
    ]
    (report,) = task.write_shard(Shard(Run("job", "p", 1, 1), 0, 0), batches)
    expected = {number: keyed(mine, [hashes[n] for n in range(6) if numbers[n] == number]) for number in (0, 1)}
    assert {part.number: unmasked(mine, part.keyed) for part in report.parts} == expected
    assert writer.columns == [["value"], ["value"]]
    assert [part.keyed for part in TaskReport.loads(report.dumps()).parts] == [part.keyed for part in report.parts]


def test_what_a_part_keeps_goes_through_the_journal_and_a_part_of_before_has_none():
    """A participant is read as it was written, by an older code's four values, too."""
    whole = Participant("s", "h", (Part("s", 0, 2, 7, keyed="a" * 64), Part("s", 1, 1, 8)), {})
    assert [part.keyed for part in Participant.from_json(whole.to_json()).parts] == ["a" * 64, ""]
    assert [part.keyed for part in Participant.from_json(whole.to_json() | {"parts": [[0, 2, 7, "o"]]}).parts] == [""]


def test_a_column_that_is_called_like_the_hash_is_written_where_there_is_no_key():
    """It is the output's own; only with a key is one of that name the job's."""
    writer = Writer()
    made = {name: pa.array([1], pa.int64()) for name in (output_column(0, SHA256), output_column(0, DIGEST))}
    batch = pa.record_batch(made | {PARTITION: pa.array([0], pa.int32())})
    run = Run("job", "p", 1, 1)
    Task((Output("s", lambda _: writer),), run).write_shard(Shard(run, 0, 0), [batch])
    assert writer.columns == [[SHA256]]


def test_a_value_cannot_move_from_one_column_into_the_next():
    """Nor can a null stand for a text, or a key of one job for another's."""
    rows = [[b"ab", b"c"], [b"a", b"bc"], [b"abc", None], [None, b"abc"], [b"abc", b""], [b"-", b"abc"]]
    assert len({of_rows(KEY, "job", [row]) for row in rows}) == len(rows)
    assert of_rows(KEY, "job", rows) != of_rows(KEY, "other", rows)


def test_a_decimal_of_38_digits_is_read_with_all_of_them():
    """Python rounds at 28, so two amounts that differ behind that had one hash, and a right one was told as changed."""
    unscaled = 12345678901234567890123456789012345678
    value = Decimal(f"{unscaled}E-6")
    octets = unscaled.to_bytes(16, "big", signed=True).lstrip(b"\0")
    (found,) = hash_rows([["exact", "decimal(38,6)"]], [[value]])
    assert found == np.uint64(of_columns(octets))
    assert netstrings([["exact", "decimal(38,6)"]], [[value]]) == [[b"39:12345678901234567890123456789012.345678,"]]
