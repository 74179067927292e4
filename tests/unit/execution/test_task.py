"""A task and the parts that it takes: rows are counted by part, what is silent is left out, and the sums must be right.

No Spark: batches are made here as it hands them over. The sink keeps what it is given.
"""

from collections import Counter
from types import SimpleNamespace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.connectors.contract import Run, Shard, Writer
from onceflow.errors import ConfigurationError, PreCommitError
from onceflow.execution import task as task_module
from onceflow.execution.task import DIGEST, PARTITION, Output, Shared, Task, by_part, output_column

RUN = Run("0123456789ab", "onceflow", 1, 4)


class Kept(Writer):
    """Keeps the rows that it is given."""

    def __init__(self, kept, shard):
        self.rows = []
        kept.append((shard, self))

    def write(self, rows):
        self.rows += rows.to_pylist()

    def prepare(self):
        return {"rows": len(self.rows)}

    def abort(self):
        self.rows = None


class Sinks:
    """Sinks by their names, and what their writers got."""

    def __init__(self, *names):
        self.kept = {name: [] for name in names}
        self.outputs = tuple(Output(name, self._opener(name)) for name in names)

    def _opener(self, name):
        return lambda shard: Kept(self.kept[name], shard)

    def values(self, name):
        return [row["value"] for _, writer in self.kept[name] for row in writer.rows]


def batch(*rows):
    """Rows of (partition, sink's place, value): the value is the digest as well, and null for all other sinks."""
    sinks = range(1 + max(sink for _, sink, _ in rows))
    columns = {PARTITION: pa.array([number for number, _, _ in rows], pa.int32())}
    for i in sinks:
        mine = pa.array([value if sink == i else None for _, sink, value in rows], pa.int64())
        columns |= {output_column(i, "value"): mine, output_column(i, DIGEST): mine}
    return pa.RecordBatch.from_pydict(columns)


def ran(sinks, *batches, number=0, **how):
    return Task(sinks.outputs, RUN, **how).write_shard(Shard(RUN, number, 0), batches)


def counted(report):
    return {part.number: (part.rows, part.digest) for part in report.parts}


def test_rows_are_counted_by_their_part_whatever_batch_they_are_in():
    """Two batches, three parts, of which one lies in both; the task's own number is none of theirs."""
    sinks = Sinks("s")
    (report,) = ran(sinks, batch((7, 0, 1), (7, 0, 2), (3, 0, 10)), batch((3, 0, 20), (5, 0, 100)), number=1)
    assert counted(report) == {3: (2, 30), 5: (1, 100), 7: (2, 3)}
    assert (report.task, report.transaction) == (1, {"rows": 5})
    assert [shard.number for shard, _ in sinks.kept["s"]] == [1], "one writer for all of them"


def test_what_is_silent_are_rows_and_not_the_shard():
    """One part of three is silent: it is counted and not written; the others are both, in one transaction."""
    sinks = Sinks("s")
    (report,) = ran(sinks, batch((0, 0, 1), (1, 0, 2), (1, 0, 3), (2, 0, 4)), silent=frozenset([("s", 1)]))
    assert counted(report) == {0: (1, 1), 1: (2, 5), 2: (1, 4)}
    assert sinks.values("s") == [1, 4]
    assert report.transaction == {"rows": 2}


def test_silent_is_a_sinks_part():
    """The same partition gives rows to another sink, which gets them."""
    sinks = Sinks("s", "t")
    reports = ran(sinks, batch((0, 0, 1), (0, 1, 2), (1, 0, 3)), silent=frozenset([("s", 0)]))
    assert [counted(report) for report in reports] == [{0: (1, 1), 1: (1, 3)}, {0: (1, 2)}]
    assert (sinks.values("s"), sinks.values("t")) == ([3], [2])


