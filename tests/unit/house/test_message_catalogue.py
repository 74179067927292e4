"""Every error that onceflow raises, by a test that provokes it, reads its four parts, and does what it advises.

A message that nobody can follow is no message. Where Spark or a broker is needed the test is an integration test.
"""

import ast
import base64
import contextlib
import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest

import onceflow
from onceflow import KafkaCluster, KafkaSink, errors
from onceflow.connectors.kafka.login_token import ClientCredentials
from onceflow.connectors.kafka.refusals import require_times
from onceflow.errors import (
    CheckpointConflictError,
    CheckpointCorruptError,
    CheckpointStoreError,
    ConfigurationError,
    DatabaseRightsError,
    EpochFailedError,
    EpochTimedOutError,
    EpochTooLongError,
    FencedError,
    KafkaRightsError,
    KafkaUnavailableError,
    NotDeterministicError,
    OnceflowError,
    OutcomeUnknownError,
    PreCommitError,
    RecoveryError,
    RefusedSettingError,
    RowRefusedError,
    SetupError,
    SinkContractError,
    SourceDataLostError,
    StateRebuildError,
    TimeoutTooShortError,
    TransactionLostError,
)
from onceflow.local import jars
from onceflow.operations.transactions.resolution import undone_epoch
from onceflow.options.checkpointing import Checkpointing
from onceflow.testing import conformance
from onceflow.twophase.messages import Outcome, Reply
from tests.support import ledger_sink
from tests.support.advice import parts_of
from tests.support.choices import choose, operator
from tests.support.ledger_sink import LedgerCommitter, LedgerSink
from tests.support.ledger_worlds import LedgerWorld
from tests.support.shop import Shop

HERE = "tests/unit/house/test_message_catalogue.py"
INTEGRATION = "tests/integration"
KAFKA, DATABASE = f"{INTEGRATION}/connectors/kafka", f"{INTEGRATION}/connectors/database"

REGISTRY = f"{INTEGRATION}/formats/test_registry.py"
CATALOGUE = {
    "ConfigurationError": f"{HERE}::test_a_duration_that_is_none",
    "RefusedSettingError": f"{HERE}::test_a_setting_that_would_break_the_guarantee",
    "SetupError": f"{HERE}::test_jars_that_are_not_there",
    "NotEndedError": "tests/unit/control/test_control.py::test_a_job_that_does_not_end_in_time",
    "SourceDataLostError": f"{HERE}::test_records_that_are_gone",
    "MalformedRecordError": f"{KAFKA}/test_source.py::test_what_a_malformed_record_advises_works",
    "UnknownSchemaError": f"{REGISTRY}::test_what_a_record_of_a_new_schema_says_is_all_that_is_told",
    "RegistryError": f"{REGISTRY}::test_an_id_that_the_registry_does_not_have",
    "RegistryUnavailableError": f"{REGISTRY}::test_what_is_no_registry_is_told",
    "RegistryRightsError": f"{REGISTRY}::test_each_login_is_taken_or_refused_by_name",
    "KafkaError": f"{INTEGRATION}/launch/test_start_in_view.py::test_what_a_topic_that_cannot_be_made_advises_works",
    "KafkaUnavailableError": f"{HERE}::test_a_system_that_does_not_answer",
    "KafkaRightsError": f"{HERE}::test_a_secret_that_is_refused",
    "DatabaseUnavailableError": f"{DATABASE}/test_database_faults.py::test_what_a_server_that_is_away_advises_works",
    "DatabaseRightsError": f"{DATABASE}/test_database_rights.py::test_each_right_is_needed_and_told_at_the_start",
    "LakeUnavailableError": "tests/unit/connectors/lake/test_lake.py::test_what_a_catalog_that_is_away_advises_works",
    "LakeRightsError": "tests/unit/connectors/lake/test_lake.py::test_what_a_table_that_is_not_there_advises_works",
    "CheckpointCorruptError": f"{HERE}::test_a_record_that_was_cut",
    "CheckpointConflictError": f"{HERE}::test_a_copied_checkpoint",
    "CheckpointStoreError": f"{HERE}::test_a_file_system_that_fails",
    "FencedError": f"{HERE}::test_two_starts_at_once",
    "EpochFailedError": f"{HERE}::test_a_plan_that_raises",
    "PreCommitError": f"{HERE}::test_a_transaction_that_somebody_ended",
    "WriterFencedError": f"{KAFKA}/test_oracle.py::test_an_aborted_writer_cannot_go_on",
    "SinkContractError": f"{HERE}::test_a_sink_that_seals_wrongly",
    "RowRefusedError": f"{HERE}::test_a_row_that_cannot_be_written",
    "EpochRefusedError": f"{INTEGRATION}/execution/test_refused_again.py::test_a_database_that_breaks_off_each_start",
    "EpochTimedOutError": f"{HERE}::test_an_epoch_that_was_cancelled",
    "EpochTooLongError": f"{HERE}::test_an_epoch_that_took_too_long",
    "TimeoutTooShortError": f"{HERE}::test_an_epoch_of_one_record_that_took_too_long",
    "RecoveryError": f"{HERE}::test_a_commit_that_is_refused",
    "TransactionLostError": f"{HERE}::test_a_decided_transaction_that_was_aborted",
    "OutcomeUnknownError": f"{HERE}::test_a_decided_transaction_that_left_no_trace",
    "NotDeterministicError": f"{HERE}::test_a_plan_that_gives_other_rows",
    "StateRebuildError": f"{HERE}::test_a_state_that_cannot_be_built",
}


