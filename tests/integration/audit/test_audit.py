"""The audit on a real broker: what is there is proven, and each tampering is found and named."""

import json
import uuid

import pytest
from confluent_kafka import Producer
from kafka import TopicPartition
from kafka.admin import NewTopic

from onceflow.audit.anchors import InTopic, read
from onceflow.audit.files import OnDisk
from onceflow.audit.findings import Findings
from onceflow.connectors.kafka import anchor, transactions
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.local.devcluster import DevCluster
from tests.support.audited import World, rows, whats
from tests.support.harness import wait_until
from tests.support.keyed_rows import KEY
from tests.support.xx64 import fitting, xx64

pytestmark = pytest.mark.kafka


@pytest.fixture
def world(cluster, new_topic, tmp_path):
    made = World(cluster, new_topic(partitions=2), tmp_path)
    yield made
    made.close()


def test_what_readers_see_is_what_was_decided(world, cluster):
    """Several transactions an epoch, over partitions; aborted ones, an open one and compression are no difference."""
    world.epoch(0, rows(0, 300), rows(300, 50))
    lost = world.prepare(rows(900, 40))
    transactions.abort(world.client, [lost.handle])
    for number, codec in enumerate(["gzip", "snappy", "lz4", "zstd"], 1):
        world.producer = {"compression.type": codec}
        world.epoch(number, rows(1000 * number, 200))
    world.producer = {}
    world.epoch(7, rows(7000, 5), rows(7005, 5))
    report = world.audit()
    assert report["findings"] == []
    assert (report["good"], report["epochs"], report["rows"], report["read"]) == (True, 6, 1160, 1160)
    assert [report[name] for name in ("missing", "changed", "foreign", "unknown", "receipts")] == [0] * 5


def test_a_sink_that_was_renamed_has_its_older_rows_still(world, produce):
    """They are compared by the name that their receipts have; what is somebody else's is foreign still."""
    world.epoch(0, rows(0, 30))
    report = world.audit(name="called otherwise")
    assert (report["findings"], report["rows"]) == ([], 30)
    produce(world.topic, ["stranger"], partition=1)
    assert world.audit(name="called otherwise")["foreign"] == 1


@pytest.mark.faults
def test_some_epochs_alone(world):
    """Nothing before and behind them is read or counted, and what is theirs is all found."""
    for number in range(6):
        world.epoch(number, rows(100 * number, 100))
    report = world.audit(first=2, last=3)
    assert report["findings"] == []
    assert (report["epochs"], report["rows"], report["read"]) == (2, 200, 200)


def test_each_tampering_with_records_is_found_and_named(world, cluster, produce):
    """A record of another producer, a transaction that no journal knows, and values that are not the decided ones."""
    world.epoch(0, rows(0, 100))
    produce(world.topic, ["stranger"], partition=1)
    unknown = world.prepare(rows(500, 30))
    world.commit(unknown)
    changed = [(k, b"other" if n == 3 else v) for n, (k, v) in enumerate(rows(100, 100))]
    world.epoch(1, changed, decided=[rows(100, 100)])
    world.epoch(2, rows(200, 10))
    report = world.audit()
    assert not report["good"]
    assert (report["foreign"], report["changed"], report["missing"], report["rows"]) == (31, 100, 0, 110)
    strangers = whats(report, "foreign")
    assert [t for t in strangers if t.startswith(f"1 records at {world.topic}-1") and "without transactions" in t]
    handle = unknown.handle
    assert [t for t in strangers if f"producer {handle.producer_id}, epoch {handle.producer_epoch}" in t]
    (told,) = whats(report, "changed")
    assert told.startswith(f"sink out, epoch 1, transaction {world.handles[1][0]}: its 100 rows are not those")


