"""What a soak samples of a job: its processes, its checkpoint, its tables, its transactions, how far it is.

Must not know: how often, what is made of it. A value that cannot be had at the moment (a job is just being started) is
left out of the sample. Sizes are bytes, RSS and heap are MB.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import psutil
import psycopg
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError

_MB = 1_000_000
_HEAP = re.compile(r"^Total\s+\d+\s+(\d+)", re.MULTILINE)
_TOLD = {
    "onceflow_last_checkpoint_epoch": "epoch",
    "onceflow_incarnation": "starts",
    "onceflow_source_lag_records": "lag",
    "onceflow_state_rows": "state rows",
    "onceflow_state_bytes": "state memory",
}
"""Of the job's metrics, by what they are called here; those with labels are summed."""

Sampled = dict[str, float]


def processes(supervisor: int) -> Sampled:
    """RSS, descriptors and threads of the driver's Python, its Java and Python's workers; of the parent its RSS."""
    found: Sampled = {}
    with contextlib.suppress(psutil.Error):
        parent = psutil.Process(supervisor)
        found["RSS parent"] = parent.memory_info().rss / _MB
        drivers = parent.children()
        below = drivers[0].children(recursive=True) if drivers else []
        java = [each for each in below if each.name() == "java"]
        workers = [each for each in below if each not in java]
        if not java:
            return found
        for name, group in (("driver", drivers[:1]), ("java", java), ("workers", workers)):
            found |= _of(name, group)
        found["heap java"] = _live_heap(java[0].pid) / _MB
    return {name: value for name, value in found.items() if value}


def _of(name: str, group: list[psutil.Process]) -> Sampled:
    told = [0.0, 0.0, 0.0]
    for each in group:
        with contextlib.suppress(psutil.Error):
            for i, value in enumerate((each.memory_info().rss / _MB, each.num_fds(), each.num_threads())):
                told[i] += value
    return {f"RSS {name}": told[0], f"descriptors {name}": told[1], f"threads {name}": told[2]}


def _live_heap(pid: int) -> float:
    """Bytes of the objects that are in use; a full collection is made for that. 0 where Java does not tell."""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        told = subprocess.run(
            ["jcmd", str(pid), "GC.class_histogram"], capture_output=True, text=True, check=False, timeout=60
        )
        total = _HEAP.search(told.stdout)
        return float(total[1]) if total else 0.0
    return 0.0


def checkpoint(folder: Path) -> Sampled:
    """Files and bytes of each part of a checkpoint."""
    ours = folder / "onceflow"
    parts = {
        "journal": [each for each in _files(ours / "journal") if each.parent.name == "journal"],
        "journal receipts": list(_files(ours / "journal" / "receipts")),
        "audit": list(_files(ours / "audit")),
        "offsets and commits": [*_files(folder / "offsets"), *_files(folder / "commits")],
        "state": list(_files(folder / "state")),
        "sources": list(_files(folder / "sources")),
    }
    of_parts = {each for files in parts.values() for each in files}
    parts["other of onceflow"] = [each for each in _files(ours) if each not in of_parts]
    return {f"{what} {name}": value for name, files in parts.items() for what, value in _sizes(files).items()}


def folder(name: str, path: Path) -> Sampled:
    """Files and bytes of a folder."""
    return files(name, _files(path))


def files(name: str, found: Iterable[Path]) -> Sampled:
    """How many they are, and their bytes."""
    return {f"{what} {name}": value for what, value in _sizes(list(found)).items()}


def _files(path: Path) -> Iterator[Path]:
    return (each for each in path.rglob("*") if each.is_file()) if path.exists() else iter(())


def _sizes(files: list[Path]) -> Sampled:
    size = 0
    for each in files:
        with contextlib.suppress(OSError):  # it is gone by now
            size += each.stat().st_size
    return {"files": len(files), "bytes": size}


def tables(url: str) -> Sampled:
    """Rows and bytes of onceflow's own tables in PostgreSQL, and the rows of the target."""
    found: Sampled = {}
    with psycopg.connect(url) as connection:
        names = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        for (name,) in names:
            rows = connection.execute(f'select count(*) from "{name}"').fetchone()  # noqa: S608 - of the catalogue
            found[f"rows {name}" if "onceflow" in name else f"output {name}"] = rows[0] if rows else 0
            if "onceflow" in name:
                size = connection.execute("select pg_total_relation_size(%s)", [f'public."{name}"']).fetchone()
                found[f"bytes {name}"] = size[0] if size else 0
    return found


def lake(properties: Mapping[str, str], name: str, home: Path) -> Sampled:
    """What onceflow has beside a table's files, the table's properties, and its rows.

    Old snapshots are let go, as a table's owner does it: they are not the job's.
    """
    try:
        table = load_catalog("lake", **properties).load_table(name)
    except NoSuchTableError:
        return {}
    current = table.current_snapshot()
    older = [each.snapshot_id for each in table.snapshots() if each != current]
    with contextlib.suppress(Exception):  # the job has committed in between: the next sample's business
        if older:
            table.maintenance.expire_snapshots().by_ids(older).commit()
    own = [each for each in _files(home) if "_onceflow" in each.parts]
    return {
        "files lake's _onceflow": len(own),
        "bytes lake's properties": sum(len(key) + len(value) for key, value in table.properties.items()),
        "output large": float(current.summary["total-records"] or 0) if current and current.summary else 0.0,
    }


def told(port: int) -> Sampled:
    """What the job tells of itself."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return {}
    found: Sampled = {}
    for line in lines:
        name, _, value = line.partition(" ")
        known = _TOLD.get(name.partition("{")[0])
        if known:
            found[known] = found.get(known, 0.0) + float(value)
    return found
