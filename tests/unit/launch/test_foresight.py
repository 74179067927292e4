"""What a start refuses before Java is started, and that nothing of it comes before what is decided."""

import logging

import pytest

import onceflow as of
from onceflow import job as job_module
from onceflow.checkpoint.identity import read_identity
from onceflow.connectors.contract import Guarantee
from onceflow.errors import CheckpointConflictError, ConfigurationError, KafkaRightsError, KafkaUnavailableError
from onceflow.launch.systems import look_at_systems
from onceflow.options.checkpointing import Checkpointing
from onceflow.twophase.layout import Layout, LayoutSource, Topic
from onceflow.twophase.messages import Appended
from onceflow.twophase.records import Decide, LayoutRecord
from tests.support.orders import Alerts, Orders
from tests.support.starts import ONE, Listed, done, place_of, started, undone_of


class JavaStartedError(Exception):
    """In its place: what would be the start of Java."""


def look(folder, sinks, sources=(), *, taken_over=False):
    return look_at_systems(sinks, sources, place_of(folder), "onceflow", "test", lambda _: None, taken_over=taken_over)


def test_all_that_is_found_in_order_is_handed_to_the_start(tmp_path):
    """Connections are opened once; the rights that are proven are not proven again; a new checkpoint stays nobody's."""
    sink, weak, sources = Alerts(), Alerts("weak", guarantee=Guarantee.AT_LEAST_ONCE), [Orders(), Orders()]
    found = look(tmp_path, [sink, weak], sources)
    assert [prefix for prefix, _ in sink.canaries] == ["onceflow"]
    assert weak.canaries == []
    assert (len(sources[0].made), len(sources[1].made)) == (1, 0), "one connection for each system"
    assert len(sources[0].asked) == 2
    assert found.allows([sink, weak])
    assert not found.allows([sink, Alerts()])
    assert found.connect(sink) is sink.connected[0]
    assert found.connect(sink) is sink.connected[1], "what is taken is taken"
    other = Alerts()
    assert found.connect(other) is other.connected[0], "of the same name, and another sink"
    assert found.take_sources() == {"one": sources[0].made[0]}
    found.close()
    assert (sink.connected[0].closed, sources[0].made[0].closed, weak.connected[0].closed) == (0, 0, 1)
    assert read_identity(place_of(tmp_path).ours) is None


def test_rights_to_what_is_not_there_yet_are_left_to_the_start(tmp_path):
    """A topic that is to be made when the plan is accepted: of the other sink alone it can be proven before."""
    there, later = Alerts(), Alerts("later")
    later.is_there = False
    found = look(tmp_path, [there, later])
    assert (len(there.canaries), len(later.canaries)) == (1, 0)
    assert not found.allows([there, later])
    found.close()


def test_what_is_missing_ends_it_with_nothing_made_or_left_open(tmp_path):
    """A source; then a right of the second sink."""
    sink, source = Alerts(), Orders(missing=True)
    with pytest.raises(ConfigurationError, match="no topic oders") as alone:
        look(tmp_path, [sink], [source])
    assert alone.value.others == ()
    assert (sink.connected[0].closed, source.made[0].closed) == (1, 1)
    refused = Alerts("b", refused=KafkaRightsError("this user lacks WRITE"))
    with pytest.raises(KafkaRightsError, match="WRITE"):
        look(tmp_path, [sink, refused], [good := Orders()])
    assert [c.closed for c in (*sink.connected, *refused.connected, *good.made)] == [1, 1, 1, 1]


def test_all_that_is_missing_is_told_at_once(tmp_path):
    """A source, and a right of each of two sinks: the first with its class and words, the others with what to do."""
    right = KafkaRightsError("this user lacks WRITE", harmless="always", cause="no ACL", action="allow it")
    sinks = [Alerts("a", refused=right), Alerts("b", refused=KafkaRightsError("this user lacks DESCRIBE"))]
    with pytest.raises(ConfigurationError, match="no topic oders") as refused:
        look(tmp_path, sinks, [Orders(missing=True)])
    assert [type(each) for each in refused.value.others] == [KafkaRightsError, KafkaRightsError]
    assert "Found as well: this user lacks WRITE (what to do: allow it)" in str(refused.value)
    assert str(refused.value).endswith("Found as well: this user lacks DESCRIBE")


