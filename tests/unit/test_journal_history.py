"""What a journal's records mean must not hang on how many of them are kept: a property over every field of a history.

Two journals take the same records, as drivers write them: one purges with its ``retain``, the other never. The store is
in memory, since the property is about records, not about files.
"""

import uuid
from dataclasses import dataclass, fields

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onceflow.checkpoint.journal import Journal
from onceflow.twophase.committable import Committable, Participant
from onceflow.twophase.layout import Layout, Source, Topic
from onceflow.twophase.messages import Appended
from onceflow.twophase.records import Decide, History, Planned, Recut, Replay, ReplayBegin, Resolve, Skip, Void
from tests.simulation.fake_files import FakeStore, Files

WHO = tuple(Participant((sink, shard)) for sink in ("a", "b") for shard in (0, 1))
NEVER = 10**9


def written(incarnation, epoch, of=WHO):
    return tuple(
        Committable(
            sink, n, 0, 1, epoch, {"id": f"{incarnation}-{sink}-{n}", "producer_id": n, "producer_epoch": epoch}
        )
        for sink, n in of
    )


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
        self.history = self.history.then(record)

    def read(self):
        """The history as another process reads it: purged, and whole."""
        return tuple(Journal(store).history()[0] for store in self.stores)

    # -- what a driver or an operator may write now ------------------------------------------------

    def plan(self, partitions):
        source = Source(("a", "b"), "cluster", "topic in", "path", (Topic("in", "id", partitions + 1),))
        self.append(Planned(self.history.incarnation, Layout((source,))))

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
        epoch = newest.epoch if newest is not None and which % 2 else self.next_epoch
        self.append(Resolve(self.history.incarnation, epoch, "give-up-rows", (WHO[which],), "op", "gone"))

    @property
    def next_epoch(self):
        return 0 if self.history.decided is None else self.history.decided.epoch + 1

    def decide(self, jump):
        newest = self.history.decided
        epoch = jump if newest is None else newest.epoch + 1 + jump
        self.append(Decide(self.history.incarnation, epoch, f"v1\n{epoch}", written(self.history.incarnation, epoch)))

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
        incarnation, there = self.history.incarnation, [c.participant for c in newest.effective]
        stay = tuple(p for p in there[:kept] if p in WHO)
        again = tuple(p for p in WHO if p not in stay)
        scope = "shards" if stay else "whole"
        self.append(
            Replay(incarnation, newest.epoch, newest.replays, scope, written(incarnation, newest.epoch, again), stay)
        )

    def resolve(self, which):
        if (newest := self.history.decided) is not None:
            choice = ("write-again", "count-as-written", "accept-state")[which % 3]
            of = () if choice == "accept-state" else (WHO[which % len(WHO)],)
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
