"""The machine's part: Java, jars, disk, memory.

Must not know: jobs, systems.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from onceflow.errors import OnceflowError
from onceflow.findings import Finding, of_error
from onceflow.local.jars import cache_folder, java_executable, missing_spark_jars, spark_jars
from onceflow.operations.doctor import rules

_CONTAINER = Path("/sys/fs/cgroup/memory.max")
_HEAP = "2g"
_UNITS = {"k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def examine_machine(spark: Mapping[str, str], state_bytes: int = 0) -> Iterator[Finding]:
    """What is wrong with the machine.

    Args:
        spark: The job's settings of Spark.
        state_bytes: What its state takes.
    """
    yield from _refused(java_executable)
    try:
        missing = missing_spark_jars()
    except OnceflowError as error:
        yield from of_error(error)
    else:
        yield from rules.jars(missing)
        if not missing:
            yield from _refused(spark_jars)
    folder = existing(cache_folder())
    yield from rules.disk("the cache of jars", str(folder), shutil.disk_usage(folder).free)
    heap = in_bytes(spark.get("spark.driver.memory", os.environ.get("SPARK_DRIVER_MEMORY", _HEAP)))
    master = spark.get("spark.master", os.environ.get("SPARK_MASTER", "local[*]"))
    if heap is not None and master.startswith("local"):
        yield from rules.memory(memory_limit(), heap, cores(master), state_bytes)


def existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next(each for each in (folder, *folder.parents) if each.exists())


def in_bytes(text: str) -> int | None:
    """Memory as Java writes it, ``"2g"``; without a unit it is MB in Spark. None for what is none."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    return None if found is None else int(found[1]) * _UNITS[found[2] or "m"]


def cores(master: str) -> int:
    """How many tasks run at a time under a local master."""
    found = re.match(r"local\[(\d+)", master)
    if found:
        return int(found[1])
    return (os.cpu_count() or 1) if master.startswith("local[*") else 1


def memory_limit() -> int | None:
    """The container's limit, or the machine's memory."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(machine, int(_CONTAINER.read_text()))
    except (OSError, ValueError):  # no such container, or no limit ("max")
        return machine


def _refused(check: Callable[[], object]) -> Iterator[Finding]:
    try:
        check()
    except OnceflowError as error:
        yield from of_error(error)
