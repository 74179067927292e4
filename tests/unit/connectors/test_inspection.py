"""Operators' tools on systems behind the contract: another one than Kafka, none at all, and sources of one topic."""

from dataclasses import replace

import pytest
from examples.own_store import StoreSink

from onceflow.cli.txn import _account_json, _epoch_lines, _inventory_json, _inventory_lines
from onceflow.connectors.contract import Committer
from onceflow.connectors.inspection import InputRange, PlaceInSystem
from onceflow.connectors.kafka import offsets
from onceflow.connectors.kafka.offsets import Bounds
from onceflow.connectors.kafka.prepared import Handle
from onceflow.errors import ConfigurationError
from onceflow.operations.transactions.aborting import abort
from onceflow.operations.transactions.access import Operator
from onceflow.operations.transactions.inventory import JournalVerdict, describe_transaction, standing_of, take_inventory
from onceflow.operations.transactions.resolution import resolve, undone_epoch
from onceflow.options.checkpointing import Checkpointing
from onceflow.twophase.layout import Layout, LayoutSource, Topic
from onceflow.twophase.messages import Appended, Outcome
from onceflow.twophase.participants import Participant
from onceflow.twophase.records import Decide, LayoutRecord, Start
from tests.simulation.fake_broker import FakeClient
from tests.support.histories import part, read_history
from tests.support.ledger_job import HEAD, KafkaOut, LedgerJob
from tests.support.ledger_sink import LedgerCommitter, LedgerSink, opened, visible
from tests.support.starts import identify, place_of


@pytest.fixture
def job(tmp_path):
    return LedgerJob(tmp_path)


def test_a_sink_that_takes_no_part_is_told(tmp_path):
    """It has no transactions to list, and the list says so, and what that means for its readers."""
    (tmp_path / "beside").mkdir()
    job = LedgerJob(tmp_path / "beside")
    job.beside.append(StoreSink(str(tmp_path / "pairs.db"), "key"))
    said = "sink store: it is idempotent-upsert, so it has no transactions: rows are visible as they are written"
    assert said in take_inventory(job.operator()).unseen


def test_a_sink_that_is_not_kafkas_is_listed(job):
    """What is decided, what the newest start left, what lingers: by the same rules, from what the ledger says."""
    listed = take_inventory(job.operator())
    assert {t.origin.shard: t.standing for t in listed.ours} == {0: JournalVerdict.RUNNING, 1: JournalVerdict.DECIDED}
    assert (listed.undone_epoch, listed.foreign) == (0, ())
    assert listed.unseen == ("the source's topics: Spark has not planned an epoch yet",)
    job.place.journal.start(job.job_id)
    job.write(2, "c", incarnation=2)
    again = take_inventory(job.operator())
    assert [t.standing for t in again.ours] == [
        JournalVerdict.LINGERING,
        JournalVerdict.DECIDED,
        JournalVerdict.RUNNING,
    ]
    lingering = again.ours[0].seen.id
    line = f"  {lingering}  open  lingering  epoch 0  incarnation 1  sink ledger  shard 0  open"
    assert line in list(_inventory_lines(again))
    assert next(_inventory_lines(again)).startswith(f"job payments ({job.job_id}), incarnation 2")
    assert _inventory_json(again)["job"] == "payments"
    told = _inventory_json(again)["ours"][0]
    assert (told["transactional_id"], told["handle"], told["standing"]) == (lingering, lingering, "lingering")
    assert told["name"] == {"sink": "ledger", "incarnation": 1, "shard": 0}
    assert told["partitions"] == [["staged", None]]


def test_what_lingers_there_is_aborted_and_what_is_decided_is_refused(job):
    """Exactly what was listed ends; the decided one can be committed afterwards."""
    with pytest.raises(ConfigurationError, match="is not aborted"):
        abort(job.operator(), [job.decided.handle], claim=True)
    report = abort(job.operator(), None, claim=True)
    assert [t.origin.shard for t in report.aborted] == [0]
    assert (report.started, report.still_open) == (2, ())
    assert [t.seen.handle for t in take_inventory(job.operator()).ours] == [job.decided.handle]
    job.committer.commit([job.decided])
    assert visible(job.path) == ["b"]


