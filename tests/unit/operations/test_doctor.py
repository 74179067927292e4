"""The rules of ``onceflow doctor``: from facts to findings, each silent where nothing is wrong or known."""

import json
import sys
from pathlib import Path

import pytest

from onceflow.checkpoint.statistics import EpochStatistics
from onceflow.cli import main as entry
from onceflow.cli.doctor import lines
from onceflow.connectors.examination import Expected
from onceflow.connectors.kafka import broker_checks, rights
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.errors import ConfigurationError, KafkaRightsError, KafkaUnavailableError
from onceflow.findings import Checks, Finding, Level, of_error, together
from onceflow.operations.doctor import machine, rules
from onceflow.operations.doctor.examination import Examined, examine
from onceflow.options.checkpointing import Checkpointing
from tests.support.orders import Alerts, Orders
from tests.support.starts import started, undone_of

GB = 1_000_000_000
DAY_MS = 86_400_000
EXPECTED = Expected(timeout_s=600, longest_s=20, downtime_s=180)


def told(found):
    """Levels and settings of findings, and that each of them says all that a finding says."""
    found = list(found)
    assert all(each.what and each.why and each.setting and each.command for each in found)
    return [(str(each.level), each.setting) for each in found]


# -- findings ---------------------------------------------------------------------------------------------------------


def test_an_error_becomes_findings_with_its_own_words():
    """Each of those that were found together is one."""
    first = ConfigurationError("a", harmless="always", cause="b=1", action="c")
    found = of_error(together([first, ConfigurationError("d", cause="e=2", action="f")]))
    assert [(each.what, each.setting, each.command) for each in found] == [("a", "b=1", "c"), ("d", "e=2", "f")]
    assert found[0].why == "the job does not start; harmless: always"
    assert {each.level for each in found} == {Level.ERROR}


def test_of_several_errors_the_first_that_a_start_again_does_not_mend_is_raised():
    """So its class says rightly whether to start again; alone an error stays the object that it was."""
    away, wrong = KafkaUnavailableError("away"), ConfigurationError("wrong", topic="t")
    assert together([away]) is away
    chosen = together([away, wrong])
    assert type(chosen) is ConfigurationError
    assert (chosen.facts, chosen.retriable, chosen.others) == ({"topic": "t"}, False, (away,))


def test_checks_are_all_made_until_a_system_does_not_answer():
    """What is refused comes at the end; what waits would wait again, so nothing is asked behind it."""
    checks, made = Checks(), []
    for error in (ConfigurationError("a"), ConfigurationError("b")):
        with checks.one():
            made.append(error)
            raise error
    with pytest.raises(ConfigurationError) as refused:
        checks.end()
    assert (refused.value.what, refused.value.others, len(made)) == ("a", (made[1],), 2)
    with pytest.raises(KafkaUnavailableError), Checks().one():
        raise KafkaUnavailableError("away")
    Checks().end()


# -- Kafka ------------------------------------------------------------------------------------------------------------


def test_copies_by_which_a_broken_broker_takes_records():
    """One copy is told alone; with three, a single in-sync one and an unclean leader are."""
    sound = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}
    weak = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    assert told(broker_checks.weak("t", 3, sound, "rows")) == []
    assert told(broker_checks.weak("t", 3, {}, "rows")) == []
    assert told(broker_checks.weak("t", 1, weak, "rows")) == [("warning", "replication factor 1")]
    found = told(broker_checks.weak("t", 3, weak, "rows"))
    assert found == [("warning", "min.insync.replicas=1"), ("warning", "unclean.leader.election.enable=true")]


def test_a_topic_that_acknowledges_nothing_is_refused():
    """It asks for more copies than it has; as many, or none that is known, pass."""
    with pytest.raises(ConfigurationError, match="asks for 2 copies and has 1"):
        broker_checks.require_copies("t", 1, {"min.insync.replicas": "2"})
    broker_checks.require_copies("t", 2, {"min.insync.replicas": "2"})
    broker_checks.require_copies("t", 1, {})


