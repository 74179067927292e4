"""``onceflow sql`` as people call it, as processes of their own; marked `faults`, since each starts Spark."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.sql_jobs import read

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults]

SCRIPT = """
SET 'onceflow.source.max-ahead' = 'none';
CREATE TABLE words (word STRING, n INT) WITH (
    'connector' = 'kafka', 'topic' = '{IN}', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
);
CREATE TABLE loud (word STRING) WITH (
    'connector' = 'kafka', 'topic' = '{LOUD}', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json'
);
CREATE TABLE seen (word STRING, n INT) WITH ('connector' = 'print', 'print-identifier' = 'seen');
CREATE TEMPORARY FUNCTION twice AS 'tests.sql.own.double' LANGUAGE PYTHON;
"""
JOBS = """
INSERT INTO loud SELECT UPPER(word) FROM words;
INSERT INTO seen SELECT word, CAST(twice(n) AS INT) FROM words;
"""


@pytest.fixture
def onceflow(cluster, tmp_path):
    """``onceflow("sql", …)`` as a process that has ended."""

    def run(*arguments):
        flags = [
            f"onceflow.kafka.bootstrap.servers={cluster.bootstrap_servers}",
            f"execution.checkpointing.dir={tmp_path}",
        ]
        told = [part for flag in flags for part in ("-D", flag)]
        return subprocess.run(
            [sys.executable, "-m", "onceflow", *arguments, *told],
            capture_output=True,
            text=True,
            check=False,
            timeout=250,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    return run


def test_two_inserts_are_two_jobs_each_a_process_of_its_own(onceflow, cluster, new_topic, produce, tmp_path):
    """Both run to their ends; rows are written once, or printed, and a function of ours is called."""
    source, loud = new_topic(), new_topic()
    produce(source, [json.dumps({"word": word, "n": n}) for n, word in enumerate(("a", "b"))])
    file = tmp_path / "two.sql"
    file.write_text((SCRIPT + JOBS).replace("{IN}", source).replace("{LOUD}", loud))
    ended = onceflow("sql", str(file))
    assert ended.returncode == 0, ended.stderr
    assert "the script makes 2 jobs" in ended.stderr
    assert "seen> +I[b, 2]" in ended.stderr
    assert sorted(value["word"] for _, value in read(cluster, loud)) == ["A", "B"]


def test_a_select_prints_its_rows_and_a_check_writes_nothing(onceflow, cluster, new_topic, produce, tmp_path):
    """-e with a SELECT prints rows and ends where its tables do; --check asks real topics, and starts nothing."""
    source, loud = new_topic(), new_topic()
    produce(source, [json.dumps({"word": "a", "n": 1})])
    file = tmp_path / "words.sql"
    file.write_text(SCRIPT.replace("{IN}", source).replace("{LOUD}", loud))
    shown = onceflow("sql", str(file), "-e", "SELECT word, n + 1 AS more FROM words")
    assert shown.returncode == 0, shown.stderr
    assert "+I[a, 2]" in shown.stdout

    checked = onceflow("sql", "--check", str(file), "-e", "INSERT INTO loud SELECT word FROM words")
    assert checked.returncode == 0, checked.stderr
    assert "job insert-into_loud would start" in checked.stdout
    assert not read(cluster, loud)


def test_a_select_says_what_it_leaves_out_what_it_keeps_and_why_it_fails(onceflow, new_topic, produce, tmp_path):
    """Malformed records are counted with the first one's place; rows behind the watermark too; an error is ours."""
    source = new_topic(1)
    values = [{"word": "a", "n": 1}, None, {"word": "b", "n": 120}]
    produce(source, ["{" if value is None else json.dumps(value) for value in values])
    script = SCRIPT.replace("{IN}", source).replace("{LOUD}", "loud")
    timed = "n INT, ts AS TO_TIMESTAMP_LTZ(n, 0), WATERMARK FOR ts AS ts)"
    skipping = script.replace("n INT)", timed, 1).replace("'format' = 'json',", "'format' = 'json', {SKIP}", 1)
    file = tmp_path / "words.sql"
    file.write_text(skipping.replace("{SKIP}", "'json.ignore-parse-errors' = 'true',"))
    counts = "SELECT window_start, COUNT(*) FROM TUMBLE(TABLE words, DESCRIPTOR(ts), INTERVAL '1' MINUTE)"
    shown = onceflow("sql", str(file), "-e", f"{counts} GROUP BY window_start, window_end")
    assert shown.returncode == 0, shown.stderr
    assert "-- 1 malformed records" in shown.stdout
    assert f"topic {source}, partition 0, offset 1" in shown.stdout
    assert "+I[1970-01-01 00:00:00, 1]" in shown.stdout
    assert "-- the watermark is at 1970-01-01T00:02:00.000Z" in shown.stdout
    assert "(1 rows are in the state)" in shown.stdout

    refused = onceflow("sql", str(file), "-e", "SELECT CAST(word AS INT) FROM words")
    assert refused.returncode == 1, refused.stdout
    assert "the query ended: [CAST_INVALID_INPUT]" in refused.stderr
    file.write_text(script)
    stopped = onceflow("sql", str(file), "-e", "SELECT word FROM words")
    assert stopped.returncode == 1, stopped.stdout
    assert f"topic {source}, partition 0, offset 1" in stopped.stderr.partition("error: ")[2]
    for ended in (refused, stopped):
        assert "ScanRelation" not in ended.stderr.partition("error: ")[2]


def test_a_missing_topic_and_a_misspelt_option_end_a_check_with_1(onceflow, cluster, new_topic, tmp_path):
    """What is wrong is told by line and column, or by the topic's name, and the exit code is 1."""
    file = tmp_path / "wrong.sql"
    file.write_text("CREATE TABLE t (a INT) WITH ('connector' = 'kafka',\n  'topics' = 't', 'format' = 'json');")
    ended = onceflow("sql", "--check", str(file))
    assert ended.returncode == 1
    assert "line 2, column 3: there is no option 'topics'" in ended.stderr
    assert "did you mean topic?" in ended.stderr
    file.write_text(
        SCRIPT.replace("{IN}", "nowhere").replace("{LOUD}", new_topic()) + JOBS.partition("\nINSERT INTO seen")[0]
    )
    ended = onceflow("sql", "--check", str(file))
    assert ended.returncode == 1
    assert "there is no topic nowhere" in ended.stderr