def test_a_transaction_there_is_described(job):
    """By the journal's records, the ledger's state and the committer's evidence; an id that nobody knows is refused."""
    found = describe_transaction(job.operator(), job.decided.handle)
    assert (found.standing, found.ours.shard, found.now.state) == (JournalVerdict.DECIDED, 1, "open")
    assert [(m.kind, m.epoch, m.rows) for m in found.mentions] == [("decide", 0, 1)]
    assert (found.witness, found.evidence.outcome) == ("1 rows", Outcome.OPEN)
    assert _account_json(found)["now"]["state"] == "open"
    with pytest.raises(ConfigurationError, match="there is no transaction nobody"):
        describe_transaction(job.operator(), "nobody")


def test_a_choice_is_made_about_a_participant_there(job):
    """What the ledger has forgotten is unknown, and a person may count it as written; what is open may not be."""
    with pytest.raises(ConfigurationError, match="is known"):
        resolve(job.operator(), 0, "count-as-written", who="me", why="seen")
    with opened(job.path) as file:
        file.execute("delete from ledger where id=?", [job.decided.handle])
    (listed,) = take_inventory(job.operator()).unseen[1:]
    assert listed == f"{job.decided.handle} is not in the ledger"
    (known,) = undone_epoch(job.operator()).participants
    assert (known.transactional_id, known.partitions) == (job.decided.handle, (PlaceInSystem("staged"),))
    assert known.outcome is Outcome.UNKNOWN
    record = resolve(job.operator(), 0, "count-as-written", who="me", why="seen")
    assert record.participants == (job.decided.id,)


SILENT = type("SilentCommitter", (Committer,), {k: v for k, v in vars(LedgerCommitter).items() if k[:2] != "__"} | {
    "__init__": LedgerCommitter.__init__})  # fmt: skip
"""The example's committer without the optional part."""


class SilentSink(LedgerSink):
    """The example without the optional part."""

    committer = SILENT


def test_a_sink_without_the_optional_part_is_not_looked_at(tmp_path):
    """It is said, and nothing of it is aborted; its epochs can be resolved, since the contract tells the outcome."""
    job = LedgerJob(tmp_path, SilentSink(str(tmp_path / "ledger.sqlite")))
    listed = take_inventory(job.operator())
    assert listed.ours == ()
    assert listed.unseen[0] == "sink ledger: its connector does not list transactions"
    assert abort(job.operator(), None, claim=True).aborted == ()
    (known,) = undone_epoch(job.operator()).participants
    assert (known.transactional_id, known.partitions, known.witness) == ("", (), None)
    assert known.outcome is Outcome.OPEN


def test_what_the_sources_read_is_looked_for_on_the_sinks_systems(job):
    """By Spark's newest offsets; of a position that no sink's system understands, the layout tells the topics."""
    job.append(
        LayoutRecord(1, Layout((reads("a-cluster", same_as=0), LayoutSource(("ledger",), "", "rate", "", (), 1))))
    )
    (job.folder / "offsets").mkdir()
    (job.folder / "offsets" / "0").write_text(HEAD + at(5) + "\n17")
    listed = take_inventory(job.operator())
    assert listed.unseen == ("source topic t: it is on no cluster of a sink, or may not be described",)


def test_a_participant_is_read_by_its_own_sinks_connector(tmp_path):
    """What another connector takes it for is not believed: all of its sink's count as decided, and none is aborted."""
    operator = (job := LedgerJob(tmp_path, beside=[KafkaOut()])).operator()
    strange = replace(job.decided, transaction=Handle("x", 1, 0).to_json())
    assert operator.show(strange).handle is None
    assert operator.show(replace(strange, sink="removed")).handle == "x@1/0", "nobody else can read it"
    history = read_history([Start(1), Decide(1, 0, HEAD, ("ledger",), (strange,)), Start(2)])
    seen = operator.systems[0].inspection.transactions([]).found
    assert {standing_of(s.origin, s.handle, history, operator.show) for s in seen} == {JournalVerdict.DECIDED}


# -- what the sources read and have lost ------------------------------------------------------------------------------


def reads(system, *, same_as, topic="t"):
    return LayoutSource(("out",), system, topic, "", (Topic(topic, f"{topic}-1", 1),), same_as)


