"""Writing again what a sink's system has lost since it was put back: into this sink alone, under the old handles.

Must not know: how it was found out, which receipts count, who asked for it, any particular sink.

The epochs stay decided, and every other sink has their rows. So nothing is decided here: each lost epoch's plan is run
once more over what it has read, its rows are compared with those that were decided, and the sink prepares and commits
them as what it had: from then on its system knows again the handle that the checkpoint asks it for. Epochs go from the
oldest on, and each commit asks for the one before it. Whoever dies on the way has written some of them; the next one
finds those behind it lost, and goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from operator import methodcaller
from typing import TYPE_CHECKING, Any

from onceflow import crash_points as crash
from onceflow.connectors.contract import Committer, Run, Shard, Sink, Writer
from onceflow.errors import ConfigurationError, PreCommitError, RecoveryError, SinkContractError
from onceflow.execution.guarantees import settle_guarantees
from onceflow.execution.outputs import Outputs
from onceflow.execution.put_back import Lost
from onceflow.execution.task import Output, Task
from onceflow.launch.query import outputs_for
from onceflow.launch.request import StartRequest
from onceflow.launch.systems import connected
from onceflow.rerun.lost_epochs import Again
from onceflow.rerun.recompute import compared, run_again
from onceflow.twophase.messages import Reply
from onceflow.twophase.participants import Participant, TaskReport, parts_of, uncovered

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from onceflow.checkpoint.spark_files import StateBefore


def write_again(
    session: SparkSession,
    result: object,
    sinks: Sequence[Sink],
    request: StartRequest,
    receipts: Sequence[Mapping[str, Any]],
    again: Again,
    before: StateBefore | None = None,
) -> Iterator[int]:
    """Write these epochs again, into the sinks that have lost them.

    Args:
        session: The SparkSession of the DataFrames.
        result: What the stream function returned.
        sinks: The sinks that get the rows of one DataFrame.
        request: The rest.
        receipts: Of the epochs.
        again: What is written.
        before: The state to begin with, of a plan that keeps some.

    Yields:
        Each epoch, when its sinks have it.

    Raises:
        ConfigurationError: The job has no such sink any more; or as of ``recompute``.
        RecoveryError: The plan gives other rows than were decided, or a commit was refused.
        PreCommitError: A sink could not prove, or not commit, what it got.
        FencedError: The job was started meanwhile.
    """
    outputs = outputs_for(result, sinks, request)
    settle_guarantees(outputs.sinks, request.checkpointing)
    writing = _named(outputs, again.lost)
    connections = connected(writing.values(), methodcaller("connect"))
    with ExitStack() as stack:
        for connection in connections.values():
            stack.enter_context(closing(connection))
        committers: dict[str, Committer] = {}
        for name, connection in connections.items():
            connection.make_output(outputs.fields(writing[name]))
            committers[name] = stack.enter_context(closing(connection.committer(again.run.prefix, again.run.job_id)))
            committers[name].preflight()
        factories = {name: connection.writer_factory() for name, connection in connections.items()}

        starts = {int(receipt["epoch"]): int(receipt["incarnation"]) for receipt in receipts}

        def task(epoch: int) -> Task:
            of = again.of(epoch)
            each = (Output(s.name, factories[s.name] if s.name in of else discarding) for s in outputs.sinks)
            return Task(tuple(each), again.run_of(epoch, starts.get(epoch, again.run.incarnation)))

        for receipt, reports in run_again(session, outputs, request, receipts, before, task):
            epoch = int(receipt["epoch"])
            if again.of(epoch):
                _finish(again, epoch, committers, receipt, reports)
                yield epoch


def _named(outputs: Outputs, lost: Mapping[str, Lost]) -> dict[str, Sink]:
    there = {sink.name: sink for sink in outputs.sinks}
    gone = sorted(set(lost) - set(there))
    if gone:
        raise ConfigurationError(
            f"the job has no sink {', '.join(gone)} any more, which has lost rows",
            harmless="always: nothing was written",
            cause="it was renamed or taken out since",
            action="give the file as it was when the rows were written",
        )
    return {name: there[name] for name in lost}


def _finish(
    again: Again,
    epoch: int,
    committers: Mapping[str, Committer],
    receipt: Mapping[str, Any],
    reports: Sequence[TaskReport],
) -> None:
    """Commit what an epoch's tasks have prepared, if it is what was decided."""
    run, open_ones = again.run_of(epoch, int(receipt["incarnation"])), set(again.of(epoch))
    try:
        for each in compared(receipt, reports):
            if each.sink in run.handles and each.decided != each.now:
                raise RecoveryError(
                    f"sink {each.sink}: run again, epoch {epoch} gives {each.now[0]} rows with digest "
                    f"{each.now[1]:016x}, and {each.decided[0]} with {each.decided[1]:016x} were decided",
                    harmless="for what is there: nothing of this epoch was written; the epochs before it were",
                    cause="the job was edited, its source has other records, or the plan gives other rows each time",
                    action="give the file as it was then: its receipt has the hash of it (code); then try again",
                    epoch=epoch,
                )
        for sink in run.handles:
            participants = _prepared(sink, committers[sink], reports, run)
            crash.reach("O4", run.epoch)
            again.require_newest()
            open_ones.discard(sink)  # one that got no answer may be committed yet: it is nobody's to take away
            _commit(sink, committers[sink], participants, run)
    except BaseException:
        for sink in open_ones:
            committers[sink].abort_run(run)
        raise


def _prepared(sink: str, committer: Committer, reports: Sequence[TaskReport], run: Run) -> list[Participant]:
    """A sink's participant, checked."""
    mine = [report for report in reports if report.sink == sink and report.transaction]
    participants = committer.seal(mine, run)
    wrong = uncovered(parts_of(mine), participants, frozenset())
    if wrong is None and [p.handle for p in participants] != [run.handles[sink]]:
        wrong = f"it sealed {', '.join(p.handle for p in participants)} for {run.handles[sink]}"
    if wrong is not None:
        raise SinkContractError(
            f"epoch {run.epoch} was not written again: sink {sink} did not seal what its writers had prepared: {wrong}",
            harmless="for what is there: nothing of this epoch was written",
            cause="seal does not make one participant of all reports, with the handle of Run.handles (docs/sinks.md)",
            action="mend the sink, then try again",
            sink=sink,
            epoch=run.epoch,
        )
    wrong = committer.check(participants, run, 0.0)
    if wrong is not None:
        raise _not_written(sink, run, wrong)
    return participants


def _commit(sink: str, committer: Committer, participants: list[Participant], run: Run) -> None:
    replies = set(committer.commit(participants).values())
    if Reply.REFUSED in replies:
        raise committer.refusal(participants)
    if replies != {Reply.COMMITTED}:
        raise _not_written(sink, run, "its commit got no answer")
    crash.reach("O5", run.epoch)


def _not_written(sink: str, run: Run, wrong: str) -> PreCommitError:
    return PreCommitError(
        f"sink {sink}: epoch {run.epoch} was not written again: {wrong}",
        harmless="for what is there: the epochs before it were written again, and each is there once",
        cause="the system did not answer, or somebody else writes the same at this moment",
        action="try again: it goes on where it has ended",
        sink=sink,
        epoch=run.epoch,
    )


class _Discarded(Writer):
    """Of a sink that has its rows: they are counted, and go nowhere."""

    def write(self, rows: pa.RecordBatch) -> None:
        """Nothing."""

    def prepare(self) -> None:
        """Nothing to commit."""


def discarding(shard: Shard) -> Writer:  # noqa: ARG001 - a WriterFactory
    """Open a writer that writes nothing."""
    return _Discarded()