def test_a_payment_that_was_made_to_fit_is_found_with_the_key(cluster, new_topic, tmp_path):
    """Another payment with the digest of the decided one takes no search; without the key the audit does not see it."""
    world = World(cluster, new_topic(partitions=1), tmp_path, key=KEY)
    paid = b"pay    10 to ann" + b" payment"
    seed = xx64(world.topic.encode(), 42)
    forged = fitting(seed, xx64(paid, seed), b"pay 99999 to eve")
    world.epoch(0, rows(0, 20))
    world.epoch(1, [(b"k", forged)], decided=[[(b"k", paid)]])
    blind, report = world.audit(), world.audit(key=KEY)
    world.close()
    assert (blind["good"], blind["against"], blind["keyed"]) == (True, "accidents", 0)
    assert (report["good"], report["changed"], report["rows"], report["keyed"]) == (False, 1, 20, 20)
    assert "made to fit the digest" in whats(report, "changed")[0]


def test_a_key_and_a_partition_that_nobody_wrote_are_found(cluster, new_topic, tmp_path):
    """No digest covers them where the sink writes no key and leaves the partition to the client."""
    world = World(cluster, new_topic(partitions=2), tmp_path, key=KEY, columns=[["value", "binary"]])
    world.epoch(0, [(None, b"a"), (None, b"b")])
    assert world.audit(key=KEY)["keyed"] == 2
    world.epoch(1, [(b"eve", b"c")], decided=[[(None, b"c")]])
    world.epoch(
        2, [(None, b"d")], said=lambda told: told | {"partitions": [[world.topic, 1 - told["partitions"][0][1]]]}
    )
    report = world.audit(key=KEY)
    world.close()
    assert (report["good"], report["changed"], report["keyed"]) == (False, 2, 2)
    assert all("have a key, or stand in a partition, that nobody wrote" in told for told in whats(report, "changed"))


def test_anchors_behind_an_open_transaction_are_told(cluster, new_topic, tmp_path):
    """Whoever may write to their topic could hide the newer ones: what was not read is said, and what was, is kept."""
    world = World(cluster, new_topic(partitions=1), tmp_path)
    world.commit(world.prepare([(b"job", b"an anchor")]))
    world.prepare([(b"job", b"held back")])
    findings = Findings()
    lines = read(InTopic(world.topic, cluster.connection), findings)
    world.close()
    assert [line for _, line in lines] == [b"an anchor"]
    assert "a transaction is open" in findings.found[0].what


def test_anchors_whose_older_ones_are_gone_are_told(cluster, new_topic, admin, produce):
    """The job's login may write there, and many records push older ones out where the topic is not to keep all.

    Who has it then writes receipts anew, and anchors them: of the older anchors, which would tell, none is left.
    """
    topic = new_topic(partitions=2)
    produce(topic, ["an anchor", "an anchor", "a newer one"], partition=1)
    admin.delete_records({TopicPartition(topic, 1): 2})
    findings = Findings()
    lines = read(InTopic(topic, cluster.connection), findings)
    assert [line for _, line in lines] == [b"a newer one"]
    (told,) = findings.found
    assert (told.kind, f"{topic}-1 begins at offset 2" in told.what) == ("unknown", True)


@pytest.mark.faults
def test_anchors_of_a_topic_that_was_compacted_are_told():
    """A newer anchor of the job takes its older ones away, and they have its key, the job's id.

    A start sees no such setting without a right that the job is not to have, and the topic's owner may turn it back.
    """
    fast = {"log.cleaner.backoff.ms": "100"}
    with DevCluster(settings=fast) as broker, KafkaClient(KafkaCluster(broker.bootstrap_servers)) as client:
        topic, at_once = "anchors", {"segment.ms": "100", "max.compaction.lag.ms": "200"}
        settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0001", "retention.ms": "-1"}
        client.admin.create_topics([NewTopic(topic, 1, 1, topic_configs=settings | at_once)])
        client.admin.wait_for_topics([topic])

        def told():
            anchor.append(client, topic, "an anchor", key="job")
            findings = Findings()
            read(InTopic(topic, client.cluster.connection), findings)
            return any("compacted" in each.what for each in findings.of("unknown"))

        wait_until(told, 60, "the compaction of anchors")


