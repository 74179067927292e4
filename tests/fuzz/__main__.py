"""``python -m tests.fuzz --minutes 60`` fuzzes each target for its part of the time; 1 where it finds some.

``--only NAME`` for one of them; ``--again FILE`` reads an input of a find again, ``--list`` names the targets. Each
target runs in a process of its own, one after the other (``child.py``). Must not know: what a target reads.
"""

from __future__ import annotations

import argparse
import base64
import json
import logging
import os
import re
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from bench.machine import head

from tests.fuzz.target import ROOT
from tests.fuzz.targets import TARGETS
from tests.fuzz.watch import ADDRESSES, LONGEST, MEMORY, SECONDS, Watch, bounded_memory

RESULTS = ROOT / "bench" / "results" / "fuzz.json"
FINDS = ROOT / ".fuzz" / "finds"
LIBRARY = ROOT / ".fuzz" / "lib"
"""Where ``make fuzz`` puts atheris: in no environment, since nothing else needs it."""
_DIED = 10
"""So often a target whose process was ended by its reader begins again."""
_DONE = re.compile(r"^#\d+\s.*\bcov: (\d+) ft: (\d+) corp: (\d+)", re.MULTILINE)
_RUNS = re.compile(r"^#(\d+)\s", re.MULTILINE)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="in all")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs")
    parser.add_argument("--only", action="append", choices=TARGETS, metavar="NAME", help="one target, or several")
    parser.add_argument("--list", action="store_true", help="name the targets")
    parser.add_argument("--again", type=Path, help="read this input of a find again (with --only)")
    asked = parser.parse_args()
    names = asked.only or list(TARGETS)
    if asked.list:
        print("\n".join(TARGETS))
        return 0
    if asked.again is not None:
        return _again(names[0], asked.again.read_bytes())
    kept = head() | {"atheris": _atheris(), "seed": asked.seed, "minutes": asked.minutes}
    kept |= {"bounds": {"seconds": SECONDS, "memory": MEMORY, "addresses": ADDRESSES, "bytes": LONGEST}}
    results: dict[str, Any] = {}
    for number, name in enumerate(names):
        results[name] = told = run(name, asked.minutes * 60 / len(names), asked.seed + 1_000 * number)
        print(
            f"{name:16} {told['executions']:>9} executions, {told['arcs']:>6} arcs, {len(told['finds'])} finds",
            flush=True,
        )
        for find in told["finds"]:
            print(f"    {find['kind']}: {find['what']} [{find['where']}]\n    {_put(name, find)}", flush=True)
    if asked.only is None:
        keep(kept, results)
    return int(any(told["finds"] for told in results.values()))


def run(name: str, seconds: float, seed: int, *more: str, executions: int = -1) -> dict[str, Any]:
    """Fuzz one target in a process of its own, which begins again where its reader has ended it.

    Args:
        name: The target.
        seconds: For so long; 0 for as many executions as are asked for.
        seed: Of the inputs.
        more: Further arguments of the child.
        executions: At most so many.
    """
    begin = time.monotonic()
    told: dict[str, Any] = {"executions": 0, "arcs": 0, "features": 0, "corpus": 0, "seconds": 0, "finds": []}
    found: dict[tuple[str, ...], dict[str, str]] = {}
    with tempfile.TemporaryDirectory(prefix="onceflow-fuzz-") as folder:
        for life in range(_DIED):
            left = round(seconds - (time.monotonic() - begin))
            if seconds and left <= 0:
                break
            child = _child(name, Path(folder), seed + life, left if seconds else 0, executions, more)
            said = child.stderr
            told["executions"] += max((int(n) for n in _RUNS.findall(said)), default=0)
            for cov, features, corpus in _DONE.findall(said)[-1:]:
                told |= {"arcs": max(told["arcs"], int(cov)), "features": int(features), "corpus": int(corpus)}
            for find in _finds(Path(folder)):
                found.setdefault((find["kind"], find["what"].partition(":")[0], find["where"]), find)
            if child.returncode == 0:
                break
            _add_death(found, name, Path(folder), child)
    return told | {"seconds": round(time.monotonic() - begin), "finds": list(found.values())}


def _child(
    name: str, folder: Path, seed: int, seconds: int, executions: int, more: tuple[str, ...]
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (LIBRARY, ROOT / "src", ROOT)))
    return subprocess.run(
        [
            sys.executable, "-m", "tests.fuzz.child", name, "--folder", str(folder), "--seed", str(seed),
            "--seconds", str(seconds), "--executions", str(executions), *more,
        ],
        env=os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", check=False,
    )  # fmt: skip


def _finds(folder: Path) -> list[dict[str, str]]:
    path = folder / "finds.json"
    found: list[dict[str, str]] = json.loads(path.read_text()) if path.exists() else []
    return found


def _add_death(
    found: dict[tuple[str, ...], dict[str, str]], name: str, folder: Path, child: subprocess.CompletedProcess[str]
) -> None:
    """A process that was ended: by a reader that crashed or hung in C, with its input, or by what is wrong here."""
    died = sorted(folder.glob("died-*"))
    data = base64.b64encode(died[-1].read_bytes()).decode() if died else ""
    what = died[-1].name.split("-")[1] if died else f"exit code {child.returncode}: {child.stderr[-400:]}"
    find = {"target": name, "kind": "died", "what": what, "where": "", "data": data}
    found.setdefault((find["kind"], what, ""), find)
    for path in died:
        path.unlink()


def _put(name: str, find: dict[str, str]) -> Path:
    """A find's input as a file, to be read again."""
    FINDS.mkdir(parents=True, exist_ok=True)
    data = base64.b64decode(find["data"])
    path = FINDS / f"{name}-{find['kind']}-{abs(hash(data)) % 10**8:08d}"
    path.write_bytes(data)
    return path


def _again(name: str, data: bytes) -> int:
    """What one input does, with the error as it is raised."""
    target = TARGETS[name]
    logging.disable()
    with tempfile.TemporaryDirectory() as folder, bounded_memory():
        watch = Watch(name, target.read, target.promised, Path(folder))
        watch.warm_up(target.seeds())
        find = watch.find(data)
    print("nothing" if find is None else f"{find.kind}: {find.what} [{find.where}]")
    return int(find is not None)


def keep(kept: dict[str, Any], results: dict[str, Any]) -> None:
    """One more run in the file: by target, and in all. The inputs of its finds are not kept there."""
    runs = json.loads(RESULTS.read_text())["runs"] if RESULTS.exists() else []
    targets = {
        name: told | {"finds": [{k: v for k, v in find.items() if k != "data"} for find in told["finds"]]}
        for name, told in results.items()
    }
    total = {which: sum(told[which] for told in results.values()) for which in ("executions", "arcs", "seconds")}
    total["finds"] = sum(len(told["finds"]) for told in results.values())
    RESULTS.write_text(json.dumps({"runs": [*runs, kept | {"total": total, "targets": targets}]}, indent=1) + "\n")


def _atheris() -> str:
    try:
        return version("atheris")
    except PackageNotFoundError:
        return next((p.name.split("-")[1] for p in LIBRARY.glob("atheris-*.dist-info")), "none").removesuffix(".dist")


if __name__ == "__main__":
    sys.exit(main())
