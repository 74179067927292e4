"""Java's class archive: what is made is used, and what is damaged is in nobody's way."""

import shutil

import pytest

from onceflow.archive.training import make_archive
from onceflow.local import class_archive
from onceflow.local.jars import cache_folder, spark_jars
from tests.support.harness import Pipeline

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

CLASSES = ("org.apache.spark.SparkContext", "org.apache.spark.sql.kafka010.KafkaSourceProvider")


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    pipeline = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint")
    log = f"-Xlog:class+load:file={tmp_path}/classes-%p.txt"
    pipeline.environment = {"JAVA_TOOL_OPTIONS": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {log}"}
    pipeline.send(2_000)
    return pipeline


def sources(tmp_path):
    """By class, where the job's Java took it from."""
    lines = [line.split(" source: ") for file in tmp_path.glob("classes-*.txt") for line in file.open()]
    return {line[0].split()[-1]: line[1].strip() for line in lines if len(line) == 2}


@pytest.mark.faults
def test_a_job_takes_its_classes_from_the_archive(pipeline, tmp_path):
    """Spark's own and the connector's, once an archive was made; making it again does nothing."""
    archive, _ = make_archive(print)
    assert make_archive(print) == (archive, False)
    pipeline.run_well()
    pipeline.check()
    found = sources(tmp_path)
    assert {found[name] for name in CLASSES} == {"shared objects file (top)"}


@pytest.mark.faults
def test_a_damaged_archive_is_left_aside(pipeline, tmp_path, monkeypatch):
    """A block that the disk lost: Java looks at the content before it uses it, and the job runs."""
    archive, _ = make_archive(print)
    own = tmp_path / "cache"
    own.mkdir()
    (own / "jars").symlink_to(cache_folder() / "jars")
    monkeypatch.setenv("ONCEFLOW_CACHE", str(own))
    damaged = own / "made.jsa"
    shutil.copyfile(archive, damaged)
    with damaged.open("r+b") as file:
        file.seek(damaged.stat().st_size // 3)
        file.write(b"\xff" * 4096)
    damaged = class_archive.keep(damaged, spark_jars())
    ended = pipeline.run_well()
    pipeline.check()
    assert f"failed to load: {damaged}" in ended.log
    assert "shared objects file (top)" not in sources(tmp_path).values()