def raised_by(kind, call, *facts):
    """The error of a call, with all four parts and these facts."""
    with pytest.raises(kind) as caught:
        call()
    return parts_of(caught.value, kind, *facts)


# -- the table --------------------------------------------------------------------------------------------------------


def raised_in_the_source():
    """Names of all our errors that are made somewhere in the package."""
    ours = {n for n, value in vars(errors).items() if isinstance(value, type) and issubclass(value, OnceflowError)}
    made = set()
    for path in Path(onceflow.__file__).parent.rglob("*.py"):
        if path.name != "errors.py":
            tree = ast.parse(path.read_text())
            called = [n.func for n in ast.walk(tree) if isinstance(n, ast.Call)]
            returned = [n.value for n in ast.walk(tree) if isinstance(n, ast.Return)]  # by `kind_of`: a writer makes it
            calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
            told = [n.args[0] for n in calls if n.func.id == "_Told"]  # a line of a table makes it
            made |= {n.id for n in called + returned + told if isinstance(n, ast.Name)}
    return ours & made


def test_every_error_that_is_raised_has_its_test():
    """The table has a line for each class that the package makes, and for no other."""
    assert set(CATALOGUE) == raised_in_the_source()


def test_what_ends_a_job_is_told_in_four_parts():
    """Wherever one is made, but for what is refused before anything runs, and for the demo's own."""
    early = (ConfigurationError, SetupError)
    package = Path(onceflow.__file__).parent
    short = []
    for path in package.rglob("*.py"):
        tree = ast.parse(path.read_text())
        imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and n.module == "onceflow.errors"]
        ours = {a.name for n in imports for a in n.names if isinstance(vars(errors).get(a.name), type)}
        late = {name for name in ours if not issubclass(vars(errors)[name], early)}
        calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
        for call in calls if package / "demo" not in path.parents else []:
            parts = {keyword.arg for keyword in call.keywords}
            if call.func.id in late and not {"harmless", "cause", "action"} <= parts:
                short.append(f"{path}:{call.lineno}")
    assert short == []


@pytest.mark.parametrize("kind", CATALOGUE)
def test_the_test_of_each_error_is_there(kind):
    """A file, a function of that name, the class's name in it, and what looks at the four parts."""
    path, _, name = CATALOGUE[kind].partition("::")
    tree = ast.parse((Path(__file__).parents[3] / path).read_text())
    (test,) = (n for n in tree.body if isinstance(n, ast.FunctionDef) and n.name == name)
    names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
    assert kind in names
    assert names & {"parts_of", "raised_by"}


# -- before anything is started ---------------------------------------------------------------------------------------


def test_a_duration_that_is_none(tmp_path):
    """The setting with what was given; a duration as it says is taken."""
    refused = raised_by(
        ConfigurationError, lambda: Checkpointing(tmp_path, interval="5 secnds"), "interval", "'5 secnds'"
    )
    assert '"5s"' in refused.action
    assert Checkpointing(tmp_path, interval="5s").interval_ms == 5_000


def test_a_setting_that_would_break_the_guarantee():
    """The setting with its value; it says to remove it, and without it the sink is made."""
    kafka = KafkaCluster("localhost:9092")
    refused = raised_by(
        RefusedSettingError, lambda: KafkaSink(kafka, "out", producer={"acks": 1}), "producer", "acks", "is 1"
    )
    assert refused.action.startswith("remove it")
    KafkaSink(kafka, "out", producer={})


