"""A job with two sinks and the lives of what it stands on, in any order.

Deaths, backups and checkpoints that are put back, savepoints, and what a table's owner does to it, between two lives or
in the middle of one. Must not know: any particular system, beyond how its whole content is copied. A machine of
hypothesis chooses what happens; a model says what each sink must show, or that the start must be refused, with how many
rows, and which command leads out.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from onceflow.checkpoint.place import Place
from onceflow.connectors.contract import Committer
from onceflow.errors import CheckpointConflictError, OnceflowError
from onceflow.execution.task import DIGEST, output_column
from onceflow.operations.savepoints import reading, restoring, writing
from onceflow.testing import World
from tests.support.ledger_sink import visible
from tests.support.shop import Shop

MOMENTS = ("commit", "merge", "record")
"""Of an epoch that is decided: each sink commits in a thread of its own, the table's does, Spark records it."""


def amount(n: int) -> int:
    """What an order says beside its key: an integer of 32 bits that a float of 32 bits does not hold."""
    return (1 << 24) + 1 + 2 * n


@dataclass(frozen=True, slots=True)
class Harm:
    """What an owner does to a table, or to what is beside it.

    Attributes:
        does: Does it.
        undoes: Takes it back, whatever the job has done since.
        hides: Rows are elsewhere until then.
        volatile: A crash of the system empties what was harmed.
    """

    does: Callable[[], object]
    undoes: Callable[[], object] = lambda: None
    hides: bool = False
    volatile: bool = False


class System(Protocol):
    """A real system with a table, and what keeps and restores all of it."""

    world: World

    def harms(self) -> Mapping[str, Harm]: ...

    def drop(self) -> None: ...

    def forget(self) -> None: ...

    def back_up(self, name: int) -> None: ...

    def put_back(self, name: int) -> None: ...

    def tidy(self) -> None: ...

    def close(self) -> None: ...


class Statements:
    """A table of a database, and what each database does to it by the same statements."""

    def do(self, *statements: str) -> None:
        """Run them, as the owner."""
        raise NotImplementedError

    def harm(self, does: str, undoes: str, *, volatile: bool = False) -> Harm:
        """By statements with "; " between them."""
        do, undo = does.split("; "), undoes.split("; ")
        return Harm(lambda: self.do(*do), lambda: self.do(*undo), volatile=volatile)

    def harms_to_what_is_beside(self) -> dict[str, Harm]:
        """To onceflow's own tables."""
        return {
            "the ledger is renamed": self.harm(
                "alter table onceflow_ledger rename to put_aside", "alter table put_aside rename to onceflow_ledger"
            ),
            "the marks are renamed": self.harm(
                "alter table onceflow_marks rename to put_aside", "alter table put_aside rename to onceflow_marks"
            ),
            "what is staged is emptied": Harm(lambda: self.do("delete from payments_onceflow_staged")),
        }

    def drop(self) -> None:
        self.do("drop table payments")

    def forget(self) -> None:
        self.do("delete from onceflow_ledger")


