"""What a journal's records mean must not hang on how many of them are kept: a property over every field of a history.

Two journals take the same records, as drivers write them: one purges with its ``retain``, the other never. The store is
in memory, since the property is about records, not about files.
"""

import itertools
import uuid
from dataclasses import dataclass, fields

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onceflow.checkpoint.journal import Journal
from onceflow.twophase.layout import Layout, LayoutSource, Topic
from onceflow.twophase.messages import Appended
from onceflow.twophase.participants import Part, Participant
from onceflow.twophase.records import Decide, History, LayoutRecord, Recut, Replay, ReplayBegin, Resolve, Skip, Void
from tests.simulation.fake_files import FakeStore, Files

WHO = tuple((sink, n) for sink in ("a", "b") for n in (0, 1))
NEVER = 10**9


NUMBERS = itertools.count()


def written(epoch, of=WHO):
    return tuple(Participant(sink, f"h{next(NUMBERS)}", (Part(sink, n, 1, epoch),), {"n": n}) for sink, n in of)


@dataclass
class Job:
    """A job's journal, kept twice: purged and whole."""

    retain: int

    def __post_init__(self):
        self._files = Files(), Files()
        self.stores = [FakeStore("journal", files, lambda _, effect: effect()) for files in self._files]
        self.history = None
        self.start(0)

    def start(self, which):
        """A driver takes over; now and then it is another job's, that goes on from here."""
        job_id = self.history.job_id if self.history and which else uuid.uuid4().hex[:12]
        self.drivers = [Journal(s, retain=r) for s, r in zip(self.stores, (self.retain, NEVER), strict=True)]
        for driver in self.drivers:
            self.history = driver.start(job_id, left=driver.history()[0].job_id)

    def append(self, record):
        for driver in self.drivers:
            assert isinstance(driver.append(record), Appended)
            driver.purge()
        self.history = self.history.then(record)

    def read(self):
        """The history as another process reads it: purged, and whole."""
        return tuple(Journal(store).history()[0] for store in self.stores)

    # -- what a driver or an operator may write now ------------------------------------------------

    def plan(self, partitions):
        source = LayoutSource(("a", "b"), "cluster", "topic in", "path", (Topic("in", "id", partitions + 1),))
        self.append(LayoutRecord(self.history.incarnation, Layout((source,))))

    def recut(self, limit):
        self.append(Recut(self.history.incarnation, self.next_epoch, limit + 1))

    def skip(self, decided):
        newest = self.history.decided
        if newest is not None and decided % 2:
            self.append(Skip(self.history.incarnation, newest.epoch, f"b{decided}", f"o{decided}"))
        else:
            self.append(Skip(self.history.incarnation, self.next_epoch, f"b{decided}", ""))

    def give_up(self, which):
        newest = self.history.decided
        decided = newest is not None and which % 2
        epoch, held = (newest.epoch, newest.effective) if decided else (self.next_epoch, ())
        given_up = tuple(p.id for p in held[which : which + 1])
        self.append(Resolve(self.history.incarnation, epoch, "give-up-rows", given_up, "op", "gone"))

    @property
    def next_epoch(self):
        return 0 if self.history.decided is None else self.history.decided.epoch + 1

    def decide(self, jump):
        newest = self.history.decided
        epoch = jump if newest is None else newest.epoch + 1 + jump
        self.append(Decide(self.history.incarnation, epoch, f"v1\n{epoch}", ("a", "b"), written(epoch)))

    def void(self, _):
        newest = self.history.decided
        self.append(Void(self.history.incarnation, 0 if newest is None else newest.epoch + 1))

    def replay_begin(self, _):
        if (newest := self.history.decided) is not None:
            self.append(ReplayBegin(self.history.incarnation, newest.epoch, newest.replays + 1))

    def replay(self, kept):
        newest = self.history.decided
        if newest is None or not newest.replaying:
            return
        stay = tuple(p.id for p in newest.effective[:kept])
        again = tuple(part.id for p in newest.effective[kept:] for part in p.parts)
        scope = "parts" if stay else "whole"
        new = written(newest.epoch, again if stay else WHO)
        self.append(Replay(self.history.incarnation, newest.epoch, newest.replays, scope, new, stay))

    def resolve(self, which):
        if (newest := self.history.decided) is not None:
            choice = ("write-again", "count-as-written", "accept-state")[which % 3]
            held = newest.effective
            of = () if choice == "accept-state" else (held[which % len(held)].id,)
            self.append(Resolve(self.history.incarnation, newest.epoch, choice, of, "op", "looked"))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                Job.start,
                Job.decide,
                Job.decide,
                Job.plan,
                Job.void,
                Job.replay_begin,
                Job.replay,
                Job.resolve,
                Job.recut,
                Job.skip,
                Job.give_up,
            ]
        ),
        st.integers(0, 3),
    ),
    max_size=30,
)


@pytest.mark.parametrize("field", [field.name for field in fields(History)])
@example(retain=2, steps=[(Job.decide, 0), (Job.decide, 1), (Job.start, 1)])
@given(retain=st.integers(2, 5), steps=STEPS)
def test_purging_changes_nothing_of_what_the_journal_says(field, retain, steps):
    """After any starts, decisions, voids, replays and choices a reader finds what it would find without any purge."""
    job = Job(retain)
    for step, number in steps:
        step(job, number)
        purged, whole = job.read()
        assert getattr(purged, field) == getattr(whole, field)
        assert getattr(whole, field) == getattr(job.history, field)


@given(retain=st.integers(2, 5), steps=STEPS)
def test_what_is_undone_does_not_hang_on_the_purge(retain, steps):
    """From the last epoch but one on, whichever Spark has recorded last, the same epoch is undone."""
    job = Job(retain)
    for step, number in steps:
        step(job, number)
    purged, whole = job.read()
    newest = whole.decided.epoch if whole.decided else 0
    for commit in range(newest if whole.earlier is None else whole.earlier, newest + 2):
        assert purged.undone(commit) == whole.undone(commit)
