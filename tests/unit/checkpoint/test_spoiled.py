"""What a fuzzer has found: bytes that somebody else may have made, by which a reader broke its promise.

Each was an error that no caller expects, or none at all: a reader that goes on for ever, or takes what is only said.
"""

import hashlib
import json
import socket
import struct
import time
import zipfile
from io import BytesIO

import pytest

from onceflow.audit import batches, chain, topics
from onceflow.audit.files import OnDisk
from onceflow.audit.findings import Findings
from onceflow.audit.records import keys_and_values
from onceflow.checkpoint import family, identity
from onceflow.checkpoint.failures import Failures
from onceflow.checkpoint.journal_codec import JournalEntry, decode, encode
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.receipts import Receipts
from onceflow.checkpoint.refusals import Refusals
from onceflow.checkpoint.spark_files import SparkCheckpoint, canonical, reads_beyond, watermark_behind
from onceflow.checkpoint.trail import Trail, digest
from onceflow.connectors.database.staged import Staged as DatabaseStaged
from onceflow.connectors.kafka import listeners, source
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.offsets import data_lost_from, from_json
from onceflow.connectors.kafka.transactional_id import parse_transactional_id
from onceflow.connectors.lake.staged import AttemptName, LakeStaged
from onceflow.control import client
from onceflow.errors import CheckpointCorruptError, ConfigurationError
from onceflow.execution import carried
from onceflow.flinksql import kafka_tables
from onceflow.flinksql.problems import Position, whole_number
from onceflow.flinksql.script import Script
from onceflow.formats import refused
from onceflow.operations.savepoints import reading, state_files
from onceflow.operations.savepoints.manifest import FORMAT, NAME
from onceflow.options.durations import duration_ms
from onceflow.options.layers import CONFIG, effective
from onceflow.spark import sentences
from onceflow.spark.locations import folder_at
from onceflow.storage import envelope
from onceflow.storage.store import Store
from onceflow.twophase.forms import OTHER_FORM
from onceflow.twophase.participants import Participant, TaskReport
from onceflow.twophase.records import Decide
from tests.support import checkpoints

DEEP = "[" * 100_000


# -- a checkpoint's files --------------------------------------------------------------------------------------------


def sealed_start(**changed):
    record = {"incarnation": 1, "job_id": "0123456789ab"} | changed
    return envelope.seal({"format": 3, "place": 1, "nonce": "n", "kept_from": 1, "kind": "start", "record": record})


@pytest.mark.parametrize(
    "data",
    [
        DEEP.encode(),
        sealed_start(incarnation=float("inf")),
        sealed_start(systems=["a list"]),
        sealed_start(left=5),
    ],
    ids=["nested", "infinite", "a list for an object", "a number for a list"],
)
def test_a_record_of_the_journal_that_is_none_is_named(data, tmp_path):
    """Its checksum says nothing of its form."""
    path = tmp_path / "onceflow" / "journal" / f"{1:020d}.json"
    checkpoints.write(path, data)
    with pytest.raises(OTHER_FORM):
        decode(data, 1)
    with pytest.raises(CheckpointCorruptError) as refused:
        Place.at(tmp_path, retain=10).journal.history()
    assert refused.value.facts["file"] == str(path)


@pytest.mark.parametrize("about", ["{", "[]", "5", '{"sinks": 5}', '{"sinks": {"s": []}}', "{}"])
def test_what_a_start_said_of_itself_is_read_where_its_record_is(about):
    """Receipts are made of it, in the middle of an epoch, where nobody would say which file is spoiled."""
    told = envelope.unseal(encode(JournalEntry(1, "n", 0, Decide(1, 0, "v1", (), (), about='{"sinks": {}}'))), 3)
    assert decode(envelope.seal(told), 1).record.about == '{"sinks": {}}'
    told["record"]["about"] = about
    with pytest.raises(OTHER_FORM):
        decode(envelope.seal(told), 1)


