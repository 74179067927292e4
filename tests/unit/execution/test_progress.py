"""After an epoch: what each consumer group is told, and how far behind the job is."""

import logging
import re
from pathlib import Path

import pytest

from onceflow.checkpoint.spark_files import lag
from onceflow.cli.checkpoints import epoch_line
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.sink import KafkaSink
from onceflow.connectors.kafka.source import KafkaSource
from onceflow.connectors.source_contract import DeadLetter, Malformed, Source, SourceConnection
from onceflow.errors import KafkaRightsError, KafkaUnavailableError
from onceflow.execution.epoch_report import EpochReport
from onceflow.execution.job_log import JobLog
from onceflow.execution.progress import Progress, far_ahead, lag_group, line, records_in, skipped, to_publish
from onceflow.formats.text_format import Raw
from onceflow.launch.phases import Phases

LINE = "epoch 7: 5 in, 0 out, 0 participants, 12 ms (nothing to do), lag 0"
ONE, OTHER = KafkaCluster("one:9092"), KafkaCluster("other:9092")


def test_the_page_shows_an_epochs_line_as_it_is():
    """Its sample, of which each word is explained there."""
    phases = {"prepare": 0.201, "check": 0.012, "decide": 0.004, "commit": 0.009}
    said = line(EpochReport(41, rows={"sales": 96}, participants=2, phases=phases), 1204, 318, 0)
    page = (Path(__file__).parents[3] / "docs" / "operating.md").read_text()
    assert f"\nhourly-sales: {said}\n" in page
    for word in ("incarnation", "in, out", "participants", "the milliseconds", "lag"):
        assert f"\n* **{word}**: " in page


def source(group, cluster=ONE, topics="t"):
    return KafkaSource(cluster, topics, value=Raw(), group=group)


def told(sources, positions):
    return {key: at for key, (_, at) in to_publish(sources, positions).items()}


def test_sources_that_share_a_group_are_told_of_together():
    """Which of them is behind is the connector's to say."""
    assert told([source("g"), source("g")], ["one", "two"]) == {(ONE, "g"): ["one", "two"]}


def test_two_groups_and_two_clusters_are_kept_apart():
    """The same group's name on another cluster, and the same topic in another group, are others."""
    sources = [source("g"), source("g", OTHER), source("h")]
    assert told(sources, ["5", "4", "3"]) == {(ONE, "g"): ["5"], (OTHER, "g"): ["4"], (ONE, "h"): ["3"]}


def test_who_names_no_group_is_told_of_in_the_jobs_own():
    """A source without a group; of one that is not ours, nothing is told."""
    found = to_publish([source(None), None, source("g")], ["5", "6", "7"], lag_group("onceflow", "my job/1"))
    assert {key: at for key, (_, at) in found.items()} == {
        (ONE, "onceflow-lag-my%20job%2F1"): ["5"],
        (ONE, "g"): ["7"],
    }


class Group(SourceConnection):
    """Takes offsets, or does not."""

    system_id = "one"
    look = topics = close = None

    def __init__(self):
        self.refuses, self.told = None, []

    def publish(self, group, positions):
        if self.refuses is not None:
            raise self.refuses
        self.told.append((group, positions))


class Published(Source):
    """A source whose group is at hand."""

    group, system = None, "one"

    def __init__(self, connection):
        self.connection = connection

    def connect(self):
        return self.connection

    def describe(self):
        return "topic orders"


def test_a_group_that_takes_no_offsets_is_said_once_and_ends_nothing(caplog):
    """Each epoch tries again; of a row of failures one warning is said, with the right that is missing."""
    group = Group()
    group.refuses = KafkaRightsError("it was refused", action="give READ")
    progress = Progress("j", {n: EpochReport(n) for n in (6, 7, 8)}, [Published(group)], group="onceflow-lag-j")
    with caplog.at_level(logging.INFO, "onceflow.execution.progress"):
        for epoch in (6, 7):
            progress.hear(heard(batch=epoch))
        group.refuses = None
        progress.hear(heard(batch=8))
    lines = [message for message in caplog.messages if "publish" in message]
    shown = "j: offsets are not published to group onceflow-lag-j, so it shows no lag; the job goes on without: "
    assert lines == [f"{shown}it was refused; give READ", "j: offsets are published to group onceflow-lag-j again"]
    assert group.told == [("onceflow-lag-j", ['{"t": {"0": 5}}'])]