def test_jars_that_are_not_there(tmp_path, monkeypatch):
    """The variable with its value; the corrected path is taken."""
    wrong, right = tmp_path / "jasr", tmp_path / "jars"
    monkeypatch.setenv("ONCEFLOW_JARS", str(wrong))
    refused = raised_by(SetupError, jars.spark_jars, f"ONCEFLOW_JARS={wrong}")
    assert "correct the path" in refused.action
    right.mkdir()
    (right / "spark-sql-kafka-0-10.jar").write_bytes(b"a jar")
    monkeypatch.setenv("ONCEFLOW_JARS", str(right))
    assert jars.spark_jars() == [right / "spark-sql-kafka-0-10.jar"]


# -- Kafka ------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def token_endpoint(secret):
    """Gives a token to whoever has the secret."""

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self):
            given = base64.b64decode(self.headers["Authorization"].partition(" ")[2]).decode()
            known = given == f"shop:{secret}"
            self.send_response(200 if known else 401)
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": "a token"} if known else {}).encode())

        def log_message(self, *_):
            """Tests are quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()


def test_a_secret_that_is_refused():
    """The endpoint and the code, never the secret; with the right one there is a token."""
    with token_endpoint("right") as endpoint:

        def token(secret):
            return ClientCredentials(
                KafkaCluster(
                    "localhost:9092",
                    security_protocol="SASL_PLAINTEXT",
                    sasl_mechanism="OAUTHBEARER",
                    oauth_token_endpoint=endpoint,
                    oauth_client_id="shop",
                    oauth_client_secret=secret,
                )
            ).token()

        refused = raised_by(KafkaRightsError, lambda: token("hunter2"), f"oauth_token_endpoint={endpoint}", "401")
        assert "hunter2" not in str(refused)
        assert "check the endpoint, and that the client id and secret" in refused.action
        assert token("right") == "a token"


def test_a_row_that_cannot_be_written():
    """The topic, the time and the setting that names its column; null, as advised, passes."""

    def rows(time_ms):
        return pa.RecordBatch.from_pydict({"timestamp": pa.array([time_ms], pa.int64())})

    refused = raised_by(RowRefusedError, lambda: require_times("out", rows(0)), "topic out", "1970", "timestamp=")
    assert "or null" in refused.action
    require_times("out", rows(None))


# -- a job ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path):
    made = []

    def make(*args, **more):
        made.append(Shop(tmp_path, *args, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


def goes_on(job):
    """The next start ends well, and each order is visible once."""
    error = job.run()
    assert error is None, error
    assert job.written() == job.all_orders()


def test_nothing_is_in_the_way(shop):
    """So what the other tests see is what they did."""
    goes_on(shop())


def test_a_plan_that_raises(shop):
    """Its own words; when the plan is mended, the same epoch is done."""
    job = shop()
    well = job.row

    def row(number):
        raise ValueError(f"no rate for {number}")

    job.row = row
    failed = parts_of(job.run(), EpochFailedError, "epoch 0", "no rate for 0")
    assert "mend the cause, then start the job again" in failed.action
    assert job.written() == []
    job.row = well
    goes_on(job)


@pytest.mark.parametrize("made", [PreCommitError, RowRefusedError, CheckpointConflictError, DatabaseRightsError])
def test_an_objection_of_a_class_of_its_own(shop, made):
    """What a sink's check raises is what the user gets, words and class: by it a supervisor starts the job, or not."""
    job = shop()

    def object_to_it():
        raise made("the table was put back")

    job.meanwhile["check"] = object_to_it
    told = job.run()
    assert type(told) is made
    assert told.what == "the table was put back"
    assert told.retriable is made.retriable
    assert job.written() == []
    goes_on(job)


def test_a_transaction_that_somebody_ended(shop):
    """Between its writing and the decision; started again, the job writes it anew."""
    job = shop()
    job.meanwhile["check"] = lambda: job.somebody("update ledger set state='aborted' where state='open'")
    failed = parts_of(job.run(), PreCommitError, "epoch 0", "is aborted", "transactional id prefix")
    assert failed.retriable
    assert failed.action.startswith("start the job again")
    assert job.written() == []
    goes_on(job)


class SealsNothing(LedgerCommitter):
    """It forgets what its writers have prepared."""

    def seal(self, reports, run):
        return []


class SinkThatSealsNothing(LedgerSink):
    """A sink with that committer."""

    committer = SealsNothing