@pytest.mark.parametrize("name", ["²", "٣", "007", "²-1", "1-3"])
def test_a_file_that_is_named_almost_as_one_of_ours_is_none(name, tmp_path):
    """``isdigit`` knows more numbers than files are named by; and a name of fewer digits is found under another one."""
    place = checkpoints.make(tmp_path, 2)
    before = place.journal.history()[1], place.checkpoint.newest_commit()
    for folder in ("offsets", "commits", "sources"):
        checkpoints.write(tmp_path / folder / name, "v1\n{}\n{}")
    checkpoints.write(tmp_path / "onceflow" / "journal" / f"{name}.json", "{}")
    checkpoints.write(tmp_path / "state" / name / "_metadata" / "v2" / name, "v1\n{}")
    again = Place.at(tmp_path, retain=100)
    assert (again.journal.history()[1], again.checkpoint.newest_commit()) == before
    assert SparkCheckpoint.at(tmp_path).newest_offsets() == 1
    assert sorted(state_files.Listed(folder_at(tmp_path)).numbers("offsets")) == [0, 1]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", ["1-3.json", "0000000001-00000000000000000003.json", "²-1.json"])
def test_receipts_under_another_name_are_not_looked_for_for_ever(name, tmp_path):
    """They were listed, not found by their own name, and so listed again."""
    (tmp_path / name).write_bytes(envelope.seal({"format": 1, "receipts": []}))
    receipts = Receipts(Store(tmp_path))
    assert receipts.read() == []
    assert receipts.are_whole()


@pytest.mark.parametrize("lacks", ["places", "at", "number", "sources", "hash"])
def test_a_receipt_of_the_trail_that_lacks_something_is_none(lacks, tmp_path):
    """Its hash is right: who wrote it made one. The next receipt could not be made behind it."""
    body = {"number": 1, "at": "2026-01-01T00:00:00+00:00", "places": [1, 2], "sources": [{"end": "{}"}]}
    body.pop(lacks, None)
    line = json.dumps(body | ({"hash": digest(body)} if lacks != "hash" else {"hash": None}))
    (tmp_path / "0000000001-00000000-000001.jsonl").write_text(line + "\n")
    assert Trail(Store(tmp_path)).waiting({}, 5) == []


def test_a_file_of_the_trail_under_another_name_is_none(tmp_path):
    """It was looked for under its own, and was not there."""
    for name in ("1-00000000-1.jsonl", "²-00000000-000001.jsonl"):
        (tmp_path / name).write_text("{}\n")
    assert Trail(Store(tmp_path)).waiting({}, 5) == []


@pytest.mark.parametrize("text", [DEEP, '{"incarnation":1e999,"nonce":"a","epoch":1}', '{"jobs":5}', "5"])
def test_a_mark_that_is_none_is_none(text):
    """It stands on a broker, where others may write, too."""
    assert identity.Mark.loads(text) is None
    assert identity.NameMark.loads(text) == identity.NameMark()


@pytest.mark.timeout(30)
def test_a_job_whose_id_is_longer_than_a_mark_ends():
    """It was made shorter for ever."""
    assert identity.NameMark({"x" * 5_000: "file:/c"}).dumps() == ""
    assert json.loads(identity.NameMark({"x" * 5_000: "", "b": "c" * 5_000}).dumps()) == {"jobs": [["b", ""]]}


def test_what_is_kept_for_people_is_never_in_the_way(tmp_path):
    """No decision hangs on it."""
    (tmp_path / "current.jsonl").write_text(f"{DEEP}\n")
    (tmp_path / "newest.json").write_bytes(envelope.seal({"epoch": 1}))
    assert Failures(Store(tmp_path)).read() == []
    assert Refusals(Store(tmp_path)).read() is None


