"""The same job file on real clusters: local-cluster, standalone, spark-submit; and deaths that only these have.

A master and two workers run as processes of their own. Executors get nothing of the driver's environment, so what a
task needs of it has to come by Spark.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from onceflow.local.jars import spark_jars
from onceflow.processes import descendants
from onceflow.processes import stopped as stands_still
from tests.support.harness import JOBS, Pipeline, wait_until
from tests.support.packed import pack
from tests.support.standalone import SUBMIT, Standalone, config, settings

PATIENCE_S = 150.0

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.clusters]


@pytest.fixture(scope="module")
def standalone(tmp_path_factory):
    """A master and two workers; who kills one of them makes another."""
    with Standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture
def pipeline(cluster, new_topic, tmp_path):
    """``pipeline(job, master)``: three epochs' worth of input, and a job over it on that master."""

    def make(job: str, master: str, **more: str) -> Pipeline:
        made = Pipeline(cluster, new_topic(4), new_topic(4), tmp_path / "checkpoint", job)
        made.environment = {
            "ONCEFLOW_CONFIG": config(tmp_path, settings(master, **more)),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        made.send(6_000)
        return made

    return make


@pytest.mark.parametrize("job", ["copy", "count"])
@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]", "standalone"])
def test_a_job_file_gives_each_row_once_on_each_master(pipeline, standalone, job, master):
    """The job's file is the same on each master, and so is what comes of it: each row once."""
    made = pipeline(job, standalone.url if master == "standalone" else master)
    made.run_well()
    made.check()


def stopped(standalone: Standalone) -> list[int]:
    """Python workers of the cluster that were stopped by a signal."""
    below = standalone.processes()
    return [one.pid for one in psutil.process_iter(["status"]) if one.pid in below and one.info["status"] == "stopped"]


@pytest.fixture
def held(pipeline, standalone, processes):
    """``held("D3")``: a job on the cluster of which one worker is held at that point in epoch 1, and the worker."""
    standalone.refill()

    def start(point: str, job: str = "copy", **more: str) -> tuple[Pipeline, subprocess.Popen, int]:
        made = pipeline(job, standalone.url, **more)
        process = made.start(ONCEFLOW_CRASH=f"{point}@1:stop")
        processes.append(process)
        wait_until(
            lambda: process.poll() is not None or stopped(standalone), seconds=PATIENCE_S, what=f"a worker at {point}"
        )
        assert process.poll() is None, made.end(process).log
        return made, process, stopped(standalone)[0]

    yield start
    for pid in stopped(standalone):
        os.kill(pid, signal.SIGKILL)


def executor_of(worker: int) -> int:
    """The executor of a Python worker: its daemon's parent."""
    return psutil.Process(psutil.Process(worker).ppid()).ppid()


@pytest.mark.parametrize("point", ["D2", "D3"])
def test_an_executor_dies_while_it_writes_or_prepared(held, point):
    """D2, D3: an executor is killed mid-task, or with a prepared transaction that no driver knows: tried elsewhere."""
    made, job, worker = held(point)
    os.kill(executor_of(worker), signal.SIGKILL)
    ended = made.end(job)
    assert ended.code == 0, ended.log
    made.check()
    assert point == "D2" or made.aborted() > 0


@pytest.mark.parametrize("point", ["D4", "D5", "D6"])
def test_all_executors_die_around_the_decision(pipeline, standalone, processes, point):
    """D4, D5, D6: all is prepared and every executor is killed, before the decision, behind it, between two commits."""
    standalone.refill()
    made = pipeline("copy", standalone.url)
    job = made.start(ONCEFLOW_CRASH=f"{point}@1:stop")
    processes.append(job)
    wait_until(lambda: job.poll() is not None or made.mark.exists(), seconds=PATIENCE_S, what=f"the driver at {point}")
    wait_until(lambda: stands_still(job.pid), what="the driver's standstill")
    killed = standalone.executors()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not set(killed) & set(standalone.executors()), what="the executors' end")
    os.kill(job.pid, signal.SIGCONT)
    ended = made.end(job)
    assert ended.code == 0, ended.log
    made.check()
    assert made.aborted() == 0, "what was prepared was written again"


def test_a_machine_dies_with_all_that_runs_on_it_and_comes_back(held, standalone):
    """D3: worker process, executor and Python are killed at once, and a machine comes in its place: each row once."""
    made, job, worker = held("D3")
    lost = next(one for one in standalone.workers if worker in descendants(one.process.pid))
    lost.kill()
    standalone.refill()
    ended = made.end(job)
    assert ended.code == 0, ended.log
    made.check()
    assert made.aborted() > 0


