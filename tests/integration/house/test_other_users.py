"""What another user of the machine, without any credential, gets of a job that runs: its ports are on 127.0.0.1.

Run as root, since only root can become another user.
"""

import json
import os
import socket
import struct
import subprocess
import sys

import pytest

from onceflow.local.jars import spark_jars

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


LISTENING = """
import json, sys
from onceflow.spark.internals import add_listener
from onceflow.spark.session import make_session

class Listener:
    held = "a secret"
    def onQueryStarted(self, event): pass
    class Java:
        implements = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]

session = make_session("a job", {}, lambda _: None)
add_listener(session, Listener())
gateway = session.sparkContext._gateway
print(json.dumps({"port": gateway._callback_server.port, "ids": list(gateway.gateway_property.pool.dict)}), flush=True)
sys.stdin.read()
"""
OWN = """
import logging, sys
from pyspark.sql import SparkSession
import onceflow as of
from onceflow.errors import OnceflowError

logging.basicConfig(level=logging.WARNING, format="%(message)s")
folder, url, settings = sys.argv[1], sys.argv[2], dict(each.split("=") for each in sys.argv[3:])
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.jars", JARS)
for name, value in settings.items():
    spark = spark.config(name, value)
spark = spark.getOrCreate()
spark.sparkContext.setLogLevel("OFF")
rows = spark.readStream.schema("n int").json(folder + "/in")
sink = of.DatabaseSink(url, "rows", create_table=True)
try:
    query = of.start(rows, sinks=[sink], name="own", checkpointing=of.Checkpointing(folder + "/cp"), until="caught-up")
    query.awaitTermination()
    print("it ran")
except OnceflowError as error:
    print(type(error).__name__, error)
"""


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


