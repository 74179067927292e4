"""A running job's lag as Kafka's own tool shows it, and its figures and health, over one life of one process."""

import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
import uuid

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from onceflow.local.jars import java_executable, tools_jars
from tests.support.harness import Pipeline, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

GROUP = "onceflow-lag-copy"


def told(process):
    return process.log.read_text()


def port_of(process):
    """Where the job says that it answers."""
    found = []
    said = re.compile(r"metrics at http://127\.0\.0\.1:(\d+)/metrics")
    wait_until(lambda: found.extend(said.findall(told(process))) or found, what="a port")
    return found[0]


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def figures(port):
    """Each series by its name and the values of its labels, in the order of these."""
    families = text_string_to_metric_families(get(port, "/metrics")[1])
    return {(s.name.removeprefix("onceflow_"), *s.labels.values()): s.value for f in families for s in f.samples}


def shown(cluster, topic):
    """What ``kafka-consumer-groups --describe`` prints of the group: by partition of the topic, offset and lag."""
    command = [java_executable(), "-XX:TieredStopAtLevel=1", "-cp", os.pathsep.join(map(str, tools_jars()))]
    command += ["org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe", "--group", GROUP]
    command += ["--bootstrap-server", cluster.bootstrap_servers]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    lines = [line.split() for line in done.stdout.splitlines()]
    header = next((line for line in lines if "CURRENT-OFFSET" in line), [])
    named = [dict(zip(header, line, strict=False)) for line in lines if len(line) >= len(header) > 0]
    return {n["PARTITION"]: (int(n["CURRENT-OFFSET"]), int(n["LAG"])) for n in named if n["TOPIC"] == topic}


def has_lag(p, records):
    """Both partitions have offsets, and the group is so many records behind."""
    found = shown(p.cluster, p.source).values()
    return len(found) == 2 and all(offset > 0 for offset, _ in found) and sum(lag for _, lag in found) == records


def test_a_running_job_shows_its_lag_its_figures_and_whether_it_is_ready(cluster, new_topic, tmp_path):
    """Kafka's own tool shows how far it is behind; a group with a member is warned of and costs nothing else.

    Its second epoch fails before its decision, and the job is started again in the process: the figures go on.
    """
    named = {
        "ONCEFLOW__METRICS__PORT": "0",
        "ONCEFLOW__RESTART_STRATEGY__TYPE": "fixed-delay",
        "ONCEFLOW__RESTART_STRATEGY__FIXED_DELAY__DELAY": "0 s",
        "ONCEFLOW_CRASH": "D4@1:fail",
    }
    p = Pipeline(cluster, new_topic(2), new_topic(2), tmp_path / "checkpoint", per_epoch=100, environment=named)
    p.send(300)
    process = p.start(UNTIL="stopped")
    try:
        port = port_of(process)
        assert get(port, "/livez")[0] == 200
        status, why = get(port, "/ready")
        assert (status, json.loads(why)["reasons"]) == (503, ["the job is STARTING"])
        wait_until(lambda: get(port, "/ready")[0] == 200, 120, "ready")
        see_the_lag(p)
        see_a_member_of_the_group(p, process, port)
        wait_until(lambda: figures(port)["records_out_total", p.sink] == len(p.sent), what="the last epoch")
        assert get(port, "/ready")[0] == 200
        compare_figures(p, figures(port))
    finally:
        process.send_signal(signal.SIGTERM)
        ended = p.end(process)
    assert ended.code == 143, ended.log
    warnings = [line for line in ended.log.splitlines() if f"not published to group {GROUP}" in line]
    assert len(warnings) == 1
    assert "the group has members" in warnings[0]
    p.check()


def see_the_lag(p):
    """Records of an open transaction cannot be read yet: so the lag stays, for as long as one wants to look."""
    producer = Producer(p.cluster.for_librdkafka() | {"transactional.id": f"held-{uuid.uuid4().hex}"})
    producer.init_transactions()
    producer.begin_transaction()
    held = [(b"k", json.dumps({"held": i}).encode()) for i in range(7)]
    for key, value in held:
        producer.produce(p.source, value, key, partition=0)
    producer.flush()
    wait_until(lambda: has_lag(p, 7), what="seven records behind")
    producer.commit_transaction()
    p.sent += held
    wait_until(lambda: has_lag(p, 0), what="no lag")


def see_a_member_of_the_group(p, process, port):
    """Kafka takes the group's offsets from its member alone: that is said and counted, and the job goes on."""
    consumer = Consumer(p.cluster.for_librdkafka() | {"group.id": GROUP, "enable.auto.commit": False})
    consumer.subscribe([p.source])
    wait_until(lambda: consumer.poll(0.1) or consumer.assignment(), what="a member")
    p.send(300)  # three epochs: of what may pass the second failure is told
    wait_until(lambda: figures(port)["offset_publishing_failures_total",] >= 2, what="the refusals")
    consumer.close()
    p.send(100)
    wait_until(lambda: f"offsets are published to group {GROUP} again" in told(process), what="the lag again")


def compare_figures(p, found):
    """What is told is what the journal and the topics have."""
    decisions = p.decisions()
    assert found["job_info", "copy"] == found["job_state", "RUNNING"] == found["restarts_total",] == 1
    assert found["incarnation",] == 2
    assert sum(count for name, count in found.items() if name[0] == "checkpoints_failed_total") == 1
    completed = found["checkpoints_completed_total",]
    assert found["last_checkpoint_epoch",] == completed - 1
    assert found["checkpoint_duration_seconds_count",] == completed
    assert found["checkpoint_phase_duration_seconds_count", "commit"] == len(decisions)
    assert found["participants_total", "committed"] == sum(len(each["participants"]) for each in decisions)
    assert found["participants_total", "aborted"] >= 1
    assert found["transactions_open",] == 0
    assert found["records_in_total", f"topic {p.source}"] == len(p.sent)
    assert found["source_lag_records", "0", p.source] == found["source_lag_records", "1", p.source] == 0