def test_a_sink_that_seals_wrongly(shop, tmp_path):
    """The suite that it names shows what is wrong; with the mended sink the job goes on."""
    job = shop()
    well, job.sink.committer = job.sink.committer, SealsNothing
    failed = parts_of(job.run(), SinkContractError, "epoch 0", "`seal`")
    assert "onceflow.testing.conformance" in failed.action
    check = next(c for c in conformance.CHECKS if c.name == "a_seal_covers_each_part_once")
    with pytest.raises(conformance.Broken):
        check(LedgerWorld(tmp_path, SinkThatSealsNothing))
    check(LedgerWorld(tmp_path, LedgerSink))
    job.sink.committer = well
    goes_on(job)


def test_an_epoch_that_took_too_long(shop):
    """Its size, the setting and both times; the next start, as it is, reads as much less as it says."""
    job = shop(40)
    job.leap_s = 300.0
    failed = parts_of(job.run(), EpochTooLongError, "epoch 0 with 40 records", "transaction_timeout is 600 s")
    assert failed.retriable
    assert f"at most {failed.facts['limit']} records" in failed.action
    assert job.written() == []
    job.leap_s = 0.0
    goes_on(job)
    assert len(list((job.folder / "commits").iterdir())) >= 40 / failed.facts["limit"] > 1


def test_an_epoch_that_was_cancelled(shop):
    """The setting, and how long it took; the next start, as it is, reads as much less as it says."""
    job = shop(40)
    job.leap_s, job.timeout = 5.0, "9 s"
    failed = parts_of(job.run(), EpochTimedOutError, "epoch 0", "execution.checkpointing.timeout is 9 s")
    assert failed.retriable
    assert f"at most {failed.facts['limit']} records" in failed.action
    assert job.written() == []
    job.leap_s = 0.0
    goes_on(job)
    assert len(list((job.folder / "commits").iterdir())) >= 40 / failed.facts["limit"] > 1


def test_what_is_decided_may_take_longer(shop):
    """The time-out is of an epoch before its decision: what is decided is finished, however long it takes."""
    job = shop(4, stateful=True)
    job.dies_at("commit")
    job.leap_s, job.timeout = 50.0, "9 s"
    goes_on(job)


def test_an_epoch_of_one_record_that_took_too_long(shop, monkeypatch):
    """It cannot be cut; with the time-out raised the same epoch is done, as slow as before."""
    job = shop(1)
    job.leap_s, job.timeout = 300.0, "10 h"
    failed = parts_of(job.run(), TimeoutTooShortError, "epoch 0", "transaction_timeout is 600 s", "took")
    assert failed.action.startswith("raise transaction_timeout")
    monkeypatch.setattr(ledger_sink, "EXPIRES_AFTER_S", 1e6)
    goes_on(job)


def test_a_decided_transaction_that_was_aborted(shop):
    """Proven, by what the system says; a start writes it again from the checkpoint's offsets."""
    job = shop()
    job.meanwhile["commit"] = lambda: job.somebody("update ledger set state='aborted' where state='open'")
    lost = parts_of(job.run(), TransactionLostError, "epoch 0", "the ledger says", "transaction_timeout")
    assert lost.retriable
    assert lost.action.startswith("start the job again")
    assert job.written() == []
    goes_on(job)


def test_a_decided_transaction_that_left_no_trace(shop):
    """What is not known is said; the command that it names shows it, takes the choice, and the job goes on."""
    job = shop()
    job.meanwhile["commit"] = lambda: job.somebody("delete from ledger")
    unknown = parts_of(job.run(), OutcomeUnknownError, "epoch 0", "is not in the ledger")
    with operator(job) as looking:
        (seen,) = undone_epoch(looking, 0).participants
    assert (seen.outcome, seen.rows) == (Outcome.UNKNOWN, 3)
    choose(job, unknown.action, "write-again")
    goes_on(job)


def test_a_system_that_does_not_answer(shop):
    """The epoch is decided: when the system is back, the next start commits it."""
    job = shop()
    job.dies_at("commit")
    job.answer, job.leap_s = Reply.RETRY, 100.0
    away = parts_of(job.run(), KafkaUnavailableError, "epoch 0 is decided", "it does not answer")
    assert away.retriable
    assert "then start the job again" in away.action
    job.answer, job.leap_s = None, 0.0
    goes_on(job)