def test_compaction_of_what_is_written_and_of_what_is_read():
    """Either takes away what a start may need."""
    assert told(broker_checks.compacted_sink("t", "s", {"cleanup.policy": "delete"})) == []
    assert told(broker_checks.compacted_sink("t", "s", {"cleanup.policy": "compact,delete"})) == [
        ("warning", "cleanup.policy=compact,delete, min.compaction.lag.ms=0")
    ]
    week = {"cleanup.policy": "compact", "min.compaction.lag.ms": "604800000"}
    assert told(broker_checks.compacted_sink("t", "s", week)) == []
    assert told(broker_checks.read_topic("t", 2, {"cleanup.policy": "compact"}, EXPECTED)) == [
        ("warning", "cleanup.policy=compact of the topic")
    ]


@pytest.mark.parametrize(
    ("timeout_s", "longest_s", "level"),
    [(900, 20, None), (800, 20, None), (799, 20, "warning"), (900, 200, "warning"), (900, 721, "error")],
)
def test_a_transaction_has_to_outlive_its_epoch_and_a_downtime(timeout_s, longest_s, level):
    """Checkpoint time-out, longest epoch and downtime together; an epoch of more than 0.8 of it is never decided."""
    expected = Expected(600, longest_s, 180)
    found = told(broker_checks.open_transactions("s", timeout_s, {}, expected))
    said = f"transaction_timeout of sink s is {timeout_s} s"
    assert found == ([] if level is None else [(level, said)])


@pytest.mark.parametrize(("minutes", "ids_ms", "found"), [(10_080, 7 * DAY_MS, 0), (2, 7 * DAY_MS, 1), (2, 60_000, 2)])
def test_what_brokers_forget_has_to_outlive_a_downtime(minutes, ids_ms, found):
    """Ids of transactions, and groups' offsets, in which the job's mark is."""
    settings = {"transactional.id.expiration.ms": str(ids_ms), "offsets.retention.minutes": str(minutes)}
    assert len(told(broker_checks.open_transactions("s", 900, settings, EXPECTED))) == found


@pytest.mark.parametrize(
    ("kept", "level"), [("-1", None), (str(7 * DAY_MS), None), ("500000", "warning"), ("1000", "error"), ("", None)]
)
def test_a_retention_has_to_outlive_a_downtime(kept, level):
    """Shorter than the downtime it loses records for certain; shorter than epoch and downtime, perhaps."""
    settings = {"retention.ms": kept, "cleanup.policy": "delete"}
    found = told(broker_checks.read_topic("t", 2, settings, EXPECTED))
    assert found == ([] if level is None else [(level, f"retention.ms={kept} of the topic")])


def test_one_partition_is_read_by_one_task():
    """Good to know, no more."""
    assert told(broker_checks.read_topic("t", 1, {}, EXPECTED)) == [("note", "1 partition")]


def test_transactions_of_an_older_kind_are_noted():
    """Also where the cluster has no such feature."""
    assert told(broker_checks.transaction_version("4.3", 2)) == []
    assert told(broker_checks.transaction_version("4.0", 1)) == [("note", "transaction.version=1")]
    assert told(broker_checks.transaction_version("3.1", None)) == [("note", "transaction.version=0")]


def test_clients_brokers_clocks_and_rights():
    """Each has its finding, with the client's own words."""
    assert told(broker_checks.silent_brokers([])) == []
    assert told(broker_checks.silent_brokers(["b:9092"])) == [("error", "advertised.listeners on that broker")]
    assert told(broker_checks.clocks(4.9)) == []
    assert [each.what for each in broker_checks.clocks(-60)] == ["the brokers' clock is 60 s behind this machine's"]
    assert told([broker_checks.unreached("librdkafka", "b:9092", "x")]) == [("error", "bootstrap_servers=b:9092")]
    refused = broker_checks.may_not_read("t", "x", "User:ada", "a command")
    assert told([refused]) == [("error", "no ACL allows READ on Topic t to User:ada")]
    assert told([broker_checks.lag_unseen("g", "no ACL", "a command")]) == [("warning", "no ACL")]
    assert told(rules.java_client("b:9092", "")) == []
    assert told(rules.java_client("b:9092", "SaslAuthenticationException")) == [("error", "bootstrap_servers=b:9092")]


