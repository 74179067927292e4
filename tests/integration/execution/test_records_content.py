"""A record whose value the plan cannot take: the job ends for a person, and the value stands nowhere."""

import re
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark]

JOB = """
import onceflow as of
from pyspark.sql import functions as F

sink = of.DatabaseSink(DATABASE, "rows", create_table=True)
restart = of.FixedDelay(attempts=3, delay="10 ms")
job = of.Job("poisoned", checkpointing=of.Checkpointing(FOLDER + "/cp"), restart=restart)

@job.stream(sinks=[sink])
def rows(spark):
    return spark.readStream.schema("text string").json(FOLDER + "/in").select(EXPRESSION)

job.main()
"""
CANARY = "IBAN DE00 CUSTOMER"
VALUE = rf"\u001b[2J{CANARY}\n2026-01-01 INFO forged"
EXPRESSIONS = {
    "CAST_INVALID_INPUT": 'F.col("text").cast("int").alias("n")',
    "CANNOT_PARSE_TIMESTAMP": 'F.to_timestamp("text", "yyyy").alias("n")',
    "INVALID_ARRAY_INDEX": 'F.expr("split(text, \' \')[99]").alias("n")',
}


@pytest.mark.parametrize(
    "error", ["CAST_INVALID_INPUT", *(pytest.param(e, marks=pytest.mark.faults) for e in list(EXPRESSIONS)[1:])]
)
def test_a_value_that_the_plan_cannot_take_ends_the_job_and_stands_nowhere(tmp_path, error):
    """Neither in the error, in Spark's log, in what is kept of failures, nor in a message to a terminal."""
    ended = run(tmp_path, EXPRESSIONS[error])
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.count("MalformedRecordError") == 1, ended.stderr
    assert error in ended.stderr
    if error == "CAST_INVALID_INPUT":  # Spark knows where the others are in its optimized plan alone
        assert "job.py:" in ended.stderr
    require_nowhere(tmp_path, ended)


@pytest.mark.faults
def test_a_value_that_a_function_cannot_take_stands_nowhere(tmp_path):
    """Python's own words of a ValueError repeat it; the function's line is told, which shows what it did."""
    ended = run(tmp_path, 'F.udf(lambda text: int(text), "int")("text").alias("n")')
    assert ended.returncode == 75, ended.stderr
    told = ended.stderr.partition("error: ")[2]
    assert told.startswith("epoch 0 failed before its decision: ValueError, at ")
    assert re.search(r"job\.py:\d+, in <lambda>: return spark\.readStream", told.splitlines()[0])
    require_nowhere(tmp_path, ended)


def run(folder, expression):
    """The job, over the one record, to its end."""
    (folder / "in").mkdir()
    (folder / "in" / "rows.json").write_text(f'{{"text": "{VALUE}"}}\n')
    text = JOB.replace("EXPRESSION", expression).replace("FOLDER", repr(str(folder)))
    (folder / "job.py").write_text(text.replace("DATABASE", repr(f"sqlite:///{folder}/bank.db")))
    return subprocess.run([sys.executable, str(folder / "job.py")], capture_output=True, text=True, check=False)


def require_nowhere(folder, ended):
    """The record's value is neither on the terminal nor in what the checkpoint keeps."""
    assert "\x1b" not in ended.stderr + ended.stdout
    assert CANARY not in ended.stderr + ended.stdout
    kept = [each for each in (folder / "cp").rglob("*") if each.is_file()]
    assert kept
    assert not [each for each in kept if CANARY.encode() in each.read_bytes()]
