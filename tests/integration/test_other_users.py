"""What another user of the machine, without any credential, gets of a job that runs: its ports are on 127.0.0.1."""

import json
import socket
import struct
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.spark]

JOB = """
import json, sys
from onceflow.spark.session import make_session
session = make_session("a job", {}, lambda _: None)
held = session.sparkContext._jsc.broadcast("a task with a password")
env = session.sparkContext._jvm.org.apache.spark.SparkEnv.get()
port = env.blockManager().blockTransferService().port()
told = {"app": session.sparkContext.applicationId, "port": port, "block": f"broadcast_{held.id()}_piece0"}
print(json.dumps(told), flush=True)
sys.stdin.read()
"""
RPC_REQUEST, RPC_RESPONSE, RPC_FAILURE = 3, 4, 5
OPEN_BLOCKS = b"\0"


def text(word):
    """A text as Spark's transport writes it."""
    return struct.pack(">i", len(word)) + word.encode()


def answer(told):
    """What Spark's block manager answers to one who asks for a block: the kind of the message, and its words."""
    body = OPEN_BLOCKS + text(told["app"]) + text("driver") + struct.pack(">i", 1) + text(told["block"])
    head = struct.pack(">bqi", RPC_REQUEST, 1, len(body))
    with socket.create_connection(("127.0.0.1", told["port"]), timeout=60) as to:
        to.sendall(struct.pack(">q", 8 + len(head) + len(body)) + head + body)
        frame = to.makefile("rb")
        (size,) = struct.unpack(">q", frame.read(8))
        said = frame.read(size - 8)
    return said[0], said[1:]


def test_nobody_fetches_a_task_from_a_jobs_block_manager():
    """Whoever reads tasks reads the passwords in them, and whoever puts others in their place is the job's user."""
    job = subprocess.Popen([sys.executable, "-c", JOB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        told = json.loads(next(line for line in job.stdout if line.startswith("{")))
        kind, said = answer(told)
    finally:
        job.communicate("")
    assert (kind, b"Expected SaslMessage" in said) == (RPC_FAILURE, True), said
