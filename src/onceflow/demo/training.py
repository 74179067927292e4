"""Makes Java's class archive: the fraud job, run on a little input in a Java that writes its classes down at its end.

Must not know: what is done with the archive. ``python -m onceflow.demo.training FOLDER ARCHIVE`` is the training run.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from onceflow import class_archive
from onceflow.devcluster import DevCluster
from onceflow.errors import SetupError
from onceflow.jars import java_executable, spark_jars

_TOPIC = "transactions"  # as the job names it
_PAYMENTS = 5_000
_WITHIN_S = 300
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def make_archive() -> tuple[Path, bool]:
    """Make the archive that fits this Java and this PySpark; where it is, and whether it was made now.

    Raises:
        SetupError: Java made none, or does not take it.
    """
    jars = spark_jars()
    found = class_archive.find(jars)
    if found is not None:
        return found, False
    with tempfile.TemporaryDirectory(prefix="training-", dir=class_archive.folder()) as name, DevCluster() as cluster:
        made = Path(name) / "made.jsa"
        _fill(cluster.bootstrap_servers)
        _run([sys.executable, "-m", __name__, name, str(made)], KAFKA=cluster.bootstrap_servers)
        if not made.is_file():
            raise _failed("Java wrote no class archive")
        _run([java_executable(), *class_archive.options(made), "-version"])
        return class_archive.keep(made, jars), True


def _run(command: list[str], **environment: str) -> None:
    ran = subprocess.run(
        command,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    if ran.returncode:
        last = "\n    ".join((ran.stdout + ran.stderr).splitlines()[-6:])
        raise _failed(f"{' '.join(command[:3])} ended with {ran.returncode}:\n    {last}")


def _failed(what: str) -> SetupError:
    return SetupError(
        f"No class archive: {what}",
        harmless="always: jobs run without one, and start some seconds later",
        cause="a Java without class-data sharing or without an archive of its own (java -Xshare:dump makes that)",
        action="mend the cause and run `onceflow class-archive` again",
    )


def _fill(servers: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics([NewTopic(_TOPIC, 2, 1)]).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(_PAYMENTS):
        at = _BEGIN + timedelta(milliseconds=100 * number)
        payment = {"user_id": f"user-{number % 40}", "amount": "12.50", "event_time": at.isoformat()}
        producer.produce(_TOPIC, json.dumps(payment), payment["user_id"])
    producer.flush(60)


def _train(folder: str, archive: str) -> None:
    """Run the job twice, as anew and as restarted, in one Java, and let that write the archive."""
    from pyspark import SparkContext  # noqa: PLC0415 - only in the training run

    import onceflow as of  # noqa: PLC0415
    from onceflow.demo import fraud  # noqa: PLC0415

    sink = of.KafkaSink(fraud.kafka, "alerts", key="user_id", create_topic=of.NewTopic(partitions=2))
    java = {"spark.driver.defaultJavaOptions": f"-XX:ArchiveClassesAtExit={archive}"}
    for _ in range(2):
        job = of.Job("training", checkpointing=of.Checkpointing(f"{folder}/checkpoint", interval="1s"), spark=java)
        job.stream(sinks=[sink])(fraud.alerts)
        job.run(until="caught-up")
    gateway: Any = SparkContext._gateway  # noqa: SLF001 - nothing public ends PySpark's Java and waits for it
    with contextlib.suppress(Exception):  # it does not answer any more
        gateway.jvm.java.lang.System.exit(0)
    gateway.proc.wait(_WITHIN_S)


if __name__ == "__main__":
    _train(*sys.argv[1:])
