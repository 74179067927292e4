"""A Python environment as an archive, as docs/clusters.md makes one, of packages that are installed here: no network.

Only what a task needs goes in. The interpreter itself is a link to the one here, as in every venv.
"""

import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

NEEDED = ("onceflow", "confluent_kafka", "confluent_kafka.libs", "numpy", "numpy.libs", "psutil", "pyarrow")
"""Packages, and the folders of libraries that lie beside them."""
LEFT_OUT = ("/tests/", "/include/", "__pycache__", ".pyx", ".pxd")
"""Of them what no task loads: an archive is unpacked by each executor."""


def pack(folder: Path) -> Path:
    """An archive of an environment with them."""
    environment = folder / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    packages = next((environment / "lib").glob("python3.*")) / "site-packages"
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as out:
        out.add(environment, ".")
        for name in NEEDED:
            out.add(_installed(name), packages.relative_to(environment) / name, filter=_slim)
    return archive


def _installed(name: str) -> Path:
    spec = find_spec(name.removesuffix(".libs"))
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    return package.with_name(name)


def _slim(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if any(part in f"{member.name}/" for part in LEFT_OUT) else member