HERE = FakeClient.cluster_id


def resolving(tmp_path, monkeypatch, layout, before, decided):
    """The operator's look at epoch 1, which is decided, by the lines of offsets/0 and of the decision."""
    identity, place = identify(tmp_path, systems=HERE), place_of(tmp_path)
    place.records.make()
    place.journal.start(identity.job_id)
    for folder, text in (("offsets", HEAD + before), ("commits", "v1\n{}")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "0").write_text(text)
    prepared = Participant("out", "h", (part(0, sink="out"),), {"id": "not read here"})
    for record in (LayoutRecord(1, Layout(layout)), Decide(1, 1, HEAD + decided, ("out",), (prepared,))):
        assert place.journal.append(record) == Appended()
    monkeypatch.setattr(offsets, "bounds", lambda _, wanted, **__: dict.fromkeys(wanted, Bounds(100, 200)))
    with Operator(Checkpointing(tmp_path), "onceflow", [KafkaOut()]) as operator:
        return undone_epoch(operator, 1)


def at(*ends, topic="t"):
    return "\n".join(f'{{"{topic}":{{"0":{end}}}}}' for end in ends)


def test_two_sources_of_one_topic_have_their_own_ranges(tmp_path, monkeypatch):
    """Each line of offsets/N is a source's own: the positions of one never stand for those of another."""
    layout = (reads(HERE, same_as=0), reads(HERE, same_as=1))
    undone = resolving(tmp_path, monkeypatch, layout, at(100, 150), at(120, 155))
    assert undone.sources == (InputRange(PlaceInSystem("t", 0), 100, 120), InputRange(PlaceInSystem("t", 0), 150, 155))
    assert [line for line in _epoch_lines(undone) if "reads" in line] == [
        "  reads t-0 from 100 to 119",
        "  reads t-0 from 150 to 154",
    ]


def test_topics_of_one_name_on_two_clusters_have_their_own_ranges(tmp_path, monkeypatch):
    """Also where the other cluster has no sink, and what is lost there cannot be looked at."""
    layout = (reads(HERE, same_as=0), reads("another", same_as=1))
    undone = resolving(tmp_path, monkeypatch, layout, at(150, 3), at(155, 9))
    assert undone.sources == (InputRange(PlaceInSystem("t", 0), 150, 155), InputRange(PlaceInSystem("t", 0), 3, 9))
    assert undone.unseen == ("t on cluster another",)
    assert undone.lost == ()


def test_a_source_of_two_outputs_is_shown_once(tmp_path, monkeypatch):
    """It has a line for each output, and one reader."""
    layout = (reads(HERE, same_as=0), reads(HERE, same_as=0))
    undone = resolving(tmp_path, monkeypatch, layout, at(100, 100), at(120, 120))
    assert undone.sources == (InputRange(PlaceInSystem("t", 0), 100, 120),)


def test_what_a_source_has_lost_is_looked_for_at_its_own_position(tmp_path, monkeypatch):
    """Of two sources of one topic, the one that is behind has lost records; the other has not."""
    layout = (reads(HERE, same_as=0), reads(HERE, same_as=1))
    undone = resolving(tmp_path, monkeypatch, layout, at(10, 150), at(90, 155))
    assert [(each.start, each.end) for each in undone.lost] == [(90, 100)]


def test_what_a_source_of_two_outputs_has_lost_counts_once(tmp_path, monkeypatch):
    """It stands at two of Spark's positions and is one source; also where it cannot be looked at from here."""
    layout = (reads(HERE, same_as=0), reads(HERE, same_as=0))
    undone = resolving(tmp_path, monkeypatch, layout, at(10, 10), at(90, 90))
    assert [(each.start, each.end) for each in undone.lost] == [(90, 100)]


def test_a_source_of_two_outputs_that_cannot_be_looked_at_is_named_once(tmp_path, monkeypatch):
    """One sentence for one source."""
    layout = (reads("another", same_as=0), reads("another", same_as=0))
    undone = resolving(tmp_path, monkeypatch, layout, at(3, 3), at(9, 9))
    assert undone.unseen == ("t on cluster another",)