def test_small_files_of_a_checkpoint_that_are_none_are_named(tmp_path):
    """A list for an object, in a file whose checksum is right."""
    (tmp_path / "told.json").write_bytes(envelope.seal({"format": 1, "jobs": [1]}))
    with pytest.raises(CheckpointCorruptError):
        family.accepted(Store(tmp_path))
    (tmp_path / "job.json").write_text(DEEP)
    with pytest.raises(CheckpointCorruptError):
        identity.read_identity(Store(tmp_path))


def test_positions_that_are_none_count_nothing():
    """Of any source's form; of one that is nested too deeply, too."""
    assert watermark_behind(f"v1\n{DEEP}") == 0
    assert watermark_behind('v1\n{"nextBatchWatermarkMs":1e999}') == 0
    assert canonical(DEEP) == DEEP
    assert reads_beyond(DEEP, '{"t":{"0":1e999}}')
    with pytest.raises(ConfigurationError, match="no offset"):
        from_json(DEEP)
    with pytest.raises(ConfigurationError, match="no offset"):
        from_json('{"t":{"0":1e999}}')


def test_a_manifest_whose_files_are_none_is_named(tmp_path):
    """Its files were a number."""
    path = tmp_path / "s"
    checkpoints.write(path / NAME, envelope.seal({"format": FORMAT, "files": 0.5, "id": "x"}))
    with pytest.raises(CheckpointCorruptError):
        reading.read(path)


# -- state -----------------------------------------------------------------------------------------------------------


def changelog(lineage):
    text = json.dumps(lineage).encode()
    return checkpoints.lz4(b"\0\2v3" + len(text).to_bytes(2, "big") + text + b"\xff" * 4)


def snapshot(*names, key="dfsSstFileName"):
    with zipfile.ZipFile(data := BytesIO(), "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": [{key: name} for name in names]}))
    return data.getvalue()


def state(folder, **changed):
    files = {
        "state/0/_metadata/metadata": b'v1\n{"stateStoreInfo":[{"storeName":"default"}]}',
        "state/0/0/2_b.changelog": changelog([{"version": 1, "checkpointUniqueId": "a"}]),
        "state/0/0/1_a.zip": snapshot("a.sst"),
        "state/0/0/SSTs/a.sst": b"sst",
        "outside.sst": b"somebody's",
    }
    for name, data in (files | changed).items():
        checkpoints.write(folder / name, data)
    return state_files.files_of(state_files.Listed(folder_at(folder)), 1, 'v2\n{"stateUniqueIds":{"0":[["b"]]}}')


def test_the_state_is_read(tmp_path):
    """What the next tests change is whole."""
    assert "state/0/0/SSTs/a.sst" in list(state(tmp_path))


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("state/0/0/1_a.zip", snapshot("../../../../outside.sst")),
        ("state/0/0/1_a.zip", snapshot("a.sst", key="other")),
        ("state/0/0/1_a.zip", b"PK\3\4no zip"),
        ("state/0/0/2_b.changelog", changelog([{"version": 1, "checkpointUniqueId": "/../../../a"}])),
        ("state/0/0/2_b.changelog", changelog([{"version": 1e999, "checkpointUniqueId": "a"}])),
        ("state/0/0/2_b.changelog", b"LZ4Block\x25" + struct.pack("<ii", 4, 0x7000_0000) + bytes(8)),
        ("state/0/0/2_b.changelog", b"of another codec"),
        ("state/0/_metadata/metadata", b"v1\n\xc8\xff"),
        ("state/0/_metadata/metadata", b'v1\n{"stateStoreInfo":[{"storeName":"../../.."}]}'),
    ],
)
def test_state_that_leads_out_of_its_folder_or_is_none_is_not_copied(name, data, tmp_path):
    """A savepoint copies what the files of the state name; a block's length alone takes no memory."""
    with pytest.raises(state_files.UnreadableStateError):
        list(state(tmp_path, **{name: data}))


