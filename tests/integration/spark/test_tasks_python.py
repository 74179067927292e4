"""The Python of the tasks, where a program makes its session itself and nobody has said which it is."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import onceflow
from onceflow.local.jars import spark_jars
from tests.support.harness import read_topic

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

PROGRAM = """
import onceflow as of
from pyspark.sql import SparkSession, functions as F
from pyspark.sql.types import StringType

spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.jars", JARS)
spark = spark.config("spark.sql.shuffle.partitions", "2").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
kafka = of.KafkaCluster(KAFKA)
rows = of.KafkaSource(kafka, SOURCE, value=of.Json("n int"), start="earliest").load(spark).select("n")
FUNCTION
query = of.start(rows, sinks=[of.KafkaSink(kafka, SINK)], name="own", checkpointing=of.Checkpointing(FOLDER),
    until="caught-up")
print("it runs", flush=True)
query.awaitTermination()
"""
OWN = 'rows = rows.withColumn("text", F.udf(lambda n: str(n), StringType())("n"))'


@pytest.fixture
def bare(tmp_path):
    """A Python that has nothing of what onceflow needs, first in the PATH as ``python3``."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    return tmp_path / "bare" / "bin"


@pytest.fixture
def run(cluster, new_topic, produce, tmp_path, bare):
    """``run(function=…, PYSPARK_PYTHON=…)`` runs the program by the driver's Python, as without an activated one."""
    source, sink = new_topic(), new_topic()
    produce(source, [json.dumps({"n": 1})])

    def do(function="", **variables):
        given = {
            "JARS": ",".join(map(str, spark_jars())),
            "KAFKA": cluster.bootstrap_servers,
            "SOURCE": source,
            "SINK": sink,
            "FOLDER": str(tmp_path / "checkpoint"),
        }
        text = PROGRAM.replace("FUNCTION", function)
        for name, value in given.items():
            text = text.replace(name, repr(value))
        (tmp_path / "own.py").write_text(text)
        environment = {name: value for name, value in os.environ.items() if name != "PYSPARK_PYTHON"}
        environment["PATH"] = f"{bare}{os.pathsep}{environment['PATH']}"
        environment["PYTHONPATH"] = str(Path(onceflow.__file__).parents[1])  # without what it needs
        ended = subprocess.run(
            [sys.executable, "own.py"],
            cwd=tmp_path,
            env=environment | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=180,
        )
        return ended, [json.loads(value) for _, value in read_topic(cluster, sink)]

    return do


@pytest.mark.faults
def test_tasks_of_a_local_session_run_in_the_drivers_python(run):
    """The environment is not activated, and python3 is another one: the rows are written all the same."""
    ended, rows = run()
    assert ended.returncode == 0, ended.stdout
    assert rows == [{"n": 1}]


def test_another_python_is_refused_before_it_is_said_that_the_job_runs(run, bare):
    """By its setting, whose value is told; nothing has been made."""
    ended, rows = run(PYSPARK_PYTHON=str(bare / "python3"))
    assert "it runs" not in ended.stdout
    assert "the Python that runs the tasks has no module" in ended.stdout
    assert f"PYSPARK_PYTHON is {bare / 'python3'}" in ended.stdout
    assert rows == []


@pytest.mark.faults
def test_a_function_that_was_made_for_another_python_is_refused_as_well(run):
    """It keeps the Python of when it was used, before the start could say another."""
    ended, rows = run(OWN)
    assert "it runs" not in ended.stdout
    assert f"set PYSPARK_PYTHON={sys.executable}" in ended.stdout
    assert rows == []
