"""A standalone Spark cluster for tests: a master and workers, each a process of its own, from PySpark's own jars.

The daemons get nothing of the test's environment but where Java is, as on machines of their own: what an executor has
of the driver's came to it by Spark. All of it listens on 127.0.0.1, on ports that are free. And what a job is told to
run there.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self
from urllib.parse import urlencode
from urllib.request import urlopen

import psutil
import pyspark

import onceflow
from onceflow.local.jars import java_executable
from onceflow.processes import descendants, kill_tree
from tests.support.harness import JOBS, wait_until

SPARK_HOME = Path(pyspark.__file__).parent
SCALA = "2.13"
"""What Spark's scripts tell its daemons: they ask for it when they start an executor."""
SUBMIT = SPARK_HOME / "bin" / "spark-submit"
SOURCES = ":".join((str(Path(onceflow.__file__).parents[1]), str(JOBS.parents[2])))
"""Where the executors' Python finds the code that is run: their interpreter is the driver's."""


def reached(master: str, memory: str) -> dict[str, str]:
    """Spark's settings for a job on a master of this machine, with executors of one core and so much memory each."""
    return {
        "spark.master": master,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": memory,
        "spark.executor.cores": "1",
        "spark.executorEnv.PYTHONPATH": SOURCES,
    }


def settings(master: str, **more: str) -> dict[str, str]:
    """The same for a test's job, which is small and lives for seconds; and more, with ``__`` for each dot of a name."""
    return {
        **reached(master, "512m"),
        "spark.ui.enabled": "false",
        "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "2",
    } | {name.replace("__", "."): value for name, value in more.items()}


def config(folder: Path, spark: dict[str, str]) -> str:
    """A file of settings that has them."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "settings.toml"
    file.write_text("".join(f'"{name}" = "{value}"\n' for name, value in spark.items()))
    return str(file)


class Daemon:
    """A master or a worker.

    Args:
        kind: ``master.Master`` or ``worker.Worker``.
        folder: Where its log is, and what it makes.
        arguments: Of its class.
        before: A command that starts it.
    """

    def __init__(self, kind: str, folder: Path, *arguments: str, before: Sequence[str] = ()) -> None:
        folder.mkdir(parents=True)
        self.log = folder / "log"
        java = [java_executable(), "-cp", f"{SPARK_HOME}/jars/*", "-Xmx256m", "-XX:TieredStopAtLevel=1"]
        where = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        with self.log.open("w") as out:
            self.process = subprocess.Popen(
                [*before, *java, f"org.apache.spark.deploy.{kind}", *where, *arguments],
                cwd=folder,
                env={name: os.environ[name] for name in ("PATH", "JAVA_HOME", "HOME") if name in os.environ}
                | {"SPARK_HOME": str(SPARK_HOME), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": SCALA},
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self, pattern: str, seconds: float = 90.0) -> str:
        """Wait until its log has it; the pattern's group."""

        def look() -> re.Match[str] | None:
            assert self.process.poll() is None, self.log.read_text()
            return re.search(pattern, self.log.read_text())

        wait_until(look, seconds, f"{pattern!r} in {self.log}")
        found = look()
        assert found is not None
        return found[1]

    @property
    def executors(self) -> list[int]:
        """The processes of its executors."""
        below = psutil.process_iter(["ppid", "name"])
        return [one.pid for one in below if one.info["ppid"] == self.process.pid and "java" in one.info["name"]]

    def kill(self) -> None:
        """SIGKILL it with its executors and their Python workers."""
        kill_tree(self.process.pid)
        self.process.wait()


class Standalone:
    """A master with workers of one core each.

    Args:
        folder: For logs, and what executors make.
        workers: How many.
        before: A command that starts each worker.
    """

    def __init__(self, folder: Path, workers: int = 2, before: Sequence[str] = ()) -> None:
        self._folder, self._before = folder, before
        self._count = 0
        self.master = Daemon("master.Master", folder / "master")
        self.workers: list[Daemon] = []
        try:
            self.url = self.master.said(r"Starting Spark master at (spark://\S+)")
            for _ in range(workers):
                self._begin_worker()
            for worker in self.workers:
                worker.said("Successfully registered with master (spark)")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refill(self) -> None:
        """As many workers as at first: another one in the place of each that was killed."""
        lost = [worker for worker in self.workers if worker.process.poll() is not None]
        self.workers = [worker for worker in self.workers if worker not in lost]
        for _ in lost:
            self._begin_worker().said("Successfully registered with master (spark)")

    def _begin_worker(self) -> Daemon:
        folder = self._folder / f"worker-{self._count}"
        self._count += 1
        sizes = ["--cores", "1", "--memory", "1g", "--work-dir", str(folder / "work")]
        made = Daemon("worker.Worker", folder, *sizes, self.url, before=self._before)
        self.workers.append(made)
        return made

    def close(self) -> None:
        """Kill all of it."""
        for daemon in (*self.workers, self.master):
            if daemon.process.poll() is None:
                daemon.kill()

    def end_newest_application(self) -> None:
        """As somebody does at the master's page."""
        log = self.master.log.read_text()
        (newest,) = re.findall(r"Registered app \S+ with ID (\S+)", log)[-1:]
        port = self.master.said(r"Bound MasterWebUI to \S+ and started at http://[^:]+:(\d+)")
        data = urlencode({"id": newest, "terminate": "true"}).encode()
        with urlopen(f"http://127.0.0.1:{port}/app/kill/", data, timeout=30):
            pass

    def executors(self) -> list[int]:
        """The processes of all executors."""
        return [pid for worker in self.workers if worker.process.poll() is None for pid in worker.executors]

    def processes(self) -> list[int]:
        """All processes below the workers: executors, their Python daemons and workers."""
        return [pid for worker in self.workers for pid in descendants(worker.process.pid)]