@pytest.mark.parametrize("commit", ['v2\n{"stateUniqueIds":{"0":[["../../x"]]}}', f"v2\n{DEEP}"])
def test_a_commit_that_leads_out_of_the_state_is_refused(commit):
    """The ids in it become names of files."""
    with pytest.raises(state_files.UnreadableStateError):
        state_files.ids_of(commit)


# -- what crosses a crash --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [LakeStaged.read, DatabaseStaged.read])
@pytest.mark.parametrize("sealed", [[], 5, {"incarnation": float("inf")}])
def test_what_a_participant_says_is_read_or_is_none(read, sealed):
    """An operator looks at it all the same."""
    lake, table = ([["j", "s", "1-2-3-4-0123456789abcde", float("inf"), "d"]], [["a", float("inf"), 1]])
    for kind, attempts in (("onceflow lake", lake), ("onceflow database", table)):
        assert read({"kind": kind, "table": "t", "system": "s", "attempts": attempts}) is None
        assert read({"kind": kind, "table": "t", "system": "s", "attempts": [], "sealed": sealed}) is None or not sealed


def test_a_report_that_is_none_raises_what_it_says():
    """An infinite number, and what is nested too deeply."""
    report = '{"sink":"a","task":1e999,"attempt":1,"parts":[],"transaction":null}'
    for text in (report, DEEP):
        with pytest.raises(OTHER_FORM):
            TaskReport.loads(text)
    with pytest.raises(OTHER_FORM):
        Participant.from_json({"sink": "a", "handle": "h", "parts": [[0, float("inf"), 1, ""]], "transaction": {}})


# -- the audit's chain -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("start", {}),
        ("decide", {"epoch": 1}),
        ("decide", {"epoch": [], "participants": []}),
        ("decide", {"epoch": 1, "participants": [{"sink": "a", "handle": "h", "transaction": {}}]}),
        ("decide", []),
        ("resolve", {"epoch": {}, "choice": "skip"}),
        ("replay-begin", {}),
        ("replay", {"epoch": 1, "participants": 5}),
    ],
)
def test_the_audit_passes_over_a_record_that_is_none(kind, record, tmp_path):
    """It stops the job, which says so; the audit tells of all else."""
    path = tmp_path / "onceflow" / "journal" / f"{1:020d}.json"
    checkpoints.write(path, json.dumps({"kind": kind, "record": record}))
    found = chain.read(OnDisk(tmp_path), Findings())
    assert (found.decided, found.others) == ({}, [])


@pytest.mark.parametrize(
    "changed",
    [
        {"sinks": {"s": 5}},
        {"sinks": {"s": {"columns": [["a", "int"]]}}},
        {"sinks": {"s": {"columns": [5], "destination": "t"}}},
        {"participants": [{"transaction": {"attempts": 5}}]},
    ],
)
def test_a_receipt_that_an_audit_cannot_read_is_told(changed, tmp_path):
    """Its hash is right."""
    held = {"sink": "s", "handle": "h", "rows": 0, "digest": "0" * 16, "parts": [], "transaction": {}}
    body = {
        "format": 1, "number": 1, "before": "", "before_at": "", "at": "2026-01-01T00:00:00+00:00", "job": "j",
        "epoch": 0, "sources": [{"start": None, "end": "{}"}], "sinks": {}, "participants": [held],
        "replays": 0, "choices": [],
    }  # fmt: skip
    body |= (
        {"participants": [held | each for each in changed["participants"]]} if "participants" in changed else changed
    )
    line = json.dumps(body | {"hash": digest(body)}) + "\n"
    checkpoints.write(tmp_path / "onceflow" / "audit" / "0000000001-00000000-000001.jsonl", line + line)
    findings = Findings()
    assert chain.read(OnDisk(tmp_path), findings).receipts == []
    assert [each.kind for each in findings.found][:1] == ["receipt"]


