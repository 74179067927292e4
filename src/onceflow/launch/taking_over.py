"""Steps of a start that are about its checkpoint: it is whole, what is decided is finished, whose it is, the driver.

Must not know: the rules of the commit, Spark, what the plan is.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from operator import methodcaller
from pathlib import Path

from onceflow.checkpoint import state_schemas
from onceflow.checkpoint.identity import JobIdentity, Mark, read_identity, write_identity
from onceflow.checkpoint.journal import above_all
from onceflow.checkpoint.place import Place
from onceflow.connectors.contract import Committer, Guarantee, Sink, SinkConnection, marks_of
from onceflow.errors import CheckpointError, advised
from onceflow.execution.driver import Driver
from onceflow.execution.failures import from_failure
from onceflow.execution.guarantees import settle_guarantees
from onceflow.execution.job_log import JobLog
from onceflow.execution.means import REAL, Means
from onceflow.execution.put_back import (
    exchanged,
    leave,
    lost_commits,
    lost_of_parents,
    require_not_put_back,
    require_parents_not_put_back,
)
from onceflow.execution.source_check import Sources
from onceflow.launch.marked import require_not_lost, require_not_rewound, tell_of_moved
from onceflow.launch.ownership import claimed, identify, require_complete, require_not_left
from onceflow.launch.request import StartRequest, place_of
from onceflow.launch.starting import Starting
from onceflow.launch.systems import connected
from onceflow.processes import open_to_others
from onceflow.twophase.coordinator import objection
from onceflow.twophase.records import Claim, Start

log = logging.getLogger(__name__)


def settle_listed(starting: Starting) -> None:
    """Give the sinks that are known without the stream function the guarantee of the mode, where they name none."""
    settle_guarantees(starting.sinks, starting.request.checkpointing)


def require_whole(starting: Starting) -> None:
    """Refuse a checkpoint that lacks files of Spark's which nothing can make again."""
    starting.phases.begin(f"the checkpoint {starting.request.checkpointing.location}")
    _tell_of_others(starting.place)
    require_complete(starting.place, whatever_is_undone=starting.request.takeover == "as-new")


def _tell_of_others(place: Place) -> None:
    """A checkpoint is believed: who may write to it moves the job's positions, and has files elsewhere removed."""
    folder = place.checkpoint.store.folder
    found = open_to_others(folder) if isinstance(folder, Path) else None
    if found is not None:
        log.warning(
            "others may write to %s, and so change the checkpoint %s: they can have records skipped or written twice, "
            "and lead the job by a link to other files of this user. Harmless where nobody else is on this machine, as "
            "in a container; else give the job a folder that is its user's (mode 0700)",
            found,
            place.uri,
        )


def finish_listed(starting: Starting) -> None:
    """Finish what is decided by the sinks that are known without the stream function."""
    _finish(starting, starting.sinks)


def finish_named(starting: Starting) -> None:
    """Finish what is decided by the sinks that the stream function has named, where the listed ones could not."""
    if not starting.has_finished:
        _finish(starting, tuple(starting.result) if isinstance(starting.result, Mapping) else starting.to)


def _finish(starting: Starting, sinks: Sequence[object]) -> None:
    starting.has_finished = finish_decided(sinks, starting.request, starting.means)
    if starting.has_finished:
        require_complete(starting.place)


def compare_sources(starting: Starting) -> None:
    """Refuse a plan that does not fit what the checkpoint knows, before a driver that runs is ended for nothing."""
    reads, place = starting.reads, starting.place
    reads.require_same_number(place)
    reads.require_same_names(place)
    require_early(place, reads, starting.request)


def begin(starting: Starting) -> None:
    """Take over the checkpoint, from whichever driver runs on it."""
    place, sinks = starting.place, starting.outputs.sinks
    starting.is_new, starting.planned = place.is_empty(), max(place.checkpoint.plans_from(0), default=-1)
    starting.phases.begin("taking over the checkpoint")
    part = starting.taking_part
    proven = part if starting.systems.allows([sink for sink in sinks if sink.participates]) else ()
    above = _above(sinks)
    starting.driver = take_over(place, part, starting.request, starting.means, proven=proven, above=above)
    starting.opened.callback(starting.driver.close)


