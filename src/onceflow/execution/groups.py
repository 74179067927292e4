"""How many tasks take an epoch's partitions: as many as can run at once, and a few more where an epoch is large.

Must not know: Spark, sinks, what the rules make of a run. Pure.

A task costs 40 to 100 ms whatever it writes (Spark hands it to a Python worker, each sink opens a transaction and
proves it), a partition nearly nothing. So a small epoch has one task for each slot, and no slot takes a second one. A
large epoch has more, because partitions are not alike: a slot that is done early takes one of the tasks that are left.
What a record costs is not known here: where few records cost much and lie in few partitions, slots may wait for one.
"""

from __future__ import annotations

_MOST_FOR_A_SLOT = 4
"""Tasks for each slot in a large epoch: where tasks are alike, slots end within a quarter of their work."""
_RECORDS_FOR_A_TASK = 50_000
"""Below this a further task costs more than it can even out: a copy reads so many records in 0.2 s."""


def groups(partitions: int, slots: int, records: int) -> int:
    """How many tasks take an epoch's partitions.

    Args:
        partitions: How many partitions the plan has.
        slots: How many tasks run at once.
        records: How many records the sources read for the epoch; 0 where that cannot be told: it may be a large one.
    """
    least, most = max(1, slots), max(1, slots) * _MOST_FOR_A_SLOT
    return min(partitions, min(max(least, records // _RECORDS_FOR_A_TASK), most) if records else most)