def test_a_participant_that_names_no_transaction_of_kafkas_is_none_of_them():
    """It has some of the names, and not what an audit asks of them."""
    told = [
        {"producer_id": 1},
        {"producer_id": 1, "producer_epoch": 0, "partitions": 5, "witness": {}},
        {"producer_id": []},
    ]
    for transaction in told:
        p = {"sink": "s", "handle": "h", "rows": 1, "digest": "0" * 16, "parts": [], "transaction": transaction}
        assert topics.transactions([{"epoch": 1, "sinks": {}, "participants": [p], "choices": []}], {"s"}) == {}


# -- a broker's words ------------------------------------------------------------------------------------------------


def batch(length=49, *, attributes=0, count=0, data=b""):
    return struct.pack(">qiibIhiqqqhii", 0, length + len(data), 0, 2, 0, attributes, 0, 0, 0, 1, 0, 0, count) + data


@pytest.mark.timeout(30)
@pytest.mark.parametrize("length", [-12, -1, 0, 48])
def test_a_batch_that_ends_before_its_head_is_none(length):
    """The next one would begin where it began, or before."""
    with pytest.raises(batches.BatchError, match="head"):
        list(batches.batches(batch(length) + bytes(100)))


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    ("attributes", "count", "data"),
    [
        (7, 1, b"x"),
        (2, 1, batches._XERIAL + bytes(8) + struct.pack(">i", -4) + bytes(9)),
        (2, 1, b"\xff\xff\xff\xff\x7f" + bytes(9)),
        (0, 1, b"\x20\0\0\0\xff\xff\x7f"),
        (0, 1, b"\x20\0\0\0\x03\x03"),
        (0, 1, b"\x20\0\0\0" + b"\xff" * 2_000),
    ],
    ids=["codec", "snappy backwards", "snappy of nothing", "key", "negative", "number"],
)
def test_records_that_are_none_are_refused(attributes, count, data):
    """A codec that is none; a block that lies before itself; lengths that are only said."""
    (held,) = batches.batches(batch(attributes=attributes, count=count, data=data))
    with pytest.raises((batches.BatchError, IndexError)):
        list(held.records())


@pytest.mark.parametrize(("count", "data"), [(0, b""), (1, b"\x0c\0\0\0\x01\x01\0")])
def test_a_mark_without_words_is_refused(count, data):
    """A batch that ends a transaction says how."""
    (held,) = batches.batches(batch(attributes=0x30, count=count, data=data))
    with pytest.raises(batches.BatchError, match="mark"):
        assert held.commits


def test_a_batch_that_unpacks_to_too_much_is_refused(monkeypatch):
    """A page of zeros' worth of gigabytes."""
    import pyarrow as pa

    monkeypatch.setattr(batches, "_LARGEST", 1 << 21)
    with pa.CompressedOutputStream(sink := pa.BufferOutputStream(), "gzip") as stream:
        stream.write(bytes(1 << 23))
    (held,) = batches.batches(batch(attributes=1, count=1, data=sink.getvalue().to_pybytes()))
    with pytest.raises(batches.BatchError, match="unpacks"):
        held.plain()


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "data",
    [
        b"\x20\0\0\0" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\0\0",
        b"\x20\0\0\0\x01" + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x20\0\0\0" + b"\xff" * 40,
        b"\xff" * 40,
    ],
)
def test_keys_and_values_that_are_not_there_are_not_hashed(data):
    """A hash would be made of a length that is only said."""
    with pytest.raises((ValueError, IndexError)):
        keys_and_values(data, [1], [len(data)])


class Broker:
    """Says what it is told to."""

    def __init__(self, said):
        self.said = BytesIO(said)
        self.asked = 0

    def recv(self, size):
        self.asked = max(self.asked, size)
        return self.said.read(size)

    def sendall(self, _):
        pass