@pytest.mark.parametrize("how", [{"write": False}, {"silent": frozenset([("s", 0), ("s", 1)])}])
def test_a_shard_that_is_silent_opens_no_writer(how):
    """All of it is counted, and there is no transaction."""
    sinks = Sinks("s")
    (report,) = ran(sinks, batch((0, 0, 1), (1, 0, 2)), **how)
    assert (counted(report), report.transaction, sinks.kept["s"]) == ({0: (1, 1), 1: (1, 2)}, None, [])


def test_a_task_without_rows_reports_nothing_for_each_sink():
    """It reports all the same: a report that is missing is one that was lost."""
    sinks = Sinks("s", "t")
    reports = ran(sinks)
    assert [(r.sink, r.task, r.parts, r.transaction) for r in reports] == [("s", 0, (), None), ("t", 0, (), None)]


def test_a_row_of_no_partition_fails_the_task():
    """Nobody could find it again; what was written beside it is aborted."""
    sinks = Sinks("s")
    with pytest.raises(PreCommitError, match="1 rows are of no partition"):
        ran(sinks, batch((0, 0, 1)), batch((0, 0, 2), (None, 0, 3)))
    assert sinks.kept["s"][0][1].rows is None


@pytest.mark.parametrize("wrong", [lambda rows: rows.slice(1), lambda rows: pa.concat_batches([rows, rows.slice(1)])])
def test_a_task_that_does_not_write_what_it_counts_fails(monkeypatch, wrong):
    """A row less would be decided and be nowhere, one more would be visible and decided nowhere."""
    sinks, real = Sinks("s"), task_module._Share._without_silent
    monkeypatch.setattr(task_module._Share, "_without_silent", lambda *of: wrong(real(*of)))
    with pytest.raises(PreCommitError, match="rows were written, and its parts have 3 to write"):
        ran(sinks, batch((0, 0, 1), (1, 0, 2), (1, 0, 3)))
    assert sinks.kept["s"][0][1].rows is None


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_stretches_add_up_to_each_parts_rows_and_digest(rows):
    """In whatever order parts come; digests wrap at 2**64."""
    numbers = pa.array([number for number, _ in rows], pa.int32()).to_numpy()
    digests = pa.array([digest for _, digest in rows], pa.int64()).to_numpy()
    counts, sums = Counter(), Counter()
    for number, count, digest in by_part(numbers, digests):
        counts[number] += count
        sums[number] += digest
    assert counts == Counter(number for number, _ in rows)
    for number, total in sums.items():
        assert total % 2**64 == sum(digest for of, digest in rows if of == number) % 2**64


@pytest.fixture
def in_a_task(monkeypatch):
    """As in a worker: Spark says which task it is."""
    context = SimpleNamespace(partitionId=lambda: 0, attemptNumber=lambda: 0)
    monkeypatch.setattr("pyspark.TaskContext.get", lambda: context)


def test_a_task_of_another_onceflow_writes_nothing(in_a_task):
    """An executor whose onceflow is not the driver's refuses its first task, by both versions."""
    sinks = Sinks("a")
    task = Task(sinks.outputs, RUN, version="0.0.9")
    with pytest.raises(ConfigurationError, match=r"has onceflow .*, and the driver 0\.0\.9"):
        list(task([batch((0, 0, 1))]))
    assert not sinks.kept["a"]


@pytest.mark.parametrize("found", [None, '{"id":"another query"}'])
def test_a_task_that_does_not_see_the_checkpoint_writes_nothing(in_a_task, tmp_path, found):
    """State on an executor's own disk: the file is not there, or it is another query's; seen, the task goes on."""
    sinks, metadata = Sinks("a"), tmp_path / "metadata"
    if found:
        metadata.write_text(found)
    task = Task(sinks.outputs, RUN, shared=Shared(metadata, "this query"))
    with pytest.raises(ConfigurationError, match="does not see the checkpoint"):
        list(task([batch((0, 0, 1))]))
    assert not sinks.kept["a"]
    metadata.write_text('{"id":"this query"}')
    list(task([batch((0, 0, 1))]))
    assert sinks.values("a") == [1]
