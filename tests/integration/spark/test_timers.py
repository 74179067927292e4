"""Processing-time timers and a TTL go by the epoch's time in ``offsets/N``: each fires once, whatever dies."""

import json
import signal
from collections import Counter

import pytest
from pyspark.sql.streaming import StatefulProcessor

import onceflow as of
from onceflow.errors import ConfigurationError
from tests.support.advice import parts_of
from tests.support.harness import Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]

PATIENCE_S = 240


class Silent(StatefulProcessor):
    """A state class that keeps and writes nothing."""

    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
        return iter(())

    def close(self):
        pass


def keys_of(p):
    return Counter(json.loads(value)["key"] for _, value in p.read())


@pytest.mark.timeout(900)
def test_a_processing_time_timer_fires_once(cluster, new_topic, tmp_path, processes):
    """Killed where its rows are committed and its state is not: the timers of that epoch fire again, and write nothing.

    D7 comes in the first epoch that is decided, and only timers write here.
    """
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint", job="timers")
    p.send(500)
    expected = Counter(key.decode() for key, _ in dict(p.sent).items())
    # Epochs that only set timers reach D7 as well: the first that decides is found by its decision.
    dying = p.start(UNTIL="stopped", ONCEFLOW_CRASH="D6a")
    processes.append(dying)
    wait_until(lambda: dying.poll() is not None, PATIENCE_S, "the death")
    assert dying.returncode == -signal.SIGKILL
    p.mark.unlink()
    (decided,) = [d["epoch"] for d in p.decisions()]
    p.die_at(f"D7@{decided}", UNTIL="stopped")
    running = p.start(UNTIL="stopped")
    processes.append(running)
    wait_until(lambda: keys_of(p).total() >= expected.total(), PATIENCE_S, "a row for each key")
    running.send_signal(signal.SIGTERM)
    ended = p.end(running, PATIENCE_S)
    assert ended.code == 128 + signal.SIGTERM, ended.log
    assert keys_of(p) == expected
    assert "lost" not in {json.loads(value)["value"] for _, value in p.read()}
    assert p.open_transactions() == []


@pytest.mark.timeout(600)
def test_a_bounded_run_ends_though_its_timers_go_by_the_clock(cluster, new_topic, tmp_path):
    """Spark alone runs epochs without records for ever: it ends when all is read, and a later run fires what is due."""
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint", job="timers", per_epoch=200)
    p.send(500)
    ended = p.run_well()
    assert "a timer that is not due by then fires in a later run" in ended.log
    p.send(10)  # of keys that are known; to start takes longer than a timer waits
    p.run_well()
    assert keys_of(p) == Counter({key.decode() for key, _ in p.sent})
    assert p.open_transactions() == []


def test_a_query_of_its_callers_own_is_not_begun_where_it_would_never_end(spark, cluster, new_topic, tmp_path):
    """To whoever waits for it, what ends it in Spark's loop would be an error: it is refused, and nothing is made."""
    read = of.KafkaSource(cluster, new_topic(1), value=of.Text(), key=of.Text()).load(spark)
    timed = read.groupBy("key").transformWithState(Silent(), "key string", "Append", "ProcessingTime")
    sink = of.KafkaSink(cluster, new_topic(1), key="key")
    place = of.Checkpointing(str(tmp_path / "checkpoint"))
    with pytest.raises(ConfigurationError) as raised:
        of.start(timed, sinks=[sink], name="timed", checkpointing=place, until="caught-up")
    assert "make a Job of it" in parts_of(raised.value, ConfigurationError).action
    assert not (tmp_path / "checkpoint" / "onceflow" / "journal").exists()