class InFolder:
    """A system that is a folder: its backup is a copy.

    Args:
        kind: Makes the table's world in a folder.
    """

    def __init__(self, kind: Callable[[Path], World]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="onceflow-lives-"))
        (self._folder / "system").mkdir()
        self.world = kind(self._folder / "system")

    def back_up(self, name: int) -> None:
        shutil.copytree(self._folder / "system", self._folder / f"backup-{name}")

    def put_back(self, name: int) -> None:
        gone = self._folder / f"gone-{uuid.uuid4().hex}"  # at one moment, while others may write into it
        (self._folder / "system").rename(gone)
        shutil.copytree(self._folder / f"backup-{name}", self._folder / "system")
        shutil.rmtree(gone, ignore_errors=True)

    def tidy(self) -> None:
        if hasattr(self.world, "tidy_up"):
            self.world.tidy_up()

    def harms(self) -> Mapping[str, Harm]:
        return self.world.harms()  # type: ignore[attr-defined]

    def drop(self) -> None:
        self.world.drop()  # type: ignore[attr-defined]

    def forget(self) -> None:
        self.world.forget()  # type: ignore[attr-defined]

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class Job(Shop):
    """Each order goes to a ledger; those that are loud, to a table of the system as well.

    Args:
        folder: The job's.
        system: Where the table is.
    """

    def __init__(self, folder: Path, system: System) -> None:
        super().__init__(folder, 0)
        self.retain = 2  # so the journal forgets a quiet sink's epochs soon
        self.leap_s = 5.0  # so a refusal that stays is told after some tries, not after minutes
        self.loud = set[int]()
        self._world = system.world
        self._table = system.world.sink()
        self.sinks = [self.sink, self._table]

    def look_at_outputs(self, connections: Any) -> None:
        connection: Any = connections[self._table.name]
        fields = self._world.output()
        if fields is not None:
            connection.make_output(fields)
        made = connection.committer

        def committer(*of: str) -> Committer:
            one = made(*of)
            commit = one.commit
            one.commit = lambda participants: (self.happens("merge"), commit(participants))[1]
            return one

        connection.committer = committer

    def batch(self, orders: range) -> dict[str, pa.Array]:
        made = super().batch(orders)
        keys = [self.row(n) if n in self.loud else None for n in orders]
        rows = self._world.rows([key or "" for key in keys])
        for name in rows.schema.names:
            made[output_column(1, name)] = rows.column(name)
        made[output_column(1, "amount")] = pa.array(map(amount, orders), pa.int64())
        digests = [None if key is None else zlib.crc32(key.encode()) for key in keys]
        return made | {output_column(1, DIGEST): pa.array(digests, pa.int64())}

    def name_table(self, name: str) -> None:
        """Call the table's sink otherwise."""
        self._table.name = name

    def shown(self) -> Counter[int]:
        """Which orders the ledger shows, and how often."""
        return Counter(int(row.split()[1]) for row in visible(self.ledger))

    def table(self) -> Counter[int]:
        """Which orders the table shows, and how often."""
        return Counter(int(row.split()[1]) for row in self._world.visible())

    def amounts(self) -> dict[int, object]:
        """What the table says of each order beside its key, whatever the column is called now; None: nothing."""
        return {int(row["key"].split()[1]): row.get("amount", row.get("amounts")) for row in self._world.whole()}


