"""No secret of a login stands in anything that a job writes, shows or is started with."""

import base64
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from kafka.admin import NewTopic

import onceflow as of
from tests.support.harness import JOBS, read_topic
from tests.support.logins import KEY_PASSWORD, PASSWORD, Files, Tokens, bank, changed, ways

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]


def given(cluster, **more):
    """A cluster's arguments as JSON, with secrets by where they are."""
    return json.dumps({name: value for name, value in cluster if isinstance(value, str)} | more)


def test_a_job_keeps_its_secrets(tmp_path, processes):
    """Neither checkpoint, Spark's event log and plans, nor the logs of all clients or a command line hold one.

    Looked for: password, client secret and key password, the login's header, the key itself, and tokens.
    """
    tokens = Tokens()
    files = Files(tmp_path, tokens)
    files.new_client("locked", lock=True)
    (tmp_path / "password").write_text(PASSWORD)
    (tmp_path / "lock").write_text(KEY_PASSWORD)
    (tmp_path / "events").mkdir()
    with bank(files) as broker:
        logins = ways(broker, files, tokens)
        open_to_all = of.KafkaCluster(broker.bootstrap_servers)
        admin = open_to_all.admin()
        admin.create_topics([NewTopic("in", 1, 1)])
        admin.wait_for_topics(["in"])
        admin.close()
        producer = Producer(open_to_all.for_librdkafka())
        producer.produce("in", b"one")
        assert producer.flush(30) == 0
        locked = {"ssl_certificate": files["locked"], "ssl_key": files["locked_key"], "ssl_key_password": KEY_PASSWORD}
        secret = {"file": str(tmp_path / "password")}
        environment = {
            "IN": "in",
            "OUT": "out",
            "CHECKPOINT": str(tmp_path / "checkpoint"),
            "EVENTS": str(tmp_path / "events"),
            "KAFKA_IN": given(
                changed(logins["PLAIN"], **locked),
                password=secret,
                ssl_key_password={"file": str(tmp_path / "lock")},
            ),
            "KAFKA_OUT": given(logins["OAUTHBEARER"], oauth_client_secret=secret),
        }
        log = tmp_path / "job.log"
        with log.open("w") as out:
            job = subprocess.Popen(
                [sys.executable, str(JOBS / "bank_job.py")],
                env=os.environ | environment,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
            )
        processes.append(job)
        commands = set()
        while job.poll() is None:
            commands |= command_lines(job.pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                job.wait(0.5)
        assert job.returncode == 0, log.read_text()[-8000:]
        assert [value for _, value in read_topic(open_to_all, "out")] == [b"one"]
    tokens.close()

    key = Path(files["locked_key"]).read_text().splitlines()[1]
    login = base64.b64encode(f"job:{PASSWORD}".encode()).decode()
    wanted = {"password": "wo=rd", "key password": KEY_PASSWORD, "key": key, "login": login}
    wanted |= {f"token {number}": token for number, token in enumerate(tokens.signatures)}
    assert tokens.signatures
    shown = {"command lines": "\n".join(commands), "log": log.read_text(errors="replace")}
    kept = [path for folder in ("checkpoint", "events") for path in (tmp_path / folder).rglob("*") if path.is_file()]
    shown |= {str(path): path.read_text(errors="replace") for path in kept}
    assert any("java" in command for command in commands)
    assert any("SparkListenerSQLExecutionStart" in text for text in shown.values())
    assert "sasl.jaas.config = [hidden]" in shown["log"]
    found = [(name, place) for name, secret in wanted.items() for place, text in shown.items() if secret in text]
    assert not found


def command_lines(pid):
    """Of a process and all below it, as ``ps`` shows them to everybody."""
    try:
        of_it = psutil.Process(pid)
        return {" ".join(one.cmdline()) for one in [of_it, *of_it.children(recursive=True)]}
    except psutil.Error:
        return set()
