"""Deleting a job: what lingers of it, what its sinks' systems keep of it, and its checkpoint. What is visible stays.

Must not know: Spark, any particular sink, how a command line looks. The order makes every death in the middle safe:
before anything goes, the checkpoint says that it is being deleted. From then on no start takes it for one, and another
try of this goes on; that word goes last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from onceflow.checkpoint.deleting import FILE as DELETING
from onceflow.checkpoint.deleting import begin_deleting
from onceflow.checkpoint.place import OURS, PARTS, Place
from onceflow.connectors.contract import Sink, marks_of
from onceflow.connectors.inspection import Phase
from onceflow.errors import CheckpointStoreError, ConfigurationError, OnceflowError
from onceflow.execution.means import Opened
from onceflow.launch.marked import forget_name
from onceflow.operations.transactions.aborting import abort
from onceflow.operations.transactions.access import Operator, System
from onceflow.operations.transactions.inventory import OwnTransaction, own_transactions
from onceflow.options.checkpointing import Checkpointing
from onceflow.storage.tree import Folder, folder_of
from onceflow.twophase.records import History

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Deletion:
    """What is deleted, or was.

    Attributes:
        job_id: The job's id.
        checkpoint: Its checkpoint's URI.
        files: How many files that has.
        size: How many bytes.
        open: Its transactions that are open.
        undone: The epoch that is decided and not finished, or None.
        sinks: Those whose systems forget the job: its marks, and what they keep beside.
    """

    job_id: str
    checkpoint: str
    files: int
    size: int
    open: tuple[OwnTransaction, ...]
    undone: int | None
    sinks: tuple[str, ...]


def look(operator: Operator) -> Deletion:
    """What would be deleted; nothing is changed.

    Raises:
        CheckpointConflictError: The checkpoint is older than what the job has done.
    """
    undone = None
    if operator.deleted is None:
        operator.require_not_rewound()
        undone = operator.undone(operator.journal.history()[0])
    seen = tuple(t for t in _ours(operator) if t.seen.phase is Phase.OPEN)
    folder = folder_of(operator.checkpoint.store)
    with _translating(folder, "looked through"):
        sizes = [folder.size(name) for name in PARTS]
    epoch = None if undone is None else undone.epoch
    files, size = sum(count for count, _ in sizes), sum(bytes_ for _, bytes_ in sizes)
    found = operator.identity.job_id, operator.uri, files, size, seen, epoch
    return Deletion(*found, tuple(operator.committers))


def delete(operator: Operator, *, undecided_only: bool = True) -> Deletion:
    """Delete the job. Whatever driver still runs on its checkpoint ends first, and can decide nothing more.

    Args:
        operator: The access to the job.
        undecided_only: Refuse where an epoch is decided and not finished: its rows would be lost.

    Raises:
        ConfigurationError: An epoch is decided and not finished; nothing was changed.
        CheckpointConflictError: The checkpoint is older than what the job has done; nothing was changed.
        FencedError: The job was started while this was under way.
        CheckpointStoreError: A file could not be removed; try again.
    """
    found = look(operator)
    if operator.deleted is None:
        _begin(operator, found, undecided_only=undecided_only)
    folder = folder_of(operator.checkpoint.store)
    with _translating(folder, "removed"):
        for part in _parts(operator):
            part()
    return found


def _begin(operator: Operator, found: Deletion, *, undecided_only: bool) -> None:
    """End whatever driver runs, and say that the job is being deleted; up to there nothing of it is gone."""
    if found.undone is not None and undecided_only:
        raise undecided(found)
    abort(operator, None, claim=True)  # from its start on nothing more is decided
    if undecided_only and (undone := operator.undone(operator.journal.history()[0])) is not None:
        raise undecided(found, undone.epoch)
    is_mine = begin_deleting(operator.place.ours, operator.identity)
    # A start that had looked before appends its own first, and then looks again: one of the two sees the other.
    if not operator.journal.is_newest():
        if is_mine:
            operator.place.ours.remove(DELETING)
        raise operator.fenced()


def _parts(operator: Operator) -> Iterator[Callable[[], object]]:
    """What is done to it, one after the other; each can be done again.

    Spark's part of the checkpoint goes first, and last the word that all of it is to go.
    """
    for system in operator.systems:
        yield partial(_end_open, operator, system)
    committers, folder = operator.committers.values(), folder_of(operator.checkpoint.store)
    yield partial(forget_name, committers, operator.name, operator.identity.job_id)
    for marks in marks_of(committers):
        yield marks.forget
    for name in PARTS[:-1]:
        yield partial(folder.remove_all, name)
    for name in sorted(operator.place.ours.names()):
        if name != DELETING:
            yield partial(folder.remove_all, f"{OURS}/{name}")
    yield partial(folder.remove_all, OURS)
    yield partial(folder.remove_empty, [""])  # somebody's file may lie there


def _end_open(operator: Operator, system: System) -> None:
    """Abort what is still open of the job's: by now that is what was decided and is given up."""
    system.inspection.abort([t.seen for t in _ours(operator) if t.system is system and t.seen.phase is Phase.OPEN])


def delete_cancelled(
    checkpointing: Checkpointing, prefix: str, sinks: Sequence[Sink], name: str, opened: Opened = Place.at
) -> None:
    """Delete a job that was cancelled and is not to be kept; where that cannot be, it is kept, and the log says why."""
    try:
        with Operator(checkpointing, prefix, sinks, name, deletes=True, opened=opened) as operator:
            found = delete(operator)
    except OnceflowError as error:
        log.warning("%s was cancelled, and its checkpoint is kept all the same: %s", name, error)
    else:
        log.warning("%s was cancelled, and its checkpoint %s is deleted, as it was to be", name, found.checkpoint)


def undecided(found: Deletion, epoch: int | None = None) -> ConfigurationError:
    """The refusal of a job whose newest epoch is decided and not finished."""
    number = found.undone if epoch is None else epoch
    return ConfigurationError(
        f"job {found.job_id} is not deleted: epoch {number} is decided and not finished",
        harmless="always: its checkpoint is as it was",
        cause="it died between the decision and its end; its rows are not visible, or not all of them",
        action="start it once, which finishes the epoch; or give its rows up with --give-up-decided",
        epoch=number,
    )


def _ours(operator: Operator) -> list[OwnTransaction]:
    # Of a journal that is gone in part nothing can be told; nor needs it: all of the job's are to end.
    history = History() if operator.deleted is not None else operator.journal.history()[0]
    return [t for system in operator.systems for t in own_transactions(operator, system, history)[0]]


@contextmanager
def _translating(folder: Folder, doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointStoreError(
            f"the checkpoint {folder.where} could not be {doing} whole: {error}",
            harmless="for the data: what is visible stays, and no start takes what is left for a job's checkpoint",
            cause="the file system failed, or this user may not write there",
            action="mend it, and delete the job again",
            file=str(error.filename or folder.where),
        ) from None
