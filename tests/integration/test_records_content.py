"""A record whose value the plan cannot take: the job ends for a person, and the value stands nowhere."""

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
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text(f'{{"text": "{VALUE}"}}\n')
    text = JOB.replace("EXPRESSION", EXPRESSIONS[error]).replace("FOLDER", repr(str(tmp_path)))
    (tmp_path / "job.py").write_text(text.replace("DATABASE", repr(f"sqlite:///{tmp_path}/bank.db")))
    command = [sys.executable, str(tmp_path / "job.py"), "--bounded"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1, ended.stderr
    assert ended.stderr.count("MalformedRecordError") == 1, ended.stderr
    assert error in ended.stderr
    if error == "CAST_INVALID_INPUT":  # Spark knows where the others are in its optimized plan alone
        assert "job.py:" in ended.stderr
    assert "\x1b" not in ended.stderr + ended.stdout
    assert CANARY not in ended.stderr + ended.stdout
    kept = [each for each in (tmp_path / "cp").rglob("*") if each.is_file()]
    assert kept
    assert not [each for each in kept if CANARY.encode() in each.read_bytes()]
