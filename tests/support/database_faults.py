"""What a committer says of a fault of its database."""

from __future__ import annotations

from onceflow.twophase.messages import Reply


def answer(start, prepared):
    (reply,) = start.committer.commit(prepared).values()
    return reply


def checked(start, *shards, epoch=0):
    prepared = start.prepare(*shards, epoch=epoch)
    assert start.committer.check(prepared, start.run(epoch), 0.0) is None
    return prepared


def decided(server, start, *shards, epoch=0):
    """Checked, and decided; what the check kept is lost, as with a driver that was killed: staging has it."""
    prepared = checked(start, *shards, epoch=epoch)
    assert server.execute("select pg_terminate_backend(pid) from pg_stat_activity where state = 'idle in transaction'")
    assert answer(start, prepared) is Reply.RETRY
    return prepared