@pytest.fixture
def own(tmp_path):
    """``own(url, *settings)`` runs a program that makes its session itself, and gives what it prints and logs."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text('{"n": 1}\n')
    program = OWN.replace("JARS", repr(",".join(map(str, spark_jars()))))

    def run(url, *settings):
        command = [sys.executable, "-c", program, str(tmp_path), url, *settings]
        ended = subprocess.run(command, capture_output=True, text=True, check=True)
        return ended.stdout.strip(), ended.stderr

    return run


def test_a_session_of_ones_own_that_hands_out_tasks_is_refused_where_they_carry_a_secret(own, tmp_path):
    """Before the database is asked for: nothing listens at its port."""
    said, _ = own("postgresql://bank:xyzzy@127.0.0.1:1/bank")
    assert said.startswith("RefusedSettingError a session without spark.authenticate is refused on local[2]")
    assert "tasks carry the secret of sink rows" in said
    assert "xyzzy" not in said


@pytest.mark.faults
@pytest.mark.parametrize("setting", ["spark.authenticate=true", "spark.onceflow.unauthenticated=allow"])
def test_one_that_authenticates_or_is_allowed_comes_as_far_as_the_database(own, setting):
    said, logged = own("postgresql://bank:xyzzy@127.0.0.1:1/bank", setting)
    assert said.startswith("DatabaseUnavailableError")
    assert ("any user of this machine can fetch this session's tasks" in logged) is ("allow" in setting)


@pytest.mark.faults
def test_one_whose_tasks_carry_nothing_is_warned_of_and_runs(own, tmp_path):
    said, logged = own(f"sqlite:///{tmp_path}/bank.db")
    assert (said, logged.count('Add .config("spark.authenticate", "true")')) == ("it ran", 1), (said, logged)


def as_nobody(function, *given):
    """What a function of sockets gives in a process of another user, of no group that has rights."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user: sudo make test-security")
    socket.getaddrinfo("127.0.0.1", 0)  # imports what nobody may not read
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.write(writing, json.dumps(function(*given)).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as answer:
        return json.loads(answer.read())


def called(port, ids, method):
    """What PySpark's callback server answers to a call of each object, "" where it hangs up."""
    answers = []
    for each in ids:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as to:
            try:
                to.sendall(f"c\n{each}\n{method}\ne\n".encode())
                answers.append(to.recv(1000).decode())
            except ConnectionError:
                answers.append("")
    return answers


@pytest.fixture
def listening():
    """A process with Spark whose callback server knows an object, and what it says of itself."""
    job = subprocess.Popen([sys.executable, "-c", LISTENING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield json.loads(next(line for line in job.stdout if line.startswith("{")))
    finally:
        job.communicate("")


def test_nobody_calls_a_jobs_objects_through_pysparks_callback_server(listening):
    """It takes any attribute of them, with any object of Java's as an argument, and asks for no token."""
    ids = listening["ids"]
    assert ids
    assert as_nobody(called, listening["port"], ids, "toString") == ["" for _ in ids]
    assert as_nobody(called, listening["port"], ids, "__repr__") == ["" for _ in ids]
    for method in ["__repr__", "__class__"]:
        assert all(answer.startswith("!x") for answer in called(listening["port"], ids, method))


COMMANDS = """
import json, sys
from onceflow.spark.session import make_session
settings = json.loads(sys.stdin.readline())
session = make_session("a job", settings, lambda _: None)
java = session.sparkContext._gateway.proc.pid
line = open(f"/proc/{java}/cmdline").read()
conf = session.sparkContext._jsc.hadoopConfiguration()
told = {name: conf.get(name.removeprefix("spark.hadoop.")) for name in settings}
print(json.dumps({"line": line, "told": told}), flush=True)
"""


def test_no_secret_stands_on_javas_command_line():
    """Which each user of the machine reads; Spark has them all the same."""
    settings = {
        "spark.hadoop.fs.s3a.secret.key": "CANARY-1",
        "spark.hadoop.fs.azure.account.key.bank.dfs.core.windows.net": "CANARY-2",
        "spark.hadoop.bank.address": "https://me:CANARY-3@bank",
        "spark.hadoop.bank.name": "seen",
    }
    command = [sys.executable, "-c", COMMANDS]
    ended = subprocess.run(command, input=json.dumps(settings) + "\n", capture_output=True, text=True, check=True)
    told = json.loads(next(line for line in ended.stdout.splitlines() if line.startswith("{")))
    assert told["told"] == settings
    assert "bank.name=seen" in told["line"]
    assert "CANARY" not in told["line"]


AMONG_OTHERS = """
import os, sys
sys.path.insert(0, sys.argv[1])  # as Python does for `python JOB`
import beside
from onceflow import program
from onceflow.spark.session import make_session

program.keep_files_private()
session = make_session("a job", {"spark.master": "local[1]"}, lambda _: None)
print("tasks:", session.sparkContext.parallelize([20], 1).map(beside.doubled).collect())
session.range(1).write.mode("append").json(sys.argv[2])
"""


@pytest.fixture(scope="module")
def among_others(tmp_path_factory):
    """A session in a working folder that all may write to, as /tmp is, and into which somebody has laid modules."""
    folder, job = tmp_path_factory.mktemp("of-all"), tmp_path_factory.mktemp("of-the-job")
    out = tmp_path_factory.mktemp("made-before") / "rows"
    folder.chmod(0o1777)
    out.mkdir()
    out.chmod(0o755)
    planted = f"open({str(folder / 'ran')!r}, 'a').write(__name__)\n"
    (folder / "pyspark").mkdir()
    for name in ("pyspark/__init__.py", "random.py", "beside.py"):
        (folder / name).write_text(planted)
    (job / "beside.py").write_text("def doubled(number):\n    return 2 * number\n")
    command = [sys.executable, "-P", "-c", AMONG_OTHERS, str(job), str(out)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return ended, folder, out


def test_modules_that_others_have_laid_into_the_working_folder_run_in_no_task(among_others):
    """Java starts tasks by `python -m`, and Python takes what lies in the working folder first, as the job's user."""
    ended, folder, _ = among_others
    assert not (folder / "ran").exists(), (folder / "ran").read_text()
    assert "tasks: [40]" in ended.stdout, ended.stderr[-2000:]


def test_what_java_writes_is_its_users_alone_in_a_folder_that_was_there_before(among_others):
    """Hadoop gives each file a mode of its own, whatever the process's umask is: state, offsets and commits are its."""
    _, _, out = among_others
    modes = {path.name: oct(path.stat().st_mode & 0o777) for path in out.rglob("*")}
    assert modes
    assert set(modes.values()) == {"0o600"}, modes
