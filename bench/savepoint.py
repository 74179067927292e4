"""How long a job waits for a savepoint of about 1 GB of state: ``python -m bench.savepoint``.

Must not know: how a savepoint is taken. State is made by Spark, with the state store that jobs have; then savepoints
are taken of it, each time anew. ``held`` is what a job's next epoch waits; the rest is done beside the job.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench import machine
from pyspark.sql import DataFrame, SparkSession

from onceflow.checkpoint.identity import JobIdentity, create_identity
from onceflow.checkpoint.place import Place
from onceflow.operations.savepoints.writing import create, dispose, export
from onceflow.spark.session import PINNED
from onceflow.twophase.layout import Layout
from onceflow.twophase.records import LayoutRecord

ROWS, EPOCHS, ROUNDS = 800_000, 4, 5
RESULTS = Path(__file__).resolve().parent / "results" / "savepoint.json"


def state(folder: Path) -> None:
    """A checkpoint whose state is some 300 bytes for each of ROWS * EPOCHS keys, that do not pack well."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder: Any = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in (dict(PINNED) | {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "3g"}).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    source = session.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS).load()
    words = [f"sha2(concat('{n} ', value), 512)" for n in range(4)]
    frame = source.selectExpr("value", f"concat({', '.join(words)}) as word").dropDuplicates(["value", "word"])
    writer = frame.writeStream.outputMode("append").option("checkpointLocation", f"file:{folder}")
    query = writer.foreachBatch(_read).trigger(processingTime="0 seconds").start()
    while not (folder / "commits" / str(EPOCHS - 1)).exists():
        if query.exception() is not None:
            raise query.exception()
        time.sleep(0.2)
    query.stop()
    session.stop()


def _read(batch: DataFrame, _: int) -> None:
    batch.write.format("noop").mode("append").save()


def main() -> None:
    """Make the state, take savepoints of it, and write down how long each took."""
    head = machine.head()
    root = Path(tempfile.mkdtemp(prefix="onceflow-savepoint-"))
    try:
        state(root / "checkpoint")
        place = Place.at(root / "checkpoint", retain=100)
        place.ours.make()
        place.records.make()
        create_identity(place.ours, JobIdentity("0" * 12, place.uri, "none", "onceflow"))
        place.journal.start("0" * 12)
        place.journal.append(LayoutRecord(1, Layout()))
        runs = []
        for number in range(ROUNDS):
            to = root / f"savepoint-{number}"
            taken = create(place, to)
            began = time.monotonic()
            export(to, root / "copy")
            copied_s = time.monotonic() - began
            runs.append(
                {
                    "held_s": round(taken.held_s, 4),
                    "took_s": round(taken.took_s, 2),
                    "verified_and_copied_s": round(copied_s, 2),
                    "files": len(taken.manifest.files),
                    "bytes": taken.manifest.size,
                }
            )
            print(runs[-1], flush=True)
            dispose(root / "copy")
            dispose(to)
        results = head | {"keys": ROWS * EPOCHS, "seed": "none", "runs": runs}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