def test_a_commit_that_is_refused(shop):
    """The decision stands: with the right back, the next start commits it."""
    job = shop()
    job.dies_at("commit")
    job.answer, job.leap_s = Reply.REFUSED, 100.0
    refused = parts_of(job.run(), RecoveryError, "1 commits are refused")
    assert refused.action.startswith("give it back")
    assert job.written() == []
    job.answer, job.leap_s = None, 0.0
    goes_on(job)


@pytest.mark.parametrize("way", ["as before", "accepted"])
def test_a_plan_that_gives_other_rows(shop, way):
    """With the plan of before the job goes on; or with the other, by the command: what is visible is left as it is."""
    job = shop(stateful=True)
    job.dies_at("record")
    well, job.row = job.row, "another order {}".format
    was = job.written()
    differs = parts_of(job.run(), NotDeterministicError, "epoch 0", "not deterministic")
    assert "run the job with the code" in differs.action
    assert "--choice accept-state" in differs.action
    job.orders.end += 1
    if way == "as before":
        job.row = well
        goes_on(job)
        return
    choose(job, differs.action, "accept-state")
    assert job.run() is None
    assert job.written() == sorted([*was, "another order 3"])


def test_a_state_that_cannot_be_built(shop):
    """The output is safe; when the plan runs again, the job goes on and doubles nothing."""
    job = shop(stateful=True)
    job.dies_at("record")
    was, well = job.written(), job.row

    def row(_):
        raise ValueError("no table of rates")

    job.row = row
    failed = parts_of(job.run(), StateRebuildError, "epoch 0 is committed", "no table of rates")
    assert failed.action == "mend the cause and start the job again"
    assert job.written() == was
    job.row = well
    goes_on(job)


def test_records_that_are_gone(shop):
    """Which, and how many; the command that it names goes on with what the topic holds."""
    job = shop()
    assert job.run() is None
    job.orders.end, job.orders.first = 9, 5
    lost = parts_of(job.run(), SourceDataLostError, "topic orders", "offset 3", "2 records are lost", "retention.ms")
    assert lost.facts["lost"] == 2
    choose(job, lost.action, "give-up-rows")
    assert job.run() is None
    assert job.written() == sorted(map(job.row, [0, 1, 2, 5, 6, 7, 8]))


# -- its checkpoint ---------------------------------------------------------------------------------------------------


def test_a_file_system_that_fails(shop):
    """The decision is not written, so nothing is committed; when the folder is back, the job goes on."""
    job = shop()
    journal, away = job.folder / "onceflow" / "journal", job.folder / "away"

    def fail():
        journal.rename(away)
        journal.write_text("no folder")

    job.meanwhile["check"] = fail
    failed = parts_of(job.run(), CheckpointStoreError, "epoch 0", f"file://{job.folder}")
    assert failed.retriable
    assert failed.action == "mend the file system and start the job again"
    assert job.written() == []
    journal.unlink()
    away.rename(journal)
    goes_on(job)


def test_a_record_that_was_cut(shop):
    """Its path; with the file of a copy in its place the job goes on."""
    job = shop()
    assert job.run() is None
    record = max((job.folder / "onceflow" / "journal").glob("*.json"))
    whole = record.read_bytes()
    record.write_bytes(whole[:40])
    corrupt = parts_of(job.run(), CheckpointCorruptError, str(record))
    assert corrupt.action.startswith("put the file back from a copy of the checkpoint")
    record.write_bytes(whole)
    job.orders.end += 2
    goes_on(job)


def test_a_spoiled_record_without_a_copy(shop):
    """Or, as it says, without the journal as a new job: what the sink has is not written again."""
    job = shop()
    assert job.run() is None
    journal = job.folder / "onceflow" / "journal"
    max(journal.glob("*.json")).write_bytes(b"")
    corrupt = parts_of(job.run(), CheckpointCorruptError)
    assert "move the folder journal/ away" in corrupt.action
    assert 'takeover="as-new"' in corrupt.action
    journal.rename(job.folder / "away")
    job.orders.end += 2
    assert job.run("as-new") is None
    goes_on(job)


@pytest.mark.parametrize("meant", ["moved", "copied"])
def test_a_copied_checkpoint(shop, meant):
    """Both places; a moved one is claimed, a copy becomes a second job, and both go on from its offsets."""
    job = shop()
    assert job.run() is None
    was, now = job.folder, job.folder.with_name("elsewhere")
    shutil.copytree(was, now)
    job.folder = now
    conflict = parts_of(job.run(), CheckpointConflictError, f"file://{was};", f"file://{now}")
    takeover = "claim" if meant == "moved" else "as-new"
    assert f'takeover="{takeover}"' in conflict.action
    job.orders.end += 2
    assert job.run(takeover) is None
    goes_on(job)