def test_a_prefix_that_every_job_has_is_told_and_another_is_not():
    """Of a job that logs in."""
    ((level, setting),) = told(broker_checks.own_prefix("onceflow", "User:ada"))
    assert (level, setting) == (
        "warning",
        "transactional_id_prefix=onceflow, which is the default; it logs in as User:ada",
    )
    assert told(broker_checks.own_prefix("bank", "User:ada")) == []


@pytest.mark.parametrize(
    ("login", "whom"),
    [
        ({}, "User:ANONYMOUS"),
        ({"sasl_mechanism": "PLAIN", "username": "ada", "password": "xyzzy"}, "User:ada"),
        (
            {
                "sasl_mechanism": "OAUTHBEARER",
                "oauth_token_endpoint": "https://login.example/token",
                "oauth_client_id": "ada",
                "oauth_client_secret": "xyzzy",
            },
            "User:<sub of the tokens of ada>",
        ),
    ],
    ids=["none", "password", "token"],
)
def test_the_command_that_gives_a_right_names_whom_the_brokers_know(login, whom):
    """As far as the login says it; and no secret."""
    protocol = {"security_protocol": "SASL_SSL"} if login else {}
    error = rights.missing(
        KafkaCluster("b:9092", **protocol, **login), "it was refused", "READ", "Group", "g-1", begins="g-"
    )
    assert error.what == "it was refused: this user lacks READ on Group g- (prefixed)"
    assert error.cause == f"no ACL allows READ on Group g- (prefixed) to {whom}"
    assert error.action.startswith(
        f"kafka-acls.sh --bootstrap-server b:9092 --add --allow-principal '{whom}' --operation READ --group 'g-' "
        "--resource-pattern-type prefixed; "
    )
    assert "xyzzy" not in str(error)


# -- machine and checkpoint -------------------------------------------------------------------------------------------


