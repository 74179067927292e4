"""Make the corpus of this code: every kind of sink killed at each crash point, and jobs with state, with savepoints.

Run once for each release, by its code, and never made again: ``python -m tests.corpus.make RELEASE``. What is made is
continued by every later code (tests/integration/checkpoint/test_corpus.py).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

from kafka.admin import NewTopic

from tests.corpus.world import POINTS, RECORDS, ROOT, STATE_POINTS, STATES, World, pack, world


def main() -> None:
    """Make it."""
    release = sys.argv[1]
    with world() as systems:
        for point in ("end", *POINTS):
            _leave(systems, f"fan-{point}", "fan", point)
        for job in STATES:
            for point in ("end", *STATE_POINTS):
                _leave(systems, f"{job}-{point}", job, point)
        for path in ROOT.glob("*/job-*.log"):
            path.unlink()
        # The world ends its broker before it removes the place: what is kept is that of a broker that ended well.
        shutil.copytree(ROOT, ROOT.with_name("onceflow-corpus-made"), ignore=shutil.ignore_patterns("kafka"))
        for case in (f"fan-{point}" for point in ("end", *POINTS)):
            (ROOT.with_name("onceflow-corpus-made") / case / "postgres.sql").write_bytes(systems.dump(case))
        systems.broker.stop()
        made = ROOT.with_name("onceflow-corpus-made")
        shutil.copytree(ROOT / "kafka", made / "kafka")
        pack(release, made)
        shutil.rmtree(made)


def _leave(systems: World, case: str, job: str, point: str) -> None:
    p = systems.pipeline(case, job)
    (ROOT / case / "lake").mkdir(parents=True)
    admin = systems.cluster.admin()
    admin.create_topics([NewTopic(name, 2, 1) for name in (p.source, p.sink)])
    admin.wait_for_topics([p.source, p.sink])
    admin.close()
    if job == "fan":
        systems.restore(case, b"")
    p.send(RECORDS // 3)
    p.run_well()
    p.send(RECORDS - RECORDS // 3)
    if point == "S1":
        p.die_at("D5")
        p.die_at("S1")
    elif point == "end":
        p.run_well()
    else:
        p.die_at(point)
    if job in STATES and point == "end":
        _onceflow("savepoint", "create", str(p.checkpoint), str(ROOT / case / "savepoint"))
    print(case, flush=True)


def _onceflow(*words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "onceflow.cli.main", *words], env=os.environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)


if __name__ == "__main__":
    main()