def test_rows_of_before_a_trail_that_begins_late_are_nobodys_fault(cluster, new_topic, tmp_path):
    """A claimed savepoint has the journal and no receipts: its own older rows, which the journal forgot, are told.

    So are those of the job that a new one was begun from. What comes behind the first receipt's rows is foreign still.
    """
    world = World(cluster, new_topic(partitions=1), tmp_path, knows_its_beginning=False)
    world.commit(world.prepare(rows(900, 30)))
    world.epoch(7, rows(0, 10))
    report = world.audit()
    assert (report["good"], report["rows"], report["foreign"]) == (True, 10, 0)
    assert [t for t in whats(report, "note") if t.startswith("30 records") and "before the first receipt" in t]
    world.commit(world.prepare(rows(500, 20)))
    assert world.audit()["foreign"] == 20
    world.close()


@pytest.mark.faults
def test_rows_that_are_not_there_are_missing(world):
    """A decided transaction that somebody has aborted behind the job's back."""
    world.epoch(0, rows(0, 20))
    world.epoch(1, rows(20, 20), rows(40, 5), lost=True)
    world.epoch(2, rows(60, 20))
    report = world.audit()
    assert (report["missing"], report["rows"], report["good"]) == (25, 40, False)
    first, second = sorted(map(str, world.handles[1]))
    told = sorted(whats(report, "missing"))
    assert told[0].startswith(f"sink out, epoch 1, transaction {first}: ")
    assert told[1].startswith(f"sink out, epoch 1, transaction {second}: ")
    assert sum(" rows are not there" in each for each in told) == 2


@pytest.mark.faults
def test_what_retention_took_is_unknown_and_not_missing(world, admin):
    """The log begins behind an epoch's rows: nobody can say what they were."""
    world.epoch(0, rows(0, 100))
    world.epoch(1, rows(100, 100))
    admin.delete_records({TopicPartition(world.topic, 0): 20, TopicPartition(world.topic, 1): 20})
    report = world.audit()
    assert report["good"]
    assert report["missing"] == 0
    assert report["unknown"] == 40
    assert "begins at offset 20 now" in whats(report, "unknown")[0]
    assert report["rows"] == 100


@pytest.mark.faults
def test_a_topic_that_was_made_again_is_unknown(world, admin):
    """Its rows are other rows' places."""
    world.epoch(0, rows(0, 10))
    admin.delete_topics([world.topic])
    wait_until(lambda: world.topic not in world.client.topics([world.topic]), what="the topic's end")
    admin.create_topics([NewTopic(world.topic, 2, 1)])
    wait_until(lambda: world.topic in world.client.topics([world.topic]), what="the topic")
    report = world.audit()
    assert report["unknown"] == 10
    assert "was made again" in whats(report, "unknown")[0]


@pytest.mark.faults
def test_an_open_transaction_of_somebody_keeps_rows_from_being_seen(world):
    """Readers do not see what lies behind it: that is unknown, with the offset at which they stop."""
    world.epoch(0, rows(0, 10))
    other = world.prepare(rows(900, 10))
    world.epoch(1, rows(10, 50))
    report = world.audit(patience_s=0.5)
    assert report["missing"] == 0
    assert report["unknown"] > 0
    assert "a transaction is open there" in whats(report, "unknown")[0]
    transactions.abort(world.client, [other.handle])
    assert world.audit()["findings"] == []


@pytest.mark.faults
def test_beside_a_running_job_the_newest_epoch_is_nobodys_fault(world):
    """Decided and committed, and its receipt is not written yet: neither foreign nor missing."""
    world.epoch(0, rows(0, 10))
    world.epoch(1, rows(10, 10), receipted=False)
    report = world.audit()
    assert report["findings"] == []
    assert (report["epochs"], report["rows"]) == (1, 10)


class Looked(OnDisk):
    """A checkpoint's files, of which the trail is read a second time before something happens."""

    def __init__(self, folder, then):
        super().__init__(folder)
        self.left, self.then = 2, then

    def contents(self, folder, names):
        found = super().contents(folder, names)
        if folder == "onceflow/audit":
            self.left -= 1
            if self.left == 0:
                self.then()
        return found