class Lives(RuleBasedStateMachine):
    """What may happen, and what must follow. A subclass says on which ``system``."""

    system: Callable[[], System]

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp(prefix="onceflow-lives-"))
        self._system = type(self).system()
        self.job = Job(self._folder, self._system)
        self.ledger, self.table = Counter[int](), Counter[int]()
        self.done = 0  # how far the checkpoint has come that is there
        self.stale = False  # it is a copy of before the newest start
        self.undone = False
        self.backups = 0
        self.copies: dict[int, int] = {}
        self.newest = set[int]()  # the copies behind which there was no start
        self.oldest_backup = 0  # those before it are of another table, or ledger
        self.harm: Harm | None = None
        self.before = Counter[int]()  # rows of before the harm, which are the owner's to lose
        self.given_up = Counter[int]()  # rows that a claim has given up; an older backup may still have them
        self.by_history = False  # the history alone tells of an earlier name, since its ledger was emptied
        self.forgotten = False  # what says which epochs are in the table was emptied by a crash
        self.saved: dict[Path, int] = {}  # savepoints of the job that runs now
        self.born = False  # it was made of another job
        self.names = 0

    def teardown(self) -> None:
        self.job.close()
        self._system.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    # -- what happens ------------------------------------------------------------------------------------------------

    @initialize()
    def first(self) -> None:
        """There is a table, and a job that has run."""
        self.arrive(2, loud=True)
        self.run()

    @rule(count=st.integers(1, 3), loud=st.booleans())
    def arrive(self, count: int, loud: bool) -> None:
        """Orders come."""
        end = self.job.orders.end
        self.job.orders.end = end + count
        if loud:
            self.job.loud |= set(range(end, end + count))

    @rule()
    def run(self) -> None:
        """A life of the job, to its end: right, or refused with the number of rows that are gone."""
        if self.harm is not None:
            self._live(self.job.run())
            return
        error = self.job.run()
        gone = (self.table - self.job.table()).total()
        if self.stale:
            other = "writes to was dropped or renamed"  # the table that the copy speaks of
            self._refused(error, "is older than what this job has done", "misses a start of this job", other)
        elif gone:  # of a job that was made of another one, each job's are told when the older one's are there
            one = f"epochs with {gone} rows that it had"  # of two names each is told when the other's are there
            self._refused(error, "rows that it had committed" if self.born or self.names else one)
        else:
            assert error is None, error
            self._went_on()

    @precondition(lambda self: self.harm is None and self._may_go_on() and not self.undone)
    @precondition(lambda self: self.job.orders.end > self.done)
    @rule(moment=st.sampled_from(MOMENTS))
    def die(self, moment: str) -> None:
        """The driver dies in an epoch that is decided."""
        if moment == "merge":
            self.arrive(1, loud=True)
        self.job.dies_at(moment)
        self.undone, self.newest = True, set()

    @precondition(lambda self: self.harm is None and self._may_go_on())
    @rule(epochs=st.integers(3, 6))
    def be_quiet(self, epochs: int) -> None:
        """Epochs come that have no row for the table, more than the journal keeps."""
        for _ in range(epochs):
            self.arrive(1, loud=False)
            self.run()

    @precondition(lambda self: self.harm is None)
    @rule()
    def claim(self) -> None:
        """An operator claims the checkpoint: what is gone is given up, and what lies behind it is written again."""
        self._claim()

    @precondition(lambda self: self.harm is None and self._may_go_on())
    @rule(data=st.data(), moment=st.sampled_from(("between", "check", *MOMENTS)))
    def do_harm(self, data: st.DataObject, moment: str) -> None:
        """The table's owner does something to it, between two lives, or in the middle of one."""
        harms = self._system.harms()
        self._harm(harms[data.draw(st.sampled_from(sorted(harms)))], moment)

    @precondition(lambda self: self.harm is None and self._may_go_on() and not self.undone)
    @rule(data=st.data(), moment=st.sampled_from(("check", "merge")))
    def do_harms(self, data: st.DataObject, moment: str) -> None:
        """One harm after another comes before the table is written to, and is taken back."""
        harms = self._system.harms()
        for name in data.draw(st.lists(st.sampled_from(sorted(harms)), min_size=2, max_size=4, unique=True)):
            self._harm(harms[name], moment)
            self.suffer(harms[name])
            self.undo_harm()

    @precondition(lambda self: self.harm is not None)
    @rule()
    def undo_harm(self) -> None:
        """It is taken back: then the job goes on, and has everything."""
        assert self.harm is not None
        self.harm.undoes()
        self.harm, self.before = None, Counter()
        if self.forgotten:
            self.forgotten = False
            self._go_on_or_claim("rows that it had committed")
            return
        error = self.job.run()
        assert error is None, error
        self._went_on()

    @precondition(lambda self: self.harm is None and not self.stale and not self.undone)
    @rule()
    def rename(self) -> None:
        """The sink gets another name: its table is the same."""
        self.names += 1
        self.job.name_table(f"payments-{self.names}")

    @precondition(lambda self: self.harm is None and self._may_go_on() and not self.undone)
    @rule()
    def drop(self) -> None:
        """The table is dropped: a start makes another one, or is refused until it is claimed."""
        self._system.drop()
        self.oldest_backup, self.table = self.backups, Counter()
        self._go_on_or_claim("writes to was dropped or renamed")

    @precondition(lambda self: self.harm is None and self._may_go_on() and not self.undone)
    @rule()
    def forget(self) -> None:
        """What says which epochs are in the table is emptied: it is told by something else, or has to be claimed.

        Of a lake table the history tells it, for as long as that is not tidied; the next epoch begins a new ledger.
        """
        self._system.forget()
        self.oldest_backup = self.backups  # with an older one more would be gone than anybody knows
        self.arrive(1, loud=True)
        self._go_on_or_claim("rows that it had committed")
        self.by_history = self.names > 0

    @precondition(lambda self: self.harm is None and self._may_go_on() and not self.undone)
    @rule()
    def save(self) -> None:
        """A savepoint is made."""
        path = self._folder / f"savepoint-{len(list(self._folder.glob('savepoint-*')))}"
        writing.create(Place.at(self.job.folder, self.job.retain), path, "shop")
        self.saved[path] = self.done

    @precondition(lambda self: self.saved and self.harm is None and self._may_go_on() and not self.undone)
    @rule(data=st.data(), claim=st.booleans())
    def resume(self, data: st.DataObject, claim: bool) -> None:
        """A job goes on from a savepoint, as another one or as itself: what lies behind it is written again."""
        path = data.draw(st.sampled_from(sorted(self.saved)))
        place = Place.at(self._folder / f"resumed-{len(list(self._folder.glob('resumed-*')))}", self.job.retain)
        refused = self._restored(path, place, claim)
        if refused is not None:
            assert claim, refused
            assert "resume without --claim" in (refused.action or "")
            return
        self.job.folder = place.checkpoint.folder
        self.done, self.saved, self.copies, self.born = self.saved[path], {}, {}, self.born or not claim
        self._go_on_or_claim("misses a start of this job")

    @precondition(lambda self: not self.undone and self.harm is None)
    @rule()
    def back_up(self) -> None:
        """The system is backed up."""
        self._system.back_up(self.backups)
        self.backups += 1

    @precondition(lambda self: self.backups > self.oldest_backup and not self.undone and self.harm is None)
    @rule(data=st.data())
    def put_back(self, data: st.DataObject) -> None:
        """The system is put back from one of its backups."""
        self._system.put_back(data.draw(st.integers(self.oldest_backup, self.backups - 1)))

    @precondition(lambda self: self.harm is None and self._may_go_on() and not self.undone)
    @rule(epochs=st.integers(1, 2), quiet=st.integers(0, 4))
    def lose(self, epochs: int, quiet: int) -> None:
        """The system is put back to before its newest rows, some epochs without any behind them."""
        self.back_up()
        for _ in range(epochs):
            self.arrive(1, loud=True)
            self.run()
        for _ in range(quiet):
            self.arrive(1, loud=False)
            self.run()
        self._system.put_back(self.backups - 1)

    @precondition(lambda self: self.harm is None and self._may_go_on() and not self.undone)
    @rule(quiet=st.integers(0, 4))
    def lose_again(self, quiet: int) -> None:
        """Behind a claim that gave its newest rows up the system comes back older once more, before it has new ones."""
        first = self.backups
        self.lose(1, 0)
        self._claim_what_is_there()
        self.arrive(1, loud=True)
        self.run()
        self.lose(1, quiet)
        self._claim_what_is_there()
        self._system.put_back(first)

    @precondition(lambda self: self.harm is None)
    @rule()
    def tidy(self) -> None:
        """Maintenance: of a lake table nothing is left but its newest version.

        What a table's history alone told of an earlier name, since its ledger was emptied, nobody tells from then on.
        """
        if self.by_history and (self.undone or not self._may_go_on()):
            return
        self._system.tidy()
        if self.by_history:
            self.by_history = False
            self._go_on_or_claim("rows that it had committed")

    @precondition(lambda self: not self.undone and self.harm is None)
    @rule()
    def copy_checkpoint(self) -> None:
        """A copy of the checkpoint is taken."""
        number = len(list(self._folder.glob("copy-*")))
        shutil.copytree(self.job.folder, self._folder / f"copy-{number}")
        self.copies[number] = self.done
        if not self.stale:
            self.newest.add(number)

    @precondition(lambda self: self.copies and not self.undone and self.harm is None)
    @rule(data=st.data())
    def put_checkpoint_back(self, data: st.DataObject) -> None:
        """One of its copies takes the checkpoint's place."""
        number = data.draw(st.sampled_from(sorted(self.copies)))
        shutil.rmtree(self.job.folder)
        shutil.copytree(self._folder / f"copy-{number}", self.job.folder)
        self.done, self.stale = self.copies[number], number not in self.newest

    # -- what must follow --------------------------------------------------------------------------------------------

    @invariant()
    def look(self) -> None:
        """What is there before the next step: a claim begins there."""
        self.table_before = self.job.table()

    def _restored(self, path: Path, place: Place, claim: bool) -> CheckpointConflictError | None:
        try:
            restoring.restore(path, reading.verify(path), place, claim=claim)
        except CheckpointConflictError as error:
            return error
        return None

    def _claim_what_is_there(self) -> None:
        self.run()
        self.look()
        self._claim()

    def _claim(self) -> None:
        error = self.job.run(takeover="claim")
        assert error is None, error
        if not self.undone:  # else nothing is gone, and of what is decided some may be there already
            self.given_up |= self.table - self.table_before
            self.table = self.table_before.copy()
        self._went_on()

    def _go_on_or_claim(self, *words: str) -> None:
        self.look()
        error = self.job.run()
        if error is None:
            self._went_on()
        else:
            self._refused(error, *words)
            self._claim()

    def suffer(self, harm: Harm) -> None:
        """What befalls a system that was harmed."""

    def _harm(self, harm: Harm, moment: str) -> None:
        self.harm = harm
        if moment == "between" or self.undone:
            self._does(harm)
            return
        self.arrive(1, loud=True)
        self.job.meanwhile[moment] = lambda: self._does(harm)
        error = self.job.run()
        assert not self.job.meanwhile, f"it came there, but: {error}"
        self._live(error)

    def _does(self, harm: Harm) -> None:
        harm.does()
        self.before = self.job.table()

    def _live(self, error: OnceflowError | None) -> None:
        """A life with a harm: all is right, or a refusal names what was harmed; and no start follows for ever."""
        decided = self.undone or self._has_undone()
        if error is not None and error.retriable:
            error = self.job.run()
        fresh = Counter(n for n in range(self.done, self.job.orders.end) if n in self.job.loud)
        more = self.job.table() - self.table - self.given_up
        assert not more - fresh
        if error is None:
            self._went_on()
            return
        assert not error.retriable, error
        assert "payments" in str(error) or "onceflow" in str(error), error
        self.undone, self.newest = self._has_undone(), set()
        assert not more or decided or self.undone, "no row of what is not decided is there"

    def _has_undone(self) -> bool:
        return Place.at(self.job.folder, self.job.retain).has_undone()

    def _may_go_on(self) -> bool:
        return not self.stale and not self.table - self.job.table()

    def _refused(self, error: OnceflowError | None, *words: str) -> None:
        assert isinstance(error, CheckpointConflictError), error
        assert any(each in str(error) for each in words), error
        assert not error.retriable
        assert 'takeover="claim"' in (error.action or "")

    def _went_on(self) -> None:
        """All orders behind the checkpoint's position were written, to both, and nothing else."""
        fresh = range(self.done, self.job.orders.end)
        self.ledger += Counter(fresh)
        self.table += Counter(n for n in fresh if n in self.job.loud)
        self.done, self.undone, self.stale, self.newest = self.job.orders.end, False, False, set()
        told = self.job.amounts()
        wrong = {n: told[n] for n in fresh if n in told and n not in self.before and told[n] != amount(n)}
        assert not wrong, "each row is there as it is"
        assert self.job.shown() == self.ledger
        if self.harm is None or not self.harm.hides:
            seen = self.job.table()
            # A backup that is put back may have what a claim gave up since: it is there again, and once.
            assert seen == self.table + ((seen - self.table) & self.given_up)
