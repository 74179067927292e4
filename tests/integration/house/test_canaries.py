"""Canaries: a secret of its own goes in by each way that a job has, and is looked for at each way out."""

import json
import os
import secrets
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

import onceflow as of
from onceflow.local.devcluster import DevCluster
from tests.support.harness import JOBS, kafka_asked_for, wait_until
from tests.support.postgres import PASSWORD, free_port, running

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]

FILE = JOBS / "canaries_job.py"
COMMANDS = [
    ["list"], ["info", "canaries"], ["exceptions", str(FILE)], ["checkpoints", str(FILE)], ["config", str(FILE)],
    ["check", str(FILE)], ["doctor", str(FILE)], ["txn", "list", str(FILE)], ["audit", str(FILE)],
    ["savepoint", "create", str(FILE), "SAVED"], ["savepoint", "show", "SAVED"], ["savepoint", "verify", "SAVED"],
]  # fmt: skip


@pytest.fixture
def secret():
    """``secret(name)``: a new one; ``secret.all`` has them by their names."""
    made = {}

    def new(name):
        return made.setdefault(name, f"canary{secrets.token_hex(12)}")

    new.all = made
    return new


@pytest.fixture
def server():
    with running() as made:
        yield made


@pytest.fixture
def broker(secret):
    module = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    settings = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.login.plain.sasl.jaas.config": f'{module} user_job="{secret("Kafka password")}";',
    }
    with DevCluster(settings=settings, extra_listeners={"LOGIN": "SASL_PLAINTEXT"}, **kafka_asked_for()) as made:
        admin = of.KafkaCluster(made.bootstrap_servers).admin()
        admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1} for name in ("in", "out")})
        admin.wait_for_topics(["in", "out"])
        admin.close()
        yield made


def test_no_canary_comes_out(secret, server, broker, tmp_path, processes):
    """Logs at DEBUG, files, processes, HTTP pages, and what each command prints, with an epoch that has failed.

    No core is dumped with the rest.
    """
    (tmp_path / "key").write_text(secret("audit key") * 2)
    (tmp_path / "forward").write_text(json.dumps({"format": 1, "number": 1, "key": "ab" * 32}))
    for name in ("key", "forward"):
        (tmp_path / name).chmod(0o600)
    port = free_port()
    (tmp_path / "settings.toml").write_text(
        f'[metrics]\nport = {port}\n[spark]\n"hadoop.fs.azure.account.key.a" = "{secret("setting of a file")}"\n'
    )
    (tmp_path / "settings.toml").chmod(0o600)
    for folder in ("events", "run", "state"):
        (tmp_path / folder).mkdir(mode=0o700)
    password = secret("database password")
    environment = {
        "KAFKA": broker.bootstrap("LOGIN"),
        "CANARY_KAFKA": secret("Kafka password"),
        "DATABASE": server.url().replace(PASSWORD, password),
        "CHECKPOINT": str(tmp_path / "checkpoint"),
        "FAILED": str(tmp_path / "failed"),
        "SPARK": json.dumps(
            {
                "spark.hadoop.fs.s3a.secret.key": secret("setting of the job"),
                "spark.executorEnv.DB_PASS": secret("variable of executors"),
                "spark.eventLog.enabled": "true",
                "spark.eventLog.dir": (tmp_path / "events").as_uri(),
            }
        ),
        "AWS_SECRET_ACCESS_KEY": secret("variable of a store"),
        "ONCEFLOW_CONFIG": str(tmp_path / "settings.toml"),
        "ONCEFLOW_AUDIT_KEY_FILE": str(tmp_path / "key"),
        "ONCEFLOW_AUDIT_FORWARD_KEY_FILE": str(tmp_path / "forward"),
        "ONCEFLOW_AUDIT_ANCHOR": str(tmp_path / "anchors"),
        "ONCEFLOW__RESTART_STRATEGY__FIXED_DELAY__DELAY": "1 s",
        "ONCEFLOW__RESTART_STRATEGY__TYPE": "fixed-delay",
        "ONCEFLOW__RESTART_STRATEGY__FIXED_DELAY__ATTEMPTS": "3",
        "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
    }
    log = tmp_path / "job.log"
    with log.open("w") as out:
        job = subprocess.Popen(
            [sys.executable, "-m", "onceflow", "run", str(FILE)],
            env=os.environ | environment,
            stdout=out,
            stderr=subprocess.STDOUT,
            text=True,
        )
    processes.append(job)
    producer = Producer(of.KafkaCluster(broker.bootstrap_servers).for_librdkafka())
    for many, value in enumerate((b"one", b"poison"), 1):  # only a job that has done an epoch begins again by itself
        producer.produce("in", value)
        assert producer.flush(30) == 0
        wait_until(lambda many=many: rows_in(server) == many or job.poll() is not None, 180, f"{many} rows")
        assert job.poll() is None, log.read_text()[-4000:]
    shown = {f"process {each.pid}": " ".join(each.cmdline()) for each in tree(job.pid)}
    limits = [Path(f"/proc/{each.pid}/limits").read_text() for each in tree(job.pid)]
    shown |= {f"HTTP {path}": page(port, path) for path in ("/", "/livez", "/ready", "/metrics", "/%00", "/x?y")}
    for command in COMMANDS:
        words = [str(tmp_path / "saved") if word == "SAVED" else word for word in command]
        for more in ([], ["--output", "json"]):
            ran = onceflow(environment, *words, *more)
            shown[f"{command[:2]} {more} {ran.returncode}"] = ran.stdout + ran.stderr
            if command[:2] == ["savepoint", "create"]:
                break
    ran = onceflow(environment, "stop", "canaries")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    job.wait(60)
    shown |= {"log": log.read_text(errors="replace")}
    inside = {tmp_path / name for name in ("key", "settings.toml")}
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path not in inside]
    shown |= {str(path.relative_to(tmp_path)): path.read_bytes().decode(errors="replace") for path in files}

    # It has looked at something, and nothing was so quiet that it proves nothing.
    assert len(secret.all) == 7
    assert "poisoned" in shown["log"]
    assert sum("process" in place for place in shown) >= 2
    assert any("SparkListener" in text for text in shown.values())
    assert any(place.startswith("checkpoint/onceflow/audit/") for place in shown)
    assert (tmp_path / "anchors").read_text().count("\n") >= 1
    for name in ("list", "info", "exceptions", "checkpoints", "config", "check", "txn", "audit", "savepoint"):
        assert any(f"['{name}'" in place and place.endswith(" 0") for place in shown), name
    found = [(name, place) for name, value in secret.all.items() for place, text in shown.items() if value in text]
    assert not found
    assert all(line.split()[4] == "0" for text in limits for line in text.splitlines() if "core file" in line), limits


def onceflow(environment, *words):
    return subprocess.run(
        [sys.executable, "-m", "onceflow", *words],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


def rows_in(server):
    try:
        return int(server.execute("select count(*) from rows")[0][0])
    except Exception:
        return -1


def tree(pid):
    top = psutil.Process(pid)
    return [top, *top.children(recursive=True)]


def page(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.read().decode()
