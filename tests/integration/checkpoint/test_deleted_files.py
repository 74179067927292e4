"""Parts of a checkpoint that somebody has deleted: each is refused before a start is journalled, or does no harm."""

import json
import shutil
from collections import Counter

import pytest
from pyspark.sql import functions as F  # noqa: N812

import onceflow as of
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.committer import KafkaCommitter
from onceflow.errors import CheckpointError
from tests.support.harness import read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]


class Job:
    """A job with three epochs of two records each, and what its output has to be."""

    def __init__(self, spark, cluster, topics, produce, folder, stateful):
        self.spark, self.cluster, self.produce, self.stateful = spark, cluster, produce, stateful
        self.source, self.sink = topics
        self.folder = folder / "checkpoint"
        self.sent = 0
        for _ in range(3):
            self.run()

    def run(self, *, records=2):
        """Some more records, and a run to the end."""
        self.produce(self.source, [f"v{self.sent + i}" for i in range(records)], key="k")
        self.sent += records
        frame = of.KafkaSource(self.cluster, self.source, value=of.Text(), key=of.Text()).load(self.spark)
        if self.stateful:
            frame = frame.groupBy("key").agg(F.count("*").alias("n"))
        query = of.start(
            frame.withColumn("kind", F.lit("row")),
            sinks=[of.KafkaSink(self.cluster, self.sink, key="key")],
            name="job",
            checkpointing=of.Checkpointing(self.folder, interval="100 ms"),
            output_mode="update" if self.stateful else "append",
            until="caught-up",
        )
        assert query.awaitTermination(120)

    def check(self):
        """Every record, or every count, is there once."""
        rows = [json.loads(value) for _, value in read_topic(self.cluster, self.sink)]
        if self.stateful:
            assert Counter(row["n"] for row in rows) == Counter(range(2, self.sent + 1, 2))
        else:
            assert Counter(row["value"] for row in rows) == Counter(f"v{i}" for i in range(self.sent))

    def files(self):
        return {p: p.read_bytes() for p in self.folder.rglob("*") if p.is_file() and p.suffix != ".crc"}

    def marked(self):
        """Wait until Kafka has the mark of the newest epoch."""
        job_id = json.loads((self.folder / "onceflow" / "job.json").read_text())["job_id"]
        epoch = newest(self.folder / "commits")
        told = (KafkaClient(self.cluster), self.sink, self.sink, "onceflow", job_id, 60_000)
        committer = KafkaCommitter(*told)
        wait_until(lambda: f'"epoch":{epoch}}}' in (committer.marks().read() or ""), what="the mark")
        committer.close()


def newest(folder) -> int:
    return max(int(p.name) for p in folder.iterdir() if p.name.isdigit())


def remove(folder, name):
    path = folder / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def remove_last(folder, name):
    """The newest numbered file of a folder, with Spark's checksum of it."""
    number = newest(folder / name)
    (folder / name / str(number)).unlink()
    (folder / name / f".{number}.crc").unlink(missing_ok=True)


def remove_last_record(folder, kind):
    """The journal's last record, which is of this kind."""
    last = max((folder / "onceflow" / "journal").glob("*.json"))
    assert json.loads(last.read_text())["kind"] == kind
    last.unlink()


@pytest.fixture(params=["stateless", "stateful"])
def job(request, spark, cluster, new_topic, produce, tmp_path):
    return Job(spark, cluster, (new_topic(1), new_topic(1)), produce, tmp_path, request.param == "stateful")


HARMLESS = {
    "offsets/": lambda folder: remove(folder, "offsets"),
    "the last of offsets/": lambda folder: remove_last(folder, "offsets"),
    "the last of commits/": lambda folder: remove_last(folder, "commits"),
    "the record of a decision that is done": lambda folder: remove_last_record(folder, "decide"),
    "sources/": lambda folder: remove(folder, "sources"),
}
REFUSED = {
    "commits/": lambda folder: remove(folder, "commits"),
    "metadata": lambda folder: remove(folder, "metadata"),
    "state/": lambda folder: remove(folder, "state"),
    "a state": lambda folder: remove(folder, "state/0"),
    "offsets/ without the journal's help": lambda folder: (remove(folder, "offsets"), remove(folder, "onceflow")),
}


@pytest.mark.parametrize("what", HARMLESS)
def test_what_can_be_made_again_does_no_harm(job, what):
    """It is in the journal, or Spark plans it anew: the job goes on, and every row is there once."""
    job.marked()
    HARMLESS[what](job.folder)
    job.run()
    job.check()
    job.run()
    job.check()


@pytest.mark.parametrize("what", REFUSED)
def test_what_nothing_can_make_again_is_refused_before_the_start(job, what, tmp_path):
    """In four parts, with the file's name; nothing is written, and put back from a copy the job goes on."""
    if "state" in what and not job.stateful:
        pytest.skip("it keeps none")
    job.marked()
    shutil.copytree(job.folder, tmp_path / "copy")
    REFUSED[what](job.folder)
    before = job.files()
    with pytest.raises(CheckpointError) as caught:
        job.run(records=0)
    assert job.files() == before
    error = caught.value
    assert all((error.what, error.harmless, error.cause, error.action))
    assert str(job.folder) in str(error)
    assert not error.retriable
    shutil.rmtree(job.folder)
    (tmp_path / "copy").rename(job.folder)
    job.run()
    job.check()


def test_the_record_of_the_last_start_is_missed(job):
    """Kafka knows of it: the message says that a start is missing, that no epoch is, and claimed the job goes on."""
    job.run(records=0)
    job.marked()
    remove_last_record(job.folder, "start")
    with pytest.raises(CheckpointError, match="misses a start of this job") as caught:
        job.run()
    assert "none is missing here" in caught.value.harmless
    assert 'takeover="claim"' in caught.value.action