@pytest.mark.parametrize("receipted", [True, False])
def test_what_was_open_and_is_committed_before_it_is_read_is_not_foreign(world, receipted):
    """Its records lie before the ends that were looked up, and receipts and journal knew nothing of it then."""
    world.epoch(0, rows(0, 10))
    held = [world.prepare(rows(10, 20))]
    files = Looked(world.folder, lambda: world.finish(1, held, [rows(10, 20)], receipted=receipted))
    report = world.audit(files=files)
    assert files.left < 1
    assert report["findings"] == []
    assert (report["epochs"], report["rows"]) == (1, 10)
    assert world.audit()["findings"] == []


def test_what_nobody_decides_is_foreign_whenever_it_is_committed(world):
    """Also where it is committed behind the second look at the receipts."""
    world.epoch(0, rows(0, 10))
    strange = world.prepare(rows(10, 20))
    report = world.audit(files=Looked(world.folder, lambda: world.commit(strange)))
    assert (report["good"], report["foreign"]) == (False, 20)


def test_a_receipt_that_is_laid_there_to_be_believed_is_told(cluster, new_topic, tmp_path):
    """Behind the second look, of a transaction that nobody decided: the receipt itself is the finding."""
    world = World(cluster, new_topic(partitions=2), tmp_path, key=KEY)
    world.epoch(0, rows(0, 10))
    strange = world.prepare(rows(10, 20))

    def lay():
        world.commit(strange)
        trail = world.folder / "onceflow" / "audit"
        (file,) = trail.glob("*")
        body = json.loads(file.read_text().splitlines()[-1])
        (p,) = body["participants"]
        own = {"producer_id": strange.handle.producer_id, "producer_epoch": strange.handle.producer_epoch}
        forged = body | {"number": body["number"] + 1, "epoch": 1, "before": body["hash"], "hash": "0" * 64}
        forged["participants"] = [p | {"transaction": p["transaction"] | own}]
        with file.open("a") as trail_file:
            trail_file.write(json.dumps(forged) + "\n")

    report = world.audit(key=KEY, files=Looked(world.folder, lay))
    world.close()
    assert not report["good"]
    assert any("does not have its hash" in told for told in whats(report, "receipt"))


def test_a_stranger_behind_what_is_known_by_now_is_foreign(cluster, new_topic, tmp_path):
    """What is before the first rows of the receipts that are kept is a note; what is behind the job's own is not."""
    world = World(cluster, new_topic(partitions=2), tmp_path, knows_its_beginning=False)
    of_key = {}
    for key in (b"%d" % n for n in range(20)):
        prepared = world.prepare([(key, b"x")])
        of_key.setdefault(prepared.to_json()["partitions"][0][1], key)
        transactions.abort(world.client, [prepared.handle])
    mine, theirs = [(of_key[1], b"mine")], [(of_key[1], b"theirs")] * 5
    world.epoch(0, [(of_key[0], b"first")])
    held = [world.prepare(mine)]
    strange = world.prepare(theirs)

    def then():
        world.finish(1, held, [mine])
        world.commit(strange)

    report = world.audit(files=Looked(world.folder, then))
    world.close()
    assert (report["good"], report["foreign"]) == (False, 5)


@pytest.mark.faults
def test_a_cluster_that_is_not_reached_leaves_all_unknown(world):
    """And says so; it does not pass for good rows."""
    world.epoch(0, rows(0, 10))
    world.cluster = KafkaCluster("127.0.0.1:1")
    report = world.audit()
    assert (report["rows"], report["unknown"]) == (0, 10)
    assert "connection refused" in whats(report, "unknown")[0]


@pytest.mark.faults
def test_other_producers_with_one_name_of_a_topic_are_told_apart(world, cluster):
    """Two jobs share a topic: what is not ours is counted apart, and ours is proven."""
    producer = Producer(cluster.for_librdkafka() | {"transactional.id": f"other-{uuid.uuid4().hex}"})
    producer.init_transactions()
    for number in range(3):
        world.epoch(number, rows(10 * number, 10))
        producer.begin_transaction()
        producer.produce(world.topic, b"theirs")
        producer.commit_transaction()
    report = world.audit()
    assert (report["rows"], report["foreign"]) == (30, 3)