def test_a_stage_is_attempted_again_while_a_task_of_its_first_attempt_still_runs(pipeline, standalone, processes):
    """Lost shuffle files make Spark run a stage anew, with attempts from 0: two live tasks have one transaction's name.

    The older one has prepared and sleeps until the epoch is decided by the younger one. Each count is right, and once.
    """
    standalone.refill()
    made = pipeline("count", standalone.url)
    job = made.start(ONCEFLOW_CRASH="D3@1:stop", ONCEFLOW_CRASH_MARK="")  # without a mark each task stops there
    processes.append(job)
    wait_until(lambda: job.poll() is not None or len(stopped(standalone)) == 2, PATIENCE_S, "both tasks at D3")
    assert job.poll() is None, made.end(job).log
    older, other = stopped(standalone)
    os.kill(executor_of(other), signal.SIGKILL)

    def decided() -> bool:
        for pid in set(stopped(standalone)) - {older}:
            os.kill(pid, signal.SIGCONT)
        return job.poll() is not None or any(d["epoch"] == 1 for d in made.decisions())

    wait_until(decided, PATIENCE_S, "the decision of the younger tasks")
    if psutil.pid_exists(older):
        os.kill(older, signal.SIGCONT)
    ended = made.end(job)
    assert ended.code == 0, ended.log
    made.check()
    (epoch,) = (d for d in made.decisions() if d["epoch"] == 1)
    held = [each["transaction"] for each in epoch["participants"]]
    assert {each["transactional_id"].rpartition("-")[2] for each in held} == {"0"}, "no stage was attempted again"
    assert max(each["producer_epoch"] for each in held) > 0, "no two tasks had one name"
    assert made.aborted() > 0


def test_a_driver_is_killed_and_its_parent_starts_another(pipeline, standalone, processes, tmp_path):
    """SIGKILL to the driver alone, while a task of it has prepared: its parent starts one that ends what is left."""
    standalone.refill()
    made = pipeline("copy", standalone.url)
    environment = os.environ | made.settings() | {"ONCEFLOW_CRASH": "D3@1:stop"}
    del environment["ONCEFLOW__RESTART_STRATEGY__TYPE"]
    log = tmp_path / "supervised.log"
    command = [
        sys.executable,
        "-m",
        "onceflow",
        "run",
        str(JOBS / "copy_job.py"),
        "--until",
        "caught-up",
        "--supervise",
    ]
    with log.open("w") as out:
        parent = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
    processes.append(parent)
    wait_until(lambda: parent.poll() is not None or stopped(standalone), seconds=PATIENCE_S, what="a worker at D3")
    assert parent.poll() is None, log.read_text()
    (worker,), (driver,) = stopped(standalone), psutil.Process(parent.pid).children()
    driver.kill()
    wait_until(lambda: "is started again" in log.read_text(), what="the parent's word")
    starts = made.ours / "journal"
    wait_until(
        lambda: sum(r["kind"] == "start" for r in made.records()) == 2,
        seconds=PATIENCE_S,
        what=f"a second start in {starts}",
    )
    if psutil.pid_exists(worker):
        os.kill(worker, signal.SIGCONT)
    assert parent.wait(180) == 0, log.read_text()
    made.check()


def test_a_crash_point_in_a_task_reaches_executors_and_kills_the_driver(pipeline, standalone):
    """What is armed goes to executors, which have nothing of the driver's environment; the next start goes on."""
    standalone.refill()
    made = pipeline("count", standalone.url)
    made.die_at("D3@1")
    made.run_well()
    made.check()


def test_an_application_that_is_killed_on_its_cluster_is_told_as_what_passes(held, standalone):
    """D3: somebody kills it at the master. Exit code 75 and what happened; the next start gives each row once."""
    made, job, _ = held("D3")
    standalone.end_newest_application()
    ended = made.end(job)
    assert ended.code == 75, ended.log
    assert "Spark's application was ended by its cluster" in ended.log
    made.run_well()
    made.check()


def test_an_epoch_that_waits_for_executors_says_so(pipeline, tmp_path):
    """A cluster without a worker: Spark's own line tells what is waited for, and the checkpoint's time-out ends it."""
    with Standalone(tmp_path / "empty", workers=0) as empty:
        made = pipeline("copy", empty.url, spark__starvation__timeout="2s")
        ended = made.run(ONCEFLOW__EXECUTION__CHECKPOINTING__TIMEOUT="10 s")
    assert ended.code == 75, ended.log
    assert "has not accepted any resources" in ended.log
    assert made.read(committed=False) == []