def emptied(folder, _):
    shutil.rmtree(folder)
    folder.mkdir()


def older(folder, copy):
    shutil.rmtree(folder)
    shutil.copytree(copy, folder)


SPOILED = {
    "emptied": (emptied, CheckpointConflictError, "there is no checkpoint at"),
    "an older copy": (older, CheckpointConflictError, "is older than what this job has done"),
    "no onceflow/": (lambda f, _: shutil.rmtree(f / "onceflow"), CheckpointConflictError, "no onceflow/job.json"),
    "no journal/": (
        lambda f, _: shutil.rmtree(f / "onceflow" / "journal"),
        CheckpointConflictError,
        "journal is gone or empty",
    ),
    "no job.json": (lambda f, _: (f / "onceflow" / "job.json").unlink(), CheckpointConflictError, "job.json"),
    "job.json cut": (lambda f, _: (f / "onceflow" / "job.json").write_bytes(b"{"), CheckpointCorruptError, "job.json"),
    "no commits/": (lambda f, _: emptied(f / "commits", _), CheckpointConflictError, "older than the journal"),
    "no metadata": (lambda f, _: (f / "metadata").unlink(), CheckpointCorruptError, "metadata"),
}


@pytest.mark.parametrize("how", SPOILED)
def test_a_spoiled_checkpoint_that_is_put_back(shop, how, tmp_path):
    """Whatever was deleted of it or put in its place: with the newest copy, as it says, the job goes on."""
    spoil, kind, said = SPOILED[how]
    job = shop()
    assert job.run() is None
    shutil.copytree(job.folder, tmp_path / "older")
    job.orders.end += 2
    goes_on(job)
    shutil.copytree(job.folder, tmp_path / "newest")
    spoil(job.folder, tmp_path / "older")
    refused = parts_of(job.run(), kind, said)
    assert any(words in refused.action for words in ("back from a copy", "copy back", "folder back", "checkpoint back"))
    older(job.folder, tmp_path / "newest")
    job.orders.end += 2
    goes_on(job)


@pytest.mark.parametrize("how", ["no job.json", "job.json cut", "no mark"])
def test_a_checkpoint_that_is_claimed(shop, how):
    """What says whose it is, or that it is the newest copy, is gone: claimed once, as it says, the job goes on."""
    job = shop()
    assert job.run() is None
    if how == "no mark":
        job.somebody("delete from marks")
    else:
        SPOILED[how][0](job.folder, None)
    refused = job.run()
    parts_of(refused, type(refused))
    assert 'takeover="claim"' in refused.action
    job.orders.end += 2
    assert job.run("claim") is None
    job.orders.end += 2
    goes_on(job)


@pytest.mark.parametrize("how", ["emptied", "an older copy"])
def test_what_is_written_again_on_purpose(shop, how, tmp_path):
    """It says that epochs are written again then: those that are missing in the copy, and no others."""
    job = shop()
    assert job.run() is None
    shutil.copytree(job.folder, tmp_path / "older")
    job.orders.end += 2
    goes_on(job)
    SPOILED[how][0](job.folder, tmp_path / "older")
    refused = parts_of(job.run(), CheckpointConflictError)
    takeover = "as-new" if how == "emptied" else "claim"
    assert f'again on purpose: takeover="{takeover}"' in refused.action or "writes that again: " in refused.action
    shutil.copy(tmp_path / "older" / "metadata", job.folder)  # as Spark makes it
    for name in ("offsets", "commits"):
        (job.folder / name).mkdir(exist_ok=True)
    assert job.run(takeover) is None
    again = range(5) if how == "emptied" else range(3, 5)
    assert job.written() == sorted([*job.all_orders(), *map(job.row, again)])
    assert job.run() is None


def test_two_starts_at_once(shop):
    """The older one ends; nothing is to be done but to see that only one runs, which then does all of it."""
    job = shop()
    older = job.start()
    newer = job.start()
    with pytest.raises(FencedError) as caught:
        job.work(older)
    fenced = parts_of(caught.value, FencedError, f"file://{job.folder}")
    assert fenced.action.startswith("nothing for the data's sake; see to it that only one runs")
    job.work(newer)
    assert job.written() == job.all_orders()