def test_a_group_that_takes_no_offsets_once_is_no_warning(caplog):
    """What may pass is told when it comes twice in a row."""
    group = Group()
    progress = Progress("j", {n: EpochReport(n) for n in range(5)}, [Published(group)], group="onceflow-lag-j")
    said = []
    with caplog.at_level(logging.INFO, "onceflow.execution.progress"):
        for epoch, fails in enumerate((True, False, True, True, False)):
            group.refuses = KafkaUnavailableError("no coordinator") if fails else None
            progress.hear(heard(batch=epoch))
            said.append(sum("publish" in message for message in caplog.messages))
    assert said == [0, 0, 0, 1, 2]


def test_nothing_is_published_where_that_is_turned_off():
    """Not of sources that name a group, either."""
    group = Group()
    Progress("j", {7: EpochReport(7)}, [Published(group)], group=None).hear(heard())
    assert group.told == []


def test_nothing_is_told_where_positions_cannot_be_told_apart():
    """Spark lists another number of sources than the plan has: a wrong offset is worse than an old one."""
    assert told([source("g")], ["5", "6"]) == {}


@pytest.mark.parametrize(
    ("at", "latest", "behind"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 3}}, 3),  # a new partition is read from its beginning
        ({"t": {"0": 5}}, {"t": {"0": 2}}, 0),
        (17, 20, 0),  # not a Kafka source
        (None, None, 0),
    ],
)
def test_lag_is_what_was_there_and_not_read(at, latest, behind):
    """Between the end of the epoch and what the source held when it was planned."""
    assert lag({"endOffset": at, "latestOffset": latest}) == behind
    assert lag({}) == 0


class Skipping(Source):
    """One of whose records two could not be read."""

    group = system = connect = None

    def describe(self):
        return "topic orders"

    def __init__(self, dead_letter=None):
        self.dead_letter = dead_letter

    def malformed(self, observed):
        return Malformed(observed.get("skipped", 0), read=observed.get("read", 0))


def heard(batch=7, run="run", **more):
    """What Spark tells of an epoch."""
    told = {"runId": run, "batchId": batch, "numInputRows": 5, "durationMs": {"triggerExecution": 12}}
    told["timestamp"] = "2026-01-01T10:00:00.000Z"
    return {**told, "sources": [{"endOffset": {"t": {"0": 5}}, "numInputRows": 5}], **more}


def test_an_epochs_lines_name_the_job_and_what_is_read(caplog):
    """A log of several jobs can be told apart, and topics have the names that their owner gave them."""
    progress = Progress("100% orders", {7: EpochReport(7)}, [Skipping()])
    progress.watch("run")
    with caplog.at_level(logging.INFO, "onceflow"):
        progress.hear(heard(run="another"))
        progress.hear(heard(observedMetrics={"skipped": 2}))
    assert caplog.messages == [
        f"100% orders: {LINE}",
        "100% orders: epoch 7: 2 malformed records skipped (topic orders)",
    ]


def test_dead_letters_are_told_like_what_is_skipped(caplog):
    """With the sink that they went to."""
    source = Skipping(DeadLetter(KafkaSink(ONE, "dead")))
    progress = Progress("j", {7: EpochReport(7), 8: EpochReport(8)}, [source])
    progress.hear(heard(observedMetrics={"skipped": 20, "read": 20}))
    warning, error = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    assert warning == "j: epoch 7: 20 malformed records went to sink dead (topic orders)"
    assert "every one of the 20 records of topic orders is malformed and went to sink dead" in error
    caplog.clear()
    with caplog.at_level(logging.INFO, "onceflow"):
        progress.hear(heard(8, observedMetrics={"skipped": 1, "read": 20}))
    (again,) = [r for r in caplog.records if "went to sink dead" in r.getMessage()]
    assert again.levelno == logging.INFO, "dead letters were asked for, and are warned of once"


