"""onceflow's commands about savepoints, as a person types them."""

import json
import os
import subprocess
import sys

from tests.support.harness import JOBS


def onceflow(*arguments, **environment):
    """A command of another shell: its exit code, its object, and what it said."""
    command = [sys.executable, "-m", "onceflow", *map(str, arguments), "--output", "json"]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    return done.returncode, json.loads(lines[-1]) if lines else {}, done.stderr


def resume(p, *arguments, **environment):
    """Run the job over what is there, from a savepoint; what it said."""
    file = JOBS / f"{p.job}_job.py"
    code, _, said = onceflow("run", file, "--until", "caught-up", *arguments, "--yes", **p.settings(), **environment)
    assert code == 0, said
    return said