def finish_decided(sinks: Sequence[object], request: StartRequest, means: Means = REAL) -> bool:
    """Commit what is decided and not finished, before any check may end the start.

    Consumers are waiting for it, and it expires with its transactions. Nothing of it needs Spark, the plan or the
    sources, so their troubles are none of its business. Where nothing is undone it only reads the journal.

    Args:
        sinks: The job's sinks, as far as they are known.
        request: The rest.
        means: What the driver is made of.

    Returns:
        Whether an undone epoch was found and taken over; False also where not all of its sinks are among these.

    Raises:
        OnceflowError: The checkpoint is not this job's, or cannot be read; or a system was not reached.
    """
    settle_guarantees(sinks, request.checkpointing)
    taking_part = [sink for sink in sinks if isinstance(sink, Sink) and sink.participates]
    place = place_of(request, means)
    if not taking_part or request.takeover == "as-new" or not place.has_undone():
        return False
    require_complete(place)
    connections = connected(taking_part, methodcaller("attach"))
    try:
        systems = {connection.system_id for connection in connections.values()}
        identity = read_identity(place.ours) if request.takeover is None else claimed(place)
        if identity is not None and (not identity.cluster_id or systems < set(identity.cluster_id.split(","))):
            return False  # not all sinks are listed: those that the stream function returns finish it
        # No right that is missing comes before.
        driver = _driver(place, connections, request, means, proven=connections)
        try:
            driver.take_over()
        finally:
            driver.close()
        return True
    finally:
        for connection in connections.values():
            connection.close()


def require_early(place: Place, sources: Sources, request: StartRequest) -> None:
    """Refuse what the start would refuse, before a driver that runs is ended for nothing.

    While an epoch is undone there is nothing to foresee: it may have to be read again, and the start knows.

    Args:
        place: The checkpoint.
        sources: What the plan reads and keeps.
        request: The rest.

    Raises:
        OnceflowError: What the start would raise.
    """
    if request.takeover == "claim":
        return  # it has to leave a mark first: without one no command goes on
    while not place.has_undone():
        history, _ = place.journal.history()
        newest = place.checkpoint.newest_commit()
        found, error = sources.survey(place.checkpoint, None, history.layout, again=False)
        failure = objection(history, None, (-1 if newest is None else newest) + 1, found)
        if failure is None:
            return
        # A driver that runs may have gone on in the meantime; then what was looked for was read long ago.
        if (place.journal.history()[0], place.checkpoint.newest_commit()) == (history, newest):
            raise from_failure(failure, error, place.uri, "")


def take_over(
    place: Place,
    connections: Mapping[str, SinkConnection],
    request: StartRequest,
    means: Means = REAL,
    *,
    proven: Collection[str] = (),
    above: int = 0,
) -> Driver:
    """The driver of this start, which has taken over the checkpoint.

    Args:
        place: The checkpoint.
        connections: Of the sinks that take part, by name.
        request: The rest.
        means: What the driver is made of.
        proven: Sinks of which it was seen that they may write; of the others it is seen first.
        above: Its incarnation is to be greater than this.

    Raises:
        OnceflowError: It cannot go on. Nothing is left of the driver, and nothing that was decided waits for it.
    """
    driver = _driver(place, connections, request, means, proven=proven, above=above)
    try:
        driver.take_over()
        require_not_left(place, driver)
        require_complete(place, whatever_is_undone=True)
        state_schemas.bring_home(place.checkpoint.store)
    except BaseException:
        driver.close()
        raise
    return driver


def _above(sinks: Sequence[Sink]) -> int:
    """Above which incarnation a start of a job with these sinks is.

    One that takes no part keeps no mark, so nobody notices an older copy of the checkpoint; and one that upserts may
    let rows of older incarnations replace nothing. The clock tells there what no mark does.
    """
    unmarked = any(s.guarantee is Guarantee.IDEMPOTENT_UPSERT for s in sinks)
    return above_all() if unmarked else 0