def test_room_on_the_disk():
    """A gigabyte, or three times the state."""
    assert told(rules.disk("it", "/data", 2 * GB)) == []
    assert told(rules.disk("it", "/data", GB // 2)) == [("warning", "/data")]
    assert told(rules.disk("it", "/data", GB // 20)) == [("error", "/data")]
    assert told(rules.disk("it", "/data", 2 * GB, state_bytes=GB)) == [("warning", "/data")]


def test_room_in_memory():
    """Heap, what Java has beside it, workers, and the state; of a limit that is not known nothing is said."""
    assert told(rules.memory(4 * GB, 2 * GB, 4, 0)) == []
    assert told(rules.memory(4 * GB, 2 * GB, 4, GB)) == [
        ("warning", "spark.driver.memory=2000m, spark.master with 4 cores")
    ]
    assert told(rules.memory(None, 2 * GB, 4, GB)) == []


def test_what_spark_is_told_is_read_as_spark_reads_it():
    """Memory without a unit is megabytes; a local master names its cores."""
    assert [machine.in_bytes(text) for text in ("2g", "512", "1024m", "2GB", "much")] == [
        2**31,
        2**29,
        2**30,
        2**31,
        None,
    ]
    assert [machine.cores(master) for master in ("local", "local[3]", "local[2,1]")] == [1, 3, 2]
    assert (machine.memory_limit() or 0) > 0


def test_a_store_without_an_exclusive_create():
    """Two drivers could both win."""
    assert told(rules.exclusive_create("/data", second_was_refused=True)) == []
    assert told(rules.exclusive_create("/data", second_was_refused=False)) == [("error", "/data")]


def test_jars_decisions_and_transactions_that_wait():
    """Of a job that runs, a decision is on its way."""
    assert told(rules.jars([])) == []
    assert [level for level, _ in told(rules.jars(["a.jar"]))] == ["note"]
    assert told(rules.undone(7, runs=True)) == []
    assert [level for level, _ in told(rules.undone(7, runs=False))] == ["warning"]
    assert told(rules.waiting([], [], lingering=True)) == []
    (mine, theirs) = rules.waiting(["ours"], ["theirs"], lingering=False)
    assert mine.command.endswith("--all-lingering --claim")
    assert "theirs" in theirs.what


def epoch(number, **more):
    return EpochStatistics(
        number, 1, **({"status": "COMPLETED", "triggered_at": "2026-01-01", "duration_ms": 100} | more)
    )


def test_epochs_that_fail_or_take_too_long():
    """A failure that is the newest is an error; more work than time is told once there are enough of them."""
    failed = epoch(9, status="FAILED", failure="PreCommitError", what="no proof\n  more")
    quick = [epoch(i) for i in range(15)]
    assert told(rules.epochs([], 1_000)) == []
    assert told(rules.epochs(quick, 1_000)) == []
    assert [level for level, _ in told(rules.epochs([failed, *quick], 1_000))] == ["warning"]
    (found,) = rules.epochs([*quick, failed], 1_000)
    assert (found.level, found.why.endswith("It said: no proof")) == ("error", True)
    slow = [epoch(i, duration_ms=2_000) for i in range(15)]
    assert told(rules.epochs(slow, 1_000)) == [("warning", "execution.checkpointing.interval is 1000 ms")]
    assert told(rules.epochs(slow[:5], 1_000)) == told(rules.epochs(slow, 0)) == []


def test_what_the_statistics_tell_the_other_rules():
    """The longest epoch, and the newest state that is known."""
    history = [epoch(1, state_bytes=5), epoch(2, duration_ms=3_000, state_bytes=7), epoch(3, duration_ms=None)]
    assert (rules.longest_s(history), rules.state_bytes(history)) == (3.0, 7)
    assert (rules.longest_s([]), rules.state_bytes([])) == (0.0, 0)


# -- one job ----------------------------------------------------------------------------------------------------------


def examined(folder, sinks, sources):
    """What is found about a job, but for what is of this machine."""
    job = Examined("test", "onceflow", Checkpointing(folder), sinks, sources, {"spark.driver.memory": "1m"})
    return [each for each in examine(job, 0, 180) if not each.what.startswith(("the disk", "the job may need"))]


def test_of_a_job_in_order_nothing_is_said_and_nothing_stays(tmp_path):
    """No folder is left of a checkpoint that is not there yet."""
    folder = tmp_path / "deep" / "checkpoint"
    assert examined(folder, [Alerts()], [Orders()]) == []
    assert list(tmp_path.iterdir()) == []


def test_what_a_start_refuses_is_told_by_the_start(tmp_path):
    """All of it; and a job that hides its sinks is told that they were not looked at."""
    refused = Alerts(refused=KafkaRightsError("this user lacks WRITE"))
    found = examined(tmp_path / "c", [refused], [Orders(missing=True)])
    assert [(each.level, each.what) for each in found] == [
        (Level.ERROR, "there is no topic oders"),
        (Level.ERROR, "this user lacks WRITE"),
    ]
    (hidden,) = examined(tmp_path / "c", [], [Orders()])
    assert (hidden.level, "the job's sinks are not known here" in hidden.what) == (Level.NOTE, True)


def test_a_sink_that_names_more_than_the_jobs_mode_is_told(tmp_path):
    """As a start refuses it, by the start's own words."""

    class Strict(Alerts):
        def under(self, mode):
            raise ConfigurationError(f"alerts names more than {mode}")

    job = Examined("test", "onceflow", Checkpointing(tmp_path / "c", mode="AT_LEAST_ONCE"), [Strict()], [Orders()], {})
    assert Finding(Level.ERROR, "alerts names more than at-least-once", "the job does not start") in examine(
        job, 0, 180
    )


def test_a_system_that_does_not_answer_is_not_asked_again(tmp_path):
    """Each question would wait for it; one finding says so."""
    away, source = Alerts(refused=KafkaUnavailableError("no broker answered")), Orders()
    found = examined(tmp_path / "c", [away], [source])
    assert [each.what for each in found] == ["no broker answered"]
    assert (len(away.connected), len(source.made)) == (1, 1)


def test_the_rights_are_tried_while_an_epoch_waits_for_its_commit(tmp_path):
    """A start commits it before it looks at anything: without them it could not, and doctor is asked why."""
    undone_of(tmp_path, ("alerts", "one"))
    refused = Alerts(refused=KafkaRightsError("this user lacks WRITE"))
    assert (Level.ERROR, "this user lacks WRITE") in [
        (each.level, each.what) for each in examined(tmp_path, [refused], [])
    ]


def test_an_epoch_that_is_decided_and_a_file_that_is_torn(tmp_path):
    """Both are told of a checkpoint whose job does not run."""
    _, place = started(tmp_path, 0)
    (waits,) = examined(tmp_path, [], [Orders()])[:1]
    assert (waits.level, waits.what) == (Level.WARNING, "epoch 0 is decided and not done, and the job does not run")
    newest = max(place.records.folder.glob("*.json"))
    newest.write_bytes(newest.read_bytes()[:40])
    assert newest.name in examined(tmp_path, [], [Orders()])[0].what


# -- the command ------------------------------------------------------------------------------------------------------


def call(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["onceflow", "doctor", *arguments])
    with pytest.raises(SystemExit) as end:
        entry.main()
    return end.value.code or 0


def test_without_a_job_the_machine_alone_is_looked_at(monkeypatch, capsys, tmp_path):
    """A Java that is missing, and jars that are: exit code 1, and as JSON the same."""
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    monkeypatch.setenv("ONCEFLOW_CACHE", str(tmp_path))
    assert call(monkeypatch) == 1
    said = capsys.readouterr().out
    assert "JAVA_HOME=/nowhere has no bin/java" in said
    assert "do: install a Java 17 or 21 runtime" in said
    assert "note: 5 jars of Spark's Kafka connector are not fetched yet" in said
    assert call(monkeypatch, "--output", "json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["exit_code"] == 1
    assert {"level", "what", "why", "setting", "command"} == set(found["findings"][0])
    assert list(Path(tmp_path).iterdir()) == [], "nothing was fetched"


def test_what_was_looked_at_of_a_job_is_named(monkeypatch, capsys, tmp_path):
    """Each sink and source that is known without the stream function, and the checkpoint; a note says what is not."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "job.py").write_text(
        "import onceflow as of\n"
        f"sink = of.DatabaseSink('sqlite:///{tmp_path}/bank.db', 'payments', create_table=True)\n"
        f"job = of.Job('banked', checkpointing=of.Checkpointing('{tmp_path}/cp'))\n"
        "@job.stream(sinks=[sink])\n"
        "def payments(spark): raise AssertionError('nobody calls it')\n"
    )
    call(monkeypatch, str(tmp_path / "job.py"))
    said = capsys.readouterr().out
    sink = "sqlite table payments (exactly-once)"
    assert said.splitlines()[-1].endswith(f"(looked at: this machine; of job banked {sink}, checkpoint {tmp_path}/cp)")
    assert "the job's sources are not known here, and were not looked at" in said


def test_findings_as_lines():
    """Level and what; why, setting and what to do below; and how many there are, at the end."""
    one = Finding(Level.WARNING, "it is so", "it matters", "a=1", "set it to 2")
    assert list(lines([one, one], "this machine")) == [
        *["warning: it is so", "  why: it matters", "  setting: a=1", "  do: set it to 2"] * 2,
        "2 warnings (looked at: this machine)",
    ]
    assert list(lines([], "this machine")) == ["nothing is wrong (looked at: this machine)"]
