"""What is proven of each sink whose system keeps its commits: it was put back, or the checkpoint is older than it.

Must not know: any particular system. ``snapshot`` keeps a system as it is, and gives what puts it back.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onceflow.errors import CheckpointConflictError
from onceflow.testing import World
from onceflow.testing.trial import Start, Trial
from onceflow.twophase.messages import Outcome, Reply

Snapshot = Callable[[], Callable[[], None]]


def write(t: Trial, start: Start, epoch: int, rows: int = 3) -> list[str]:
    """An epoch, from its rows to its commit; its keys."""
    keys = t.keys(rows)
    prepared = start.prepare(keys, epoch=epoch)
    assert start.committer.check(prepared, start.run(epoch), 0.0) is None
    t.commit(start, prepared)
    return keys


def put_back_under_a_start_that_has_committed_nothing(world: World, snapshot: Snapshot) -> None:
    """Put back between a start's look and its first commit, a busy sink is noticed by that commit's check."""
    with Trial(world) as t:
        first = t.start()
        write(t, first, 0)
        older = snapshot()
        write(t, first, 1)
        newest = dict(first.newest)
        first.close()
        second = t.start(2)
        second.newest = newest  # as the journal says
        older()
        prepared = second.prepare(t.keys(), epoch=2)
        with pytest.raises(CheckpointConflictError, match=r"does not know the newest epoch any more .* epochs up to 0"):
            second.committer.check(prepared, second.run(2), 0.0)


def put_back_while_the_sink_is_quiet(world: World, snapshot: Snapshot) -> None:
    """An epoch without a row for the sink asks as well, so it is noticed before others' rows are decided on and on."""
    with Trial(world) as t:
        start = t.start()
        older = snapshot()
        write(t, start, 0)
        assert start.committer.check([], start.run(7), 0.0) is None
        older()
        with pytest.raises(CheckpointConflictError, match=r"holds no epoch of this job"):
            start.committer.check([], start.run(8), 0.0)


def put_back_between_check_and_commit(world: World, snapshot: Snapshot) -> None:
    """What was staged before comes back with it; its commit is not made on a system that lacks the epoch before."""
    with Trial(world) as t:
        start = t.start()
        write(t, start, 0)
        keys = t.keys()
        staged = start.prepare(keys, epoch=2)
        older = snapshot()
        write(t, start, 1)
        start.close()
        second = t.start(2)
        second.newest = dict(start.newest)
        late = second.prepare(keys, epoch=2)
        assert second.committer.check(late, second.run(2), 0.0) is None
        older()
        third = t.start(3)
        replies = t.send_commits(third, late)
        assert Reply.COMMITTED not in replies.values()
        t.outcomes_are(Outcome.UNKNOWN, third, late, "on a system that was put back")
        t.none_visible(keys, "on a system that was put back")
        third.committer.abort(staged)


def older_checkpoint(world: World) -> None:
    """A start with an older copy of the checkpoint decides nothing that the system holds, nor what lies before it."""
    with Trial(world) as t:
        first = t.start()
        write(t, first, 0)
        at_0 = dict(first.newest)
        for epoch in (1, 2):
            write(t, first, epoch)
        first.close()
        second = t.start(2)
        second.newest = at_0
        for epoch in (1, 2):
            prepared = second.prepare(t.keys(), epoch=epoch)
            with pytest.raises(CheckpointConflictError, match=r"holds epoch 2 of start 1 .* older than its sinks"):
                second.committer.check(prepared, second.run(epoch), 0.0)


def claimed_checkpoint(world: World, *, behind: int) -> None:
    """Claimed, an older copy writes its epochs again on purpose, and then new ones: each row that is decided is there.

    Args:
        world: The world.
        behind: How many epochs older the copy is.
    """
    with Trial(world) as t:
        first = t.start()
        keys = [write(t, first, 0)]
        copy = dict(first.newest)
        keys += [write(t, first, epoch) for epoch in range(1, 1 + behind)]
        first.close()
        second = t.start(2)
        second.newest, second.claimed = copy, 2
        keys += [write(t, second, epoch) for epoch in range(1, 1 + behind)]
        newest = dict(second.newest)
        second.close()
        third = t.start(3)  # without the claim, as the next start is told to be
        third.newest, third.claimed = newest, 2
        keys += [write(t, third, epoch) for epoch in range(1 + behind, 4 + behind)]
        for of in keys:
            t.all_visible_once(of, "behind a claim")
