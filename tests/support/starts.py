"""A start's parts without Spark: a checkpoint's place, its driver, and committers that say what they are asked."""

from dataclasses import replace

from onceflow.connectors.contract import Committer, Guarantee, Sink, SinkConnection
from onceflow.launch import ownership
from onceflow.launch.request import StartRequest
from onceflow.launch.request import place_of as place_of_plan
from onceflow.launch.taking_over import finish_decided
from onceflow.options.checkpointing import Checkpointing
from onceflow.twophase.messages import Appended, Evidence, Outcome, Reply
from onceflow.twophase.records import Decide
from tests.support.histories import participant

ONE = (participant(0),)


def place_of(folder):
    return place_of_plan(StartRequest("test", Checkpointing(folder)))


def identify(folder, takeover=None, systems="cluster-1"):
    return ownership.identify(place_of(folder), systems, "onceflow", takeover)


def started(folder, *epochs):
    """A job's first start here, and what it decided."""
    identity = identify(folder)
    place = place_of(folder)
    place.records.make()
    history = place.journal.start(identity.job_id)
    for epoch in epochs:
        assert place.journal.append(Decide(history.incarnation, epoch, f"v1\n{epoch}", ("s",), ONE)) == Appended()
    return identity, place


def done(folder, epoch):
    """Spark has recorded it."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(exist_ok=True)
        (folder / name / str(epoch)).write_text("v1\n{}\n")


def leave(place):
    return ownership.identify(place, "cluster-1", "onceflow", "as-new")


class Committing(Committer):
    """A sink's committer in memory: what is committed is written down, nothing is ever open otherwise."""

    def __init__(self, system, done):
        self.system, self.done = system, done

    def preflight(self):
        raise AssertionError("what is decided is finished before any check")

    def can_finish(self, one):
        return one.transaction["system"] == self.system

    def seal(self, reports, run):
        raise AssertionError("no plan is run")

    check = abort = abort_run = seal

    def commit(self, participants):
        self.done += [p.sink for p in participants]
        return {p.id: Reply.COMMITTED for p in participants}

    def outcomes(self, participants):
        return {p.id: Evidence(Outcome.OPEN, "") for p in participants}

    def lingering(self, *_):
        return []


class Listed(Sink):
    """A sink of one system; what its committer commits is in ``done``."""

    def __init__(self, name, system, done, guarantee=Guarantee.EXACTLY_ONCE):
        self.name, self.system, self.done, self.guarantee = name, system, done, guarantee

    def connect(self):
        raise AssertionError("what is decided is finished before any check")

    def attach(self):
        return Attached(self)

    def columns(self, _):
        raise AssertionError("no plan is run")

    describe = columns


class Attached(SinkConnection):
    """The same, connected."""

    def __init__(self, sink):
        self.sink, self.system_id = sink, sink.system

    def committer(self, *_):
        return Committing(self.sink.system, self.sink.done)

    def writer_factory(self):
        raise AssertionError("no plan is run")

    def close(self):
        pass


def undone_of(folder, *sinks):
    """An epoch that is decided for these (name, system) and not finished; Spark's plan of it is there."""
    identity = identify(folder, systems=",".join(sorted({system for _, system in sinks})))
    place = place_of(folder)
    place.records.make()
    history = place.journal.start(identity.job_id)
    of = tuple(replace(participant(0, sink=name), transaction={"system": system}) for name, system in sinks)
    names = tuple(name for name, _ in sinks)
    assert place.journal.append(Decide(history.incarnation, 0, "v1\n{}\n", names, of)) == Appended()
    (folder / "offsets").mkdir()
    (folder / "offsets" / "0").write_text("v1\n{}\n")


def finish(folder, sinks, takeover=None):
    return finish_decided(sinks, StartRequest("test", Checkpointing(folder), takeover=takeover))