@pytest.mark.parametrize(
    "said", [struct.pack(">ih", 1, 33), struct.pack(">ihi", 1, 33, 5), struct.pack(">ihih", 1, 33, 1, -1)]
)
def test_who_answers_half_a_list_of_logins_is_no_broker(said, monkeypatch):
    """Anybody may listen at an address that was mistyped."""
    versions = struct.pack(">iihi", 10, 1, 0, 0)

    class Listener(Broker):
        def settimeout(self, _):
            pass

        def getsockopt(self, *_):
            raise OSError("no TLS")

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    answer = versions + struct.pack(">i", len(said)) + said
    monkeypatch.setattr(socket, "create_connection", lambda *_: Listener(answer))
    look = listeners._look(KafkaCluster("localhost:9092"), "localhost:9092", time.monotonic() + 60)
    assert "speaks" in look.why or "no Kafka broker" in look.why


# -- texts -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("told", ["{}", '{"column":"a"}', '{"column":5}', "5", "[]", DEEP])
def test_a_row_that_looks_like_our_own_words_is_no_refusal(told):
    """A row's text stands in Spark's message as well."""
    assert refused.refused_from(refused._RAISED + told) is None


@pytest.mark.parametrize("more", ["}", ',"partition":1}', ',"partition":"x","offset":1,"reason":"r"}', f',"a":{DEEP}'])
def test_a_record_that_looks_like_our_own_words_is_not_taken_for_them(more):
    """Likewise."""
    assert source.malformed_from(f'{source._MARKER}{{"topic":"t"{more}') is None


@pytest.mark.parametrize("name", ["what", "self", "others", "action"])
def test_facts_that_are_an_errors_own_words_are_no_facts(name):
    """An error could not be made of them."""
    parts = dict.fromkeys(("what", "harmless", "cause", "action"), "")
    line = carried.MARKER + json.dumps({"error": "KafkaError", **parts, "facts": {name: "x"}})
    assert carried.find(line) is None
    assert carried.find(carried.MARKER + '{"a":' * 50_000) is None


def test_spark_may_say_nothing():
    """An error without a word has no first line."""
    assert "it says nothing" in sentences.no_stream("", "append").what


@pytest.mark.parametrize("text", ["9" * 400, "1" + "0" * 30 + " days"])
def test_a_duration_has_an_end(text):
    """Of an infinite one no whole number is made; Java counts to 292 million years."""
    with pytest.raises(ConfigurationError, match="longer"):
        duration_ms(text)


@pytest.mark.parametrize(
    "content",
    [
        f"a = {DEEP}",
        f"a = {'9' * 5_000}",
        'execution.checkpointing.interval = "²"',
        "preset = 5",
        'restart-strategy.fixed-delay.delay = "' + "9" * 400 + 's"',
    ],
    ids=["nested", "digits", "superscript", "preset", "endless"],
)
def test_a_file_of_settings_that_is_none_is_refused(content, tmp_path):
    """By its name or by its setting, whatever TOML's reader or a number says."""
    path = tmp_path / "onceflow.toml"
    path.write_text(content)
    with pytest.raises(ConfigurationError):
        effective({}, {}, {CONFIG: str(path)})


def test_an_address_whose_bytes_are_not_utf8_is_refused():
    """So a variable of the environment may be."""
    with pytest.raises(ConfigurationError, match="KafkaCluster cannot be made"):
        KafkaCluster("\udcff\udcfe:9092")


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT {'(' * 2_000}1{')' * 2_000};",
        f"SELECT {'NOT ' * 3_000} TRUE;",
        f"CREATE TABLE t (a {'ARRAY<' * 2_000}INT{'>' * 2_000}) WITH ('connector' = 'kafka');",
        f"SELECT CAST(1 AS {'ARRAY<' * 2_000}INT{'>' * 2_000});",
    ],
    ids=["brackets", "not", "type", "cast"],
)
def test_a_statement_that_is_nested_too_deeply_is_told_by_its_place(statement):
    """It was Python's own error, without one."""
    with pytest.raises(ConfigurationError, match="line 1, column"):
        list(Script().run(statement))


MANY = "9" * 5_000
"""More digits than Python makes a number of."""


