"""Checks of a sink that takes no part in the decision, and of rows that replace those of their keys.

Must not know: any particular sink, Spark, the journal.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

from onceflow.connectors.contract import Guarantee, Writer
from onceflow.errors import OnceflowError
from onceflow.testing.check import asks
from onceflow.testing.trial import Trial, World, elsewhere


@asks(Guarantee.AT_LEAST_ONCE, Guarantee.IDEMPOTENT_UPSERT)
def a_plain_prepare_has_written_all(t: Trial) -> None:
    """A sink that takes no part in the decision shows every row when prepare returns, and gives no transaction."""
    start, keys = t.start(), t.keys()
    written = start.write(keys)
    t.demand(written.transaction is None, "prepare gives a transaction, though the sink takes no part in the decision")
    t.all_visible_once(keys, "after prepare")


# -- rows that replace those of their keys -----------------------------------------------------------


_by_key = asks(Guarantee.IDEMPOTENT_UPSERT)


@_by_key
def a_row_written_again_is_there_once(t: Trial) -> None:
    """A task that died behind its pre-commit, and a start that runs the epoch again, leave one row of each key."""
    keys = t.keys()
    t.start().write(keys)
    again = t.start(2)
    again.write(keys, attempt=1)
    t.all_visible_once(keys, "after a second run of the epoch")


@_by_key
def a_newer_row_replaces_the_one_of_its_key(t: Trial) -> None:
    """Of one start the later epoch's row stays; of two the later start's, though its epoch has a lower number."""
    keys, first, resumed = t.keys(), t.start(), t.start(2)
    for start, epoch, word in ((first, 7, "seven"), (first, 8, "eight"), (resumed, 3, "three, of the next start")):
        start.put(keys, word, epoch=epoch)
        t.shown_as(keys, word, f"after epoch {epoch} of start {start.incarnation}")


@_by_key
def a_late_row_replaces_nothing(t: Trial) -> None:
    """What an older epoch or an older start still writes, behind a newer row, does not take that row's place."""
    keys, older, newer = t.keys(), t.start(), t.start(2)
    begun = older.open(epoch=9)
    older.put(keys, "nine", epoch=9)
    older.put(keys, "ten", epoch=10)
    for how, late in (("was open before it", begun), ("was opened behind it", None)):
        with suppress(OnceflowError):  # it may be told that it comes too late
            _put_late(t, late or older.open(epoch=9), keys)
        t.shown_as(keys, "ten", f"after a writer of an older epoch that {how}")
    begun = older.open(epoch=11)
    newer.put(keys, "new", epoch=4)
    for how, late in (("was open before it", begun), ("was opened behind it", None)):
        with suppress(OnceflowError):
            _put_late(t, late or older.open(epoch=11), keys)
        t.shown_as(keys, "new", f"after a writer of an older start that {how}")


def _put_late(t: Trial, writer: Writer, keys: list[str]) -> None:
    writer.write(t.world.rows_saying(keys, "late"))
    writer.prepare()


@_by_key
def of_two_at_once_the_newer_stays(t: Trial) -> None:
    """Where two processes put rows of the same keys at the same time, those of the newer start are there at the end."""
    keys = [t.keys() for _ in range(10)]
    t.start()  # makes what is to be looked at
    with ThreadPoolExecutor(1) as threads:
        older = threads.submit(elsewhere, _put_each, t.world, t.job_id, 1, "nine", keys)
        while not older.done() and keys[-1][0] not in t.world.says():
            time.sleep(_LOOK_EVERY_S)
        _put_each(t.world, t.job_id, 2, "new", keys)
        older.result()
    t.shown_as([key for each in keys for key in each], "new", "after puts of two processes at once")


def _put_each(world: World, job_id: str, incarnation: int, word: str, keys: list[list[str]]) -> None:
    """Put rows of an epoch after the other; of the first start until the second one's are seen, and once more."""
    with Trial(world) as t:
        start, behind = t.start(incarnation, job_id=job_id), incarnation > 1
        deadline = time.monotonic() + _BESIDE_S
        for epoch in count():
            for each in keys:
                with suppress(OnceflowError):  # the older one may be told that it comes too late
                    start.put(each, word, epoch=epoch)
                time.sleep(_LOOK_EVERY_S)  # else a lock would never be free for the other process
            if behind:
                return
            behind = world.says().get(keys[0][0]) != word or time.monotonic() > deadline


_BESIDE_S, _LOOK_EVERY_S = 5.0, 0.01
