"""What the figures were made on: the machine, how busy it was, and the versions.

Must not know: what is measured.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from bench.stage import ALL

from onceflow.local.jars import java_executable

_OURS = ("onceflow", "pyspark", "confluent-kafka", "kafka-python", "pyarrow")


def head() -> dict[str, Any]:
    """What each file of results begins with, asked for before anything is measured: when, on what, how busy it was."""
    return {
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "versions": versions(),
        "load_before": load(),
    }


def machine() -> dict[str, Any]:
    """Processor, cores, memory, system, Java."""
    told = subprocess.run([java_executable(), "-version"], capture_output=True, text=True, check=False).stderr
    facts: dict[str, Any] = {
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
    }
    facts["java"] = next(iter(re.findall(r'version "([^"]+)"', told)), "unknown")
    cpu, memory = Path("/proc/cpuinfo"), Path("/proc/meminfo")
    if cpu.exists():
        facts["processor"] = next(iter(re.findall(r"model name\s*:\s*(.+)", cpu.read_text())), "unknown")
        kilobytes = int(re.findall(r"MemTotal:\s*(\d+)", memory.read_text())[0])
        facts["memory_gb"] = round(kilobytes / 1e6, 1)
    return facts


def versions() -> dict[str, str]:
    """Of ours, of the broker, and of the peers whose environments are there."""
    found = {name: metadata.version(name) for name in _OURS}
    text = (Path(__file__).resolve().parent.parent / "src/onceflow/local/jars.toml").read_text()
    found["kafka broker"] = re.findall(r'name = "kafka_2.13"\nrev = "([^"]+)"', text)[0]
    for system, package in (("flink", "apache-flink"), ("quix", "quixstreams")):
        python = ALL[system].python
        if python.exists():
            script = f"import json; from importlib.metadata import version as v; print(json.dumps(v({package!r})))"
            told = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=False).stdout
            found[package] = json.loads(told or '"unknown"')
    return found


def load() -> float:
    """How busy the machine is now: its one-minute load average."""
    return round(os.getloadavg()[0], 2)