def test_lag_of_an_epoch_that_an_earlier_start_has_planned(caplog):
    """Spark knows what there was to read when it was planned, which was nothing more: no lag is better than 0."""
    sources = [{"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 5}}}]
    newer = [{"endOffset": {"t": {"0": 10}}, "latestOffset": {"t": {"0": 90}}}]
    progress = Progress("j", {7: EpochReport(7), 8: EpochReport(8)}, [None], planned=7)
    progress.watch("run")
    with caplog.at_level(logging.INFO, "onceflow"):
        progress.hear(heard(sources=sources))
        progress.hear(heard(batch=8, sources=newer))
    assert [message.rpartition("lag ")[2] for message in caplog.messages] == ["not looked up", "80"]


@pytest.mark.parametrize(("skipped", "told"), [(99, False), (100, True)])
@pytest.mark.parametrize("readings", [1, 2])
def test_an_epoch_of_malformed_records_alone_is_an_error(caplog, skipped, told, readings):
    """Where no record can be read it is the schema that is wrong, and nobody reads them again.

    Two outputs that start from one source may both read it, and Spark counts both: it is the source that tells.
    """
    progress = Progress("j", {7: EpochReport(7)}, [Skipping()])
    progress.watch("run")
    sources = [{"endOffset": {}, "numInputRows": 100 * readings}]
    progress.hear(heard(sources=sources, observedMetrics={"skipped": skipped, "read": 100}))
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert ["every one of the 100 records of topic orders is malformed" in each for each in errors] == [True] * told


def test_a_line_is_where_it_was_logged(caplog):
    """The name before it hides neither its place nor its exception."""
    log = JobLog(logging.getLogger("onceflow.test"), "j")
    with caplog.at_level(logging.DEBUG, "onceflow"):
        log.info("50 %")
        try:
            raise ValueError("x")
        except ValueError:
            log.exception("%d of %s", 3, "them")
        JobLog(log.logger, "").warning("as it is, %s", "whole")
    assert caplog.messages == ["j: 50 %", "j: 3 of them", "as it is, whole"]
    assert {record.filename for record in caplog.records} == {"test_progress.py"}
    assert [record.exc_info is not None for record in caplog.records] == [False, True, False]


def test_a_source_is_described_by_its_topics():
    """As a user speaks of it."""
    assert source(None).describe() == "topic t"
    assert source(None, topics=["a", "b"]).describe() == "topics a, b"
    assert source(None, topics=re.compile("a.*")).describe() == "topics like a.*"


def test_a_record_counts_once_however_often_it_is_read():
    """Spark counts it for each output that reads its source; and two sources of the same topics have the same."""
    one, other = source(None), source(None, topics=["a", "b"])
    told = [{"numInputRows": 6_000}, {"numInputRows": 7}, {"numInputRows": 2_000}, {}]
    assert records_in(told, [one, other, source(None), None], [3, 1, 1, 1]) == {
        "topic t": 2_000,
        "topics a, b": 7,
        "source 3": 0,
    }
    itself = [{"numInputRows": 10}, {"numInputRows": 0}]
    assert records_in(itself, [one, one]) == records_in(itself[:1], [one, one]) == {"topic t": 5}


def test_late_rows_are_told_by_who_left_them_out(caplog):
    """With the operator's name, told apart where there are two; an aggregation's number is a least one."""
    states = [
        {"operatorName": name, "numRowsTotal": 1, "memoryUsedBytes": 1, "numRowsDroppedByWatermark": rows}
        for name, rows in (("symmetricHashJoin", 12), ("stateStoreSave", 0), ("stateStoreSave", 3))
    ]
    kept = []
    progress = Progress("j", {7: EpochReport(7), 8: EpochReport(8)}, [None], keep=kept.append)
    progress.watch("run")
    with caplog.at_level(logging.WARNING, "onceflow"):
        progress.hear(heard(stateOperators=states))
        progress.hear(heard(batch=8, stateOperators=[each | {"numRowsDroppedByWatermark": 0} for each in states]))
    assert [each.late for each in kept] == [{"join": 12, "aggregation 2": 3}, {}]
    (told,) = caplog.messages
    assert "epoch 7: late rows are left out, 12 by the join; at least 3 by the aggregation 2, which gathers" in told
    assert "late 12 in join, 3 in aggregation 2" in epoch_line(kept[0])


def test_a_resumed_job_knows_its_epochs(caplog):
    """Before its first epoch the idle line names the newest that an earlier start has done."""
    progress = Progress("j", {}, [None], newest=23)
    progress.watch("run")
    with caplog.at_level(logging.INFO, "onceflow"):
        progress.hear_idle("run")
    assert caplog.messages == ["j: idle, epoch 23, lag 0"]


class Clock:
    """Seconds, moved by hand."""

    at = 0.0

    def __call__(self):
        return self.at


def test_idle_is_said_now_and_then(caplog):
    """At once, so that waiting does not look like hanging; then every half minute, and with the newest epoch."""
    clock, runs = Clock(), []
    progress = Progress("j", {7: EpochReport(7)}, [None], lambda: runs.append(1), clock)
    with caplog.at_level(logging.INFO, "onceflow"):
        progress.hear_idle("run")  # of a query that is not known yet
        progress.watch("run")
        progress.hear_idle("another")
        assert (caplog.messages, runs) == ([], [])
        for clock.at in (1.0, 11.0, 30.9, 31.0):
            progress.hear_idle("run")
        assert caplog.messages == ["j: idle, no epoch yet, lag 0"] * 2
        assert runs
        progress.hear(heard())
        for clock.at in (41.0, 60.9, 61.0, 71.0):
            progress.hear_idle("run")
    assert caplog.messages[2:] == [f"j: {LINE}", "j: idle, epoch 7, lag 0"]


def test_the_phases_of_a_start_are_lines(caplog):
    """Each says what is waited for now; the end is said once, with how long each has taken."""
    clock = Clock()
    phases = Phases(JobLog(logging.getLogger("onceflow.test"), "j"), clock)
    with caplog.at_level(logging.INFO, "onceflow"):
        for clock.at, phase in ((0.1, "jars"), (0.4, "Java and Spark"), (6.4, "the first epoch")):
            phases.begin(phase)
        clock.at = 8.0
        phases.end()
        phases.end()
    assert caplog.messages == [
        "j: start: jars",
        "j: start: Java and Spark",
        "j: start: the first epoch",
        "j: the job runs, 8.0 s after its start began: jars 0.3 s, Java and Spark 6.0 s, the first epoch 1.6 s",
    ]


@pytest.mark.parametrize(
    ("newest", "far"),
    [
        ("2026-01-01T10:59:59.999Z", False),
        ("2026-01-01T11:00:00.001Z", True),
        ("+57971-02-25T00:00:00.000Z", True),
        ("1970-01-01T00:00:00.000Z", False),
        ("-0001-01-01T00:00:00.000Z", False),
        (None, False),
    ],
)
def test_an_event_that_is_far_ahead_of_its_epoch_is_noticed(newest, far):
    """Whatever source or function made its time; what lies in the past moves no watermark."""
    event_time = {"eventTime": {"max": newest, "watermark": "1970-01-01T00:00:00.000Z"} if newest else {}}
    assert far_ahead(event_time | {"timestamp": "2026-01-01T10:00:00.000Z"}) == (newest if far else None)


def test_a_plan_without_a_watermark_has_no_such_event():
    """Spark's progress then has nothing of it."""
    assert far_ahead({"timestamp": "2026-01-01T10:00:00.000Z"}) is None


def test_what_was_skipped_is_told_with_topics_and_places():
    """How many, of which topic, where the first few are and why; and whether there are more."""
    first = ("topic t, partition 0, offset 5: its value: it is empty",)
    told = skipped(7, source(None), Malformed(1, first))
    assert told == (
        "epoch 7: 1 malformed records skipped (topic t): topic t, partition 0, offset 5: its value: it is empty"
    )
    assert skipped(7, source(None), Malformed(1_200, first)).endswith("; ...")
    assert skipped(7, source(None), Malformed(2)) == "epoch 7: 2 malformed records skipped (topic t)"
