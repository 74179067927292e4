"""Replays by parts, again and again: real rules in random histories of losses and deaths, with rows that are equal.

Must not know: Kafka, Spark. A participant covers one part, some, or all; parts hold equal rows, or none; each start
numbers its parts otherwise, and each run groups them into other tasks.
"""

import random
from collections import Counter
from itertools import count

import pytest

from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.layout import Layout
from onceflow.twophase.messages import (
    Aborted,
    AbortOwn,
    Append,
    Appended,
    AskOutcomes,
    Check,
    Checked,
    Commit,
    Confirmed,
    ConfirmNewest,
    Discard,
    Evidence,
    Fail,
    FailureKind,
    Lingering,
    ListLingering,
    Outcome,
    Outcomes,
    Ran,
    Ready,
    Replies,
    Reply,
    Restored,
    RestoreOffsets,
    Return,
    RunPlan,
    Seal,
    Sealed,
    Started,
    Survey,
    Surveyed,
    Sweep,
    Sync,
    Synced,
    TakenOver,
)
from onceflow.twophase.participants import Part, Participant, TaskReport
from onceflow.twophase.records import Replay, Start
from tests.support.histories import read_history

EPOCH, STARTS = 5, 12
ROWS = {"": (0, 0), "x": (2, 11), "y": (2, 12), "z": (5, 11)}  # what a part may hold: rows and digest
OPEN, GONE, SEEN = Outcome.OPEN, Outcome.ABORTED, Outcome.COMMITTED


class Died(Exception):  # noqa: N818 - it is what it is
    """The driver is dead."""


class World:
    """A job's epoch, start by start, and the systems of its sinks."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.sinks = self.random.choice(["s", "st"])
        tasks = self.random.choice([2, 3, 4, 6])
        self.holds = {sink: self.random.choices(["", "x", "x", "y", "z"], k=tasks) for sink in self.sinks}
        self.together = self.random.choice([1, 2, 3, tasks])
        self.stateful = self.one_in(2)
        self.records = [Start(1)]
        self.written, self.state, self.handles = {}, {}, count()

    def one_in(self, times):
        return self.random.random() * times < 1

    def start(self):
        """One driver; True when Spark may record the epoch."""
        self.records.append(Start(self.records[-1].incarnation + 1))
        history = read_history(self.records)
        self.order = self.random.sample(range(len(self.holds["s"])), len(self.holds["s"]))
        self.rules = Coordinator(self.sinks)
        self.rules.start()
        undone = history.undone(EPOCH - 1)
        action = self.rules.receive(Started(history, EPOCH - 1, EPOCH if undone else EPOCH - 1, self.stateful))
        while not isinstance(action, Return | Fail):
            if self.one_in(25):
                return False
            self.lose([who for who, state in self.state.items() if state is OPEN and self.one_in(7)])
            try:
                action = self.perform(action)
            except Died:
                return False
        if isinstance(action, Fail):
            assert action.failure.kind in (FailureKind.LOST_WHILE_RUNNING, FailureKind.UNSOUND)
        return isinstance(action, Return)

    def perform(self, action):  # noqa: C901, PLR0912 - a line for each action
        match action:
            case RestoreOffsets():
                return self.rules.receive(Restored())
            case ListLingering(spared):
                self.lingering = self.state.keys() - {p.id for p in spared}
                return self.rules.receive(Lingering({}))
            case Sweep():
                self.lose(self.lingering)
                return self.rules.receive(Aborted())
            case TakenOver():
                return self.rules.settle()
            case Survey():
                return self.rules.receive(Surveyed(Layout()))
            case Ready():
                return self.rules.begin(EPOCH, "o5", stateful=self.stateful, newest_commit=EPOCH - 1)
            case Append(record):
                self.records.append(record)
                return self.unless_dead(Appended())
            case AskOutcomes(participants):
                return self.rules.receive(Outcomes({p.id: Evidence(self.state[p.id], "") for p in participants}))
            case Discard(participants) | AbortOwn(_, participants):
                self.lose(p.id for p in participants)
                return self.rules.receive(Aborted())
            case Commit(participants):
                return self.unless_dead(Replies({p.id: self.commit(p.id) for p in participants if not self.one_in(5)}))
            case RunPlan():
                return self.unless_dead(self.run(action))
            case Seal(reports):
                return self.unless_dead(self.seal(reports))
            case Sync():
                return self.rules.receive(Synced())
            case Check(participants):
                sound = all(self.state[p.id] is OPEN for p in participants)
                return self.rules.receive(Checked(None if sound else "one is gone"))
            case ConfirmNewest():
                return self.rules.receive(Confirmed(newest=True))
        raise AssertionError(action)

    def unless_dead(self, event):
        if self.one_in(10):
            raise Died
        return self.rules.receive(event)

    def lose(self, handles):
        self.state |= {who: GONE for who in handles if self.state[who] is OPEN}

    def commit(self, who):
        if self.state[who] is OPEN:
            self.state[who] = SEEN
        return Reply.COMMITTED if self.state[who] is SEEN else Reply.SUSPECT

    def run(self, action):
        reports, parts = [], len(self.order)
        tasks = self.random.randint(1, parts)
        group = [self.random.randrange(tasks) for _ in range(parts)]
        for sink in self.sinks:
            held = [Part(sink, number, *ROWS[self.holds[sink][place]]) for number, place in enumerate(self.order)]
            for task in range(tasks):
                mine = tuple(part for part in held if group[part.number] == task and part.rows)
                writes = any(action.write and part.id not in action.silent for part in mine)
                reports.append(TaskReport(sink, task, 0, mine, {} if writes else None))
        return Ran(tuple(reports), tuple(self.sinks), tasks, ("",) * parts, 1)

    def seal(self, reports):
        held = []
        for sink in self.sinks:
            left = [part for report in reports if report.sink == sink for part in report.parts]
            self.random.shuffle(left)
            while left:
                taken, left = left[: self.together], left[self.together :]
                held.append(Participant(sink, f"h{next(self.handles)}", tuple(taken), {}))
                self.written[held[-1].id] = [self.holds[sink][self.order[part.number]] for part in taken]
                self.state[held[-1].id] = OPEN
        return Sealed(tuple(held))

    def visible(self, sink):
        return Counter(
            what for who, of in self.written.items() if who[0] == sink and self.state[who] is SEEN for what in of
        )


@pytest.mark.parametrize("first", range(0, 1_000, 250))
def test_each_part_is_visible_once_whatever_is_lost_and_how_often(first):
    """When the epoch is done each part's rows are visible as often as parts hold them, and never more before that."""
    done, by_parts = 0, Counter()
    for seed in range(first, first + 250):
        world = World(seed)
        finished = any(world.start() for _ in range(STARTS))
        for sink in world.sinks:
            wanted = Counter(what for what in world.holds[sink] if what)
            seen = world.visible(sink)
            assert not seen - wanted, f"seed {seed}: doubled {seen - wanted}"
            assert not finished or seen == wanted, f"seed {seed}: lost {wanted - seen}"
        done += finished
        by_parts[sum(isinstance(r, Replay) and r.scope == "parts" for r in world.records)] += 1
    assert done > 150
    assert by_parts[1] > 10
    assert sum(by_parts[n] for n in by_parts if n > 1) > 10, "and a replay of what a replay had kept"
