"""Makes Java's class archive: a job with windows, run on a little input in a Java that writes its classes down at last.

Must not know: what is done with the archive. ``python -m onceflow.archive.training FOLDER`` is the training run.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from onceflow.errors import SetupError
from onceflow.local import class_archive
from onceflow.local.devcluster import DevCluster
from onceflow.local.jars import java_executable, one_at_a_time, spark_jars
from onceflow.processes import kill_tree
from onceflow.spark.internals import end_java
from onceflow.spark.session import JAVA_IS_TOLD_BY, may_start_java_with

_TOPIC = "transactions"
_PAYMENTS = 5_000
_WITHIN_S = 300
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_SETTINGS = {"spark.master": "local[2]"}
_ARCHIVE, _CLASS_PATH = "new.jsa", "class-path"  # what the training run leaves in its folder


def make_archive(say: Callable[[str], object]) -> tuple[Path, bool]:
    """Make the archive that fits this Java and this PySpark, if it is not there.

    Args:
        say: Is told when it will take a while.

    Returns:
        Where it is, and whether it was made now.

    Raises:
        SetupError: Java made none, does not take it, or no job that is started like this would use one.
    """
    jars = spark_jars()
    if not may_start_java_with(jars, _SETTINGS):
        raise _failed(
            "jobs that are started in this environment would not use one",
            "SPARK_HOME, SPARK_CONF_DIR, PYSPARK_SUBMIT_ARGS or ONCEFLOW_JARS is set, PySpark has a conf folder, or "
            "Java's options name an archive",
        )
    with one_at_a_time("classes"):
        found = class_archive.find(jars)
        if found is not None:
            return found, False
        say("making Java's archive of Spark's classes: once for this installation, 180 MB, about 40 s")
        _run([java_executable(), "-Xshare:on", "-version"])  # a Java that has none of its own can make none
        work = class_archive.folder() / "training"
        shutil.rmtree(work, ignore_errors=True)  # of one that was killed
        work.mkdir(parents=True)
        try:
            with DevCluster() as cluster:
                _fill(cluster.bootstrap_servers)
                _run([sys.executable, "-P", "-m", __name__, str(work)], KAFKA=cluster.bootstrap_servers)
            use = [*class_archive.options(work / _ARCHIVE), "-cp", (work / _CLASS_PATH).read_text()]
            _run([java_executable(), "-Xshare:on", *use, "-version"])
            archive = class_archive.keep(work / _ARCHIVE, jars)
        except KafkaException as error:
            raise _failed("the training run's broker did not take its input", str(error)) from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
        class_archive.forget_old(archive)
        return archive, True


def _run(command: list[str], **environment: str) -> None:
    """Run it without what changes Spark or Java; nothing of it is left, however it ends."""
    clean = {
        name: value
        for name, value in os.environ.items()
        if name not in JAVA_IS_TOLD_BY and not name.startswith(("SPARK_", "PYSPARK_", "ONCEFLOW_CRASH"))
    }
    process = subprocess.Popen(
        command,
        env=clean | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said, _ = process.communicate(timeout=_WITHIN_S)
    except BaseException as error:
        kill_tree(process.pid)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise _failed(f"{command[0]} did not end in {_WITHIN_S} s", "a machine under load") from error
        raise
    if process.returncode:
        last = "\n    ".join(said.splitlines()[-12:])
        raise _failed(f"{' '.join(command[:3])} ended with {process.returncode}:\n    {last}")


def _failed(
    what: str, cause: str = "a Java without an archive of its own (`java -Xshare:dump` makes that)"
) -> SetupError:
    return SetupError(
        f"there is no class archive: {what}",
        harmless="always: jobs run without one, and start some seconds later",
        cause=cause,
        action="mend the cause and run `onceflow class-archive` again",
    )


def _fill(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic(_TOPIC, 2, 1)])[_TOPIC].result(60)
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for number in range(_PAYMENTS):
        at = _BEGIN + timedelta(milliseconds=100 * number)
        payment = {"user_id": f"user-{number % 40}", "amount": "12.50", "event_time": at.isoformat()}
        producer.produce(_TOPIC, json.dumps(payment), payment["user_id"])
    if left := producer.flush(60):
        raise _failed(f"{left} payments were not written in 60 s", "a machine under load")


def _train(folder: Path) -> int:
    """Run the job twice, as anew and as restarted, in one Java, and let that write the archive; how it ended."""
    from pyspark.sql import DataFrame, SparkSession  # noqa: PLC0415 - only in the training run's process
    from pyspark.sql import functions as F  # noqa: N812, PLC0415

    import onceflow as of  # noqa: PLC0415

    kafka = of.KafkaCluster(os.environ["KAFKA"])
    sink = of.KafkaSink(kafka, "alerts", key="user_id", create_topic=of.NewTopic(partitions=2))

    def counted(spark: SparkSession) -> DataFrame:
        """Windows, state, JSON, a watermark: the classes that most jobs load."""
        value = of.Json("user_id string, amount decimal(18,2), event_time timestamp")
        payments = of.KafkaSource(kafka, _TOPIC, value=value, on_malformed="skip").load(spark)
        windows = payments.withWatermark("event_time", "10 seconds").groupBy(
            F.window("event_time", "1 minute"), "user_id"
        )
        return windows.agg(F.count("*").alias("transactions"), F.sum("amount").alias("total")).where(
            "transactions > 10"
        )

    settings = _SETTINGS | {
        "spark.driver.extraClassPath": ":".join(map(str, spark_jars())),
        "spark.jars": "",
        "spark.driver.defaultJavaOptions": shlex.quote(f"-XX:ArchiveClassesAtExit={folder / _ARCHIVE}"),
    }
    for _ in range(2):
        job = of.Job("training", checkpointing=of.Checkpointing(folder / "checkpoint"), spark=settings)
        job.stream(sinks=[sink])(counted)
        job.main(until="caught-up")
    class_path, code = end_java(_WITHIN_S)
    (folder / _CLASS_PATH).write_text(class_path)
    return code


if __name__ == "__main__":
    sys.exit(_train(Path(sys.argv[1])))