def test_a_job_file_is_submitted(pipeline, standalone, tmp_path):
    """``spark-submit --master spark://… job.py`` gives each row once; the jars that it names reach the executors."""
    made = pipeline("copy", standalone.url)
    del made.environment["ONCEFLOW_CONFIG"]
    given = settings(standalone.url)
    conf = [word for name, value in given.items() for word in ("--conf", f"{name}={value}")]
    jars = ",".join(map(str, spark_jars()))
    ended = subprocess.run(
        [str(SUBMIT), "--jars", jars, *conf, str(JOBS / "copy_job.py")],
        env=os.environ | made.settings() | {"PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    made.check()


@pytest.mark.timeout(600)
def test_the_fraud_job_on_a_cluster_through_kills_of_its_driver(standalone, tmp_path):
    """The demo as it is, told of a cluster by a file of settings: its judge recomputes every alert."""
    standalone.refill()
    command = [sys.executable, "-m", "onceflow.cli.main", "demo", "--records", "10000", "--seed", "5"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "ONCEFLOW_CONFIG": config(tmp_path, settings(standalone.url)),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    told = subprocess.run(
        [*command, "--output", "json"], capture_output=True, text=True, check=False, timeout=580, env=environment
    )
    assert told.returncode == 0, told.stdout + told.stderr
    report = json.loads(told.stdout.splitlines()[-1])
    assert (report["verdict"], report["lost"], report["duplicated"], report["wrong"]) == ("PASS", 0, 0, 0)
    assert report["kills"] >= 3
    assert "Registered app fraud-alerts" in standalone.master.log.read_text(), "it ran elsewhere"


def shipped(made: Pipeline, folder: Path, **more: str) -> None:
    """Let executors have no code but what Spark brings."""
    given = settings(**more)
    del given["spark.executorEnv.PYTHONPATH"]
    made.environment["ONCEFLOW_CONFIG"] = config(folder, given)


def test_python_comes_to_the_executors_as_an_archive(pipeline, standalone, tmp_path):
    """Executors whose machine has a bare Python get all that a task needs by ``spark.archives``."""
    standalone.refill()
    made = pipeline("copy", standalone.url)
    archive = f"{pack(tmp_path)}#environment"
    python = "./environment/bin/python"
    shipped(made, tmp_path, master=standalone.url, spark__archives=archive, spark__pyspark__python=python)
    made.run_well()
    made.check()


def test_executors_without_the_drivers_packages_end_the_job(pipeline, standalone, tmp_path):
    """A bare Python: what it lacks is said, with exit code 1, since starting again would bring the same."""
    standalone.refill()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    made = pipeline("copy", standalone.url)
    shipped(made, tmp_path, master=standalone.url, spark__pyspark__python=str(tmp_path / "bare" / "bin" / "python"))
    ended = made.run()
    assert ended.code == 1, ended.log
    assert "the Python that runs the tasks has no module" in ended.log
    assert made.read(committed=False) == []


def own_disk(folder: Path) -> list[str]:
    """A command that starts another one where this folder is an empty one of its own, as on another machine."""
    if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
        pytest.skip("no rights to make a mount namespace")
    return ["unshare", "-m", "sh", "-c", f'mount -t tmpfs none "{folder}" && exec "$@"', "sh"]


@pytest.fixture
def apart(tmp_path):
    """A cluster whose machines do not see the folder in which the checkpoint is."""
    with Standalone(tmp_path / "apart", before=own_disk(hidden(tmp_path))) as running:
        yield running


def hidden(folder: Path) -> Path:
    """The folder that only the driver's machine has."""
    made = folder / "drivers"
    made.mkdir(exist_ok=True)
    return made


def test_state_on_executors_own_disks_is_refused(pipeline, standalone, apart, tmp_path):
    """A checkpoint that only the driver sees: a job with state ends before anything is visible, and says where.

    Where the executors see it, the job goes on.
    """
    counted = pipeline("count", apart.url)
    counted.checkpoint = hidden(tmp_path) / "counted"
    ended = counted.run()
    assert ended.code == 1, ended.log
    assert "does not see the checkpoint" in ended.log
    assert counted.read() == []
    counted.environment["ONCEFLOW_CONFIG"] = config(tmp_path, settings(standalone.url))
    counted.run_well()
    counted.check()


def test_a_job_without_state_needs_its_checkpoint_in_the_driver_alone(pipeline, apart, tmp_path):
    """Executors that do not see the checkpoint copy each row once."""
    copied = pipeline("copy", apart.url)
    copied.checkpoint = hidden(tmp_path) / "copied"
    copied.run_well()
    copied.check()
