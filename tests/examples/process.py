"""A job of an example as a process of its own, with a log, that ends or is ended.

Must not know: any particular example.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from onceflow.processes import kill_tree


def ended(
    command: Sequence[str],
    log: Path,
    environment: Mapping[str, str],
    seconds: float,
    meanwhile: Callable[[int], object] = id,
) -> int:
    """Run it in the folder above its log, and wait for its end; its exit code.

    Args:
        command: What is run.
        log: Where it says what it does.
        environment: Beside this process's own.
        seconds: It and all below it are killed when these are over.
        meanwhile: Called with its number once it runs.

    Raises:
        RuntimeError: It did not end in time.
    """
    with log.open("w") as out:
        process = subprocess.Popen(
            command, cwd=log.parent, env=os.environ | environment, stdout=out, stderr=subprocess.STDOUT
        )
        try:
            meanwhile(process.pid)
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise RuntimeError(f"{command[-1]} did not end in {seconds:g} s, see {log}") from None
        finally:
            if process.poll() is None:
                kill_tree(process.pid)
                process.wait()