@pytest.mark.parametrize(
    "statement",
    [
        f"SELECT {MANY};",
        f"CREATE TABLE t (a DECIMAL({MANY}, 2)) WITH ('connector' = 'kafka');",
        f"CREATE TABLE t (a VARCHAR({MANY})) WITH ('connector' = 'kafka');",
    ],
)
def test_a_number_of_too_many_digits_is_told_by_its_place(statement):
    """It was Python's own error, without one."""
    with pytest.raises(ConfigurationError, match="line 1, column"):
        list(Script().run(statement))


@pytest.mark.parametrize("text", [MANY, "²", "-1 ", "1" + "0" * 18, "1.5", "x"])
def test_an_option_that_is_no_whole_number_is_told_by_its_place(text):
    """As ``isdigit`` has it, more is one than ``int`` takes."""
    with pytest.raises(ConfigurationError, match="line 3, column 4: 'number-of-rows'"):
        whole_number(Position(3, 4), "number-of-rows", text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (f"'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '{MANY}'", "no whole number"),
        ("'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '²'", "no whole number"),
        ("'scan.startup.mode' = 'timestamp', 'scan.startup.timestamp-millis' = '999999999999999999'", "no time up to"),
        (
            f"'scan.startup.specific-offsets' = 'partition:0,offset:{MANY}', 'scan.startup.mode' = 'specific-offsets'",
            "no offsets",
        ),
    ],
)  # fmt: skip
def test_where_a_table_begins_is_a_number_that_kafka_has(options, said):
    """Of others no time can be made, and no offset."""
    script = Script()
    list(
        script.run(
            "CREATE TABLE p (a STRING) WITH ('connector' = 'kafka', 'topic' = 'p', 'format' = 'json', "
            f"'properties.bootstrap.servers' = 'k:9092', {options});"
        )
    )
    with pytest.raises(ConfigurationError, match=said):
        kafka_tables._start(script.names.tables["p"], None)


def test_digits_in_a_message_have_an_end():
    """A topic's name stands in it, and what a record's writer likes."""
    assert data_lost_from(f"Starting offset for t-{MANY} was 3 but consumer reset to 9") is None
    found = data_lost_from(f"Starting offset for t-0 was 3 but consumer reset to {MANY}")
    assert found.facts["earliest"] < 10**19
    assert data_lost_from("Starting offset for t-0 was 3 but consumer reset to 9").facts["earliest"] == 9
    assert parse_transactional_id(f"p-0123456789ab-{MANY}-s-0-1-0", "p", "0123456789ab") is None
    assert AttemptName.read("j", "s", f"1-{MANY}-0-0-0123456789abcde") is None


# -- what answers where jobs are looked for --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [{"name": ["a"]}, {"pid": {}}, {"supervisor": []}, {"epoch": "x"}, {"name": None}],
)
def test_what_answers_as_no_job_does_is_none(changed, tmp_path, monkeypatch):
    """Another version, or another program of this user's: the list of jobs is told without it."""
    job = {
        "name": "fraud", "state": "RUNNING", "pid": 1, "checkpoint": "file:/c", "started_at": "2026", "restarts": 0,
        "epoch": None, "failure": "", "supervisor": None, "writes_as": "",
    }  # fmt: skip
    assert client._read(tmp_path, job).name == "fraud"
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(json.dumps(job | changed).encode() + b"\n")
        line = ours.makefile("rb")
        monkeypatch.setattr(client.socket, "socket", lambda *_: Answering(line))
        assert client._answer(tmp_path / "1-0.sock", "standing") is None


class Answering:
    def __init__(self, line):
        self.line = line

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def makefile(self, _):
        return self.line

    def __getattr__(self, _):
        return lambda *_: None


def test_a_hash_is_no_seal():
    """What the tests above rest on: anybody can make one."""
    body = {"format": 1}
    sealed = json.loads(envelope.seal(body))["sha256"]
    assert sealed == hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
