"""A real HDFS of a test's own: a NameNode and three DataNodes in one Java, which can be killed and come back.

Must not know: what is tested.
"""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from onceflow.local.jars import hdfs_jars, java_executable
from onceflow.spark.hadoop import store_at
from onceflow.storage.store import Store
from tests.support.elsewhere import Elsewhere
from tests.support.harness import wait_until
from tests.support.postgres import free_port

_SERVERS = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"


class MiniHdfs:
    """The servers, with their files in a folder.

    Args:
        folder: It.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.root = f"hdfs://127.0.0.1:{self._port}"
        self._server: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it, with what it had before; it is there when this returns."""
        is_new = not self._folder.exists()
        self._folder.mkdir(parents=True, exist_ok=True)
        details = self._folder / "details"
        details.unlink(missing_ok=True)
        with (self._folder / "log").open("ab") as log:
            java = [java_executable(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
            here = ["-nnport", str(self._port), "-writeDetails", str(details), *(["-format"] if is_new else [])]
            self._server = subprocess.Popen(
                [*java, "-cp", ":".join(map(str, hdfs_jars())), _SERVERS, "-nomr", "-datanodes", "3", *here],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

        def is_there() -> bool:
            assert self._server is not None
            assert self._server.poll() is None, (self._folder / "log").read_text()[-5_000:]
            return details.exists() and details.stat().st_size > 0

        wait_until(is_there, what="HDFS")
        return self

    def kill(self) -> None:
        """Kill both at once."""
        if self._server is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._server.pid, signal.SIGKILL)
            self._server.wait()

    def store(self, name: str = "") -> Store:
        """A folder there; one of its own without a name."""
        return store_at(f"{self.root}/{name or uuid.uuid4().hex}")


@dataclass
class OnHdfs(Elsewhere):
    """A pipeline whose checkpoint is on HDFS."""

    hdfs: MiniHdfs = field(kw_only=True)

    @property
    def uri(self) -> str:
        """The checkpoint's."""
        return f"{self.hdfs.root}/{self.folder}"

    @property
    def store(self) -> Store:
        """The checkpoint's folder, as this process sees it."""
        return self.hdfs.store(self.folder)