def test_a_system_that_does_not_answer_is_asked_once(tmp_path):
    """Each further question would wait for it; and what a start again does not mend comes first."""
    sinks = [Alerts("a", refused=KafkaUnavailableError("no broker")), Alerts("b")]
    with pytest.raises(ConfigurationError) as refused:
        look(tmp_path, sinks, [Orders(missing=True)])
    assert [each.what for each in refused.value.others] == ["no broker"]
    assert sinks[1].canaries == []
    with pytest.raises(KafkaUnavailableError):
        look(tmp_path, sinks, [])


def test_what_the_checkpoint_knows_is_left_to_the_start(tmp_path):
    """A topic that was read and is gone is lost records, of which a start tells how many; not a topic to create."""
    _, place = started(tmp_path, 0)
    done(tmp_path, 0)
    layout = Layout((LayoutSource(("s",), "one", "topic orders", "", (Topic("orders", "id", 1),)),))
    assert place.journal.append(LayoutRecord(1, layout)) == Appended()
    look(tmp_path, [], [source := Orders()])
    assert source.asked == [(source, "", "", ["orders"])]


@pytest.mark.parametrize("missing", [True, False])
def test_nothing_is_looked_at_while_an_epoch_is_undone(tmp_path, missing):
    """Of some of its sinks nothing may be known here: the start commits it before any check."""
    undone_of(tmp_path, ("a", "one"), ("b", "two"))
    sink, source = Alerts("a"), Orders(missing)
    found = look(tmp_path, [sink], [source])
    assert (sink.connected, source.made) == ([], [])
    assert not found.allows([sink])


def test_an_epoch_that_is_decided_meanwhile_goes_first(tmp_path):
    """An older driver ran, decided and died while this looked: what is missing ends the start after its commit only."""
    _, place = started(tmp_path)

    class Deciding(Orders):
        def connect(self):
            assert place.journal.append(Decide(1, 0, "v1\n{}\n", ("s",), ONE)) == Appended()
            return super().connect()

    source = Deciding(missing=True)
    found = look(tmp_path, [Alerts()], [source])
    assert source.made[0].closed == 1
    assert found.take_sources() == {}


def test_a_copied_checkpoint_is_refused_unless_it_is_taken_over(tmp_path):
    """Whose it is, and that its job.json is there, needs no Spark; with --claim or --as-new the start says it."""
    started(tmp_path / "first")
    (tmp_path / "first").rename(tmp_path / "copy")
    with pytest.raises(CheckpointConflictError, match="another place"):
        look(tmp_path / "copy", [Alerts()])
    sink = Alerts()
    assert not look(tmp_path / "copy", [sink], taken_over=True).allows([sink])
    assert (len(sink.connected), sink.canaries) == (1, [])
    place_of(tmp_path / "copy").ours.remove("job.json")
    with pytest.raises(CheckpointConflictError, match=r"job\.json"):
        look(tmp_path / "copy", [Alerts()])


def run(folder, monkeypatch, sinks=(), sources=()):
    """A job with its real start, up to where Java would be started."""

    def no_java(*_, **__):
        raise JavaStartedError

    monkeypatch.setattr(job_module, "make_session", no_java)
    monkeypatch.setattr("onceflow.launch.targets.running_session", lambda: None)
    monkeypatch.setattr("onceflow.launch.settling.running_session", lambda: None)
    monkeypatch.setattr("onceflow.job.running_session", lambda: None)  # another test of this process may have one
    made = of.Job("alerts", checkpointing=Checkpointing(folder))
    made.stream(sinks=sinks, sources=sources)(lambda spark: spark)
    made.run()


def test_a_job_looks_before_java(tmp_path, monkeypatch, caplog):
    """What is named by ``stream`` is; the log says at what. Whatever was opened is closed when the start ends."""
    with pytest.raises(ConfigurationError, match="no topic oders"):
        run(tmp_path, monkeypatch, [Alerts()], [Orders(missing=True)])
    sink, source = Alerts(), Orders()
    with caplog.at_level(logging.INFO, "onceflow"), pytest.raises(JavaStartedError):
        run(tmp_path, monkeypatch, [sink], [source])
    assert [c.closed for c in (*sink.connected, *source.made)] == [1, 1]
    assert "start: checks of Kafka topic alerts, topic orders" in caplog.text
    with pytest.raises(JavaStartedError):
        run(tmp_path, monkeypatch)


def test_a_job_commits_what_is_decided_before_it_looks(tmp_path, monkeypatch):
    """A source that is gone, an epoch that is decided: consumers get it, and only later is the start ended."""
    undone_of(tmp_path, ("a", "one"))
    with pytest.raises(JavaStartedError):
        run(tmp_path, monkeypatch, [Listed("a", "one", committed := [])], [source := Orders(missing=True)])
    assert committed == ["a"]
    assert source.made == []