def _driver(
    place: Place,
    connections: Mapping[str, SinkConnection],
    request: StartRequest,
    means: Means,
    *,
    proven: Collection[str] = (),
    above: int = 0,
) -> Driver:
    """The driver of the sinks that take part, from their connections by name; ``proven`` as ``take_over`` takes it."""
    if request.takeover is None:
        require_not_lost(place, connections.values(), request.prefix, request.name)
    systems = _systems(connections)
    left = _left(place) if request.takeover == "as-new" else None
    identity = identify(place, ",".join(sorted(set(systems.values()))), request.prefix, request.takeover, systems)
    committers: dict[str, Committer] = {}
    try:
        for name, connection in connections.items():
            committers[name] = connection.committer(identity.prefix, identity.job_id)
        for name, committer in committers.items():
            if name not in proven:
                committer.preflight()
        place.records.make()
        if request.takeover is None:
            marks = require_not_rewound(committers, place.journal, identity, place.checkpoint)
            _require_not_older(place, committers, connections, identity)
            tell_of_moved(marks, place.journal.history()[0], identity.job_id, request.name)
        claim: Claim | None = None
        left = left or _still_to_leave(place, identity, request)
        had = () if left is None else leave(place, left, committers, connections, now=request.takeover == "as-new")
        if request.takeover == "claim":
            above = max(above, _claimed_incarnation(committers.values()))
            claim = _claim(place, committers, connections, identity, request.name)
        said = Start(0, claim=claim, systems=systems, left=had)
        rules, around = means.rules(committers), means.around(len(committers))
        files = (place.journal, place.checkpoint)
        driver = Driver(identity, *files, committers, place.uri, rules, around, above, request.name, said)
        if request.takeover == "claim":
            # Behind all that may refuse it: a claim that fails leaves the checkpoint as it was. Whoever dies between
            # this and the start that follows says the same again.
            write_identity(place.ours, identity)
    except BaseException:
        for committer in committers.values():
            committer.close()
        raise
    driver.is_watched = request.watched
    behind = partial(_require_not_older, place, committers, connections, identity)
    put_back = partial(require_not_put_back, committers, systems, place.journal, identity, place.checkpoint)
    driver.bound(request.checkpointing.timeout_ms / 1000, behind, put_back)
    driver.min_pause_s = request.checkpointing.min_pause_ms / 1000
    driver.observer = request.observer
    return driver


def _left(place: Place) -> JobIdentity | None:
    """The job that a new one is to leave; None for one of which nothing can be asked, since its file is spoiled."""
    with suppress(CheckpointError):
        return read_identity(place.ours)
    return None


def _still_to_leave(place: Place, identity: JobIdentity, request: StartRequest) -> JobIdentity | None:
    """The job that this one is to leave, where the start with ``--as-new`` came no further than to ``job.json``."""
    if not identity.left or place.journal.history()[0].job_id != identity.left:
        return None
    # What it has lost is given up by a claim.
    at = "" if request.takeover == "claim" else place.uri
    return JobIdentity(identity.left, at, identity.cluster_id, identity.prefix)


def _require_not_older(
    place: Place,
    committers: Mapping[str, Committer],
    connections: Mapping[str, SinkConnection],
    identity: JobIdentity,
) -> None:
    """Refuse a sink's system that came back older than what the job has committed, or goes on from."""
    require_not_put_back(committers, _systems(connections), place.journal, identity, place.checkpoint)
    require_parents_not_put_back(place, committers, connections)


def _systems(connections: Mapping[str, SinkConnection]) -> dict[str, str]:
    return {sink: connection.system_id for sink, connection in connections.items()}


def _claim(
    place: Place,
    committers: Mapping[str, Committer],
    connections: Mapping[str, SinkConnection],
    identity: JobIdentity,
    name: str,
) -> Claim:
    """What the job has committed and its sinks do not know any more: a claim gives that up, and says what."""
    systems = _systems(connections)
    elsewhere = exchanged(committers, systems, place.journal, identity)
    for sink, newest in elsewhere.items():
        what = "sink %s writes to another system than before: what it has committed up to epoch %d is asked for no more"
        JobLog(log, name).warning(what, sink, newest.epoch)
    mine = lost_commits(committers, systems, place.journal, identity, place.checkpoint)
    older = [(f"job {parent.job_id}", lost) for parent, lost in lost_of_parents(place, committers, connections, mine)]
    found = [(whose, sink, of) for whose, lost in [("this job", mine), *older] for sink, of in lost.items()]
    for whose, sink, of in found:
        JobLog(log, name).warning(
            "sink %s does not know epoch %d to %d of %s any more: the claim gives up %s there",
            sink,
            of.epochs[-1].epoch,
            of.newest.epoch,
            whose,
            of.words,
        )
    ends = {each.handle for _, _, of in found for each in (of.newest, of.epochs[-1])}
    ends |= {newest.handle for newest in elsewhere.values()}
    # What is known of an older job is asked of that job's checkpoint.
    known = (of.known for sink, of in mine.items() if sink not in elsewhere and of.known is not None)
    return Claim(tuple(sorted(ends)), tuple(known))


def _claimed_incarnation(committers: Iterable[Committer]) -> int:
    """Above what a claimed older copy goes on: above all that any system has of its job, or names come twice.

    The marks tell it, where they are kept; a ledger or a table may have rows of starts of which no mark is left.
    """
    marks = [Mark.loads(text) for text in (kept.read() for kept in marks_of(committers)) if text is not None]
    log.warning(
        "the checkpoint is claimed; the next start goes without %s, which turns off the check for old copies",
        advised("claim"),
    )
    return max([above_all(), *(mark.incarnation for mark in marks if mark is not None)])
