"""What a job does to its process where the job is the whole program: its log on the terminal, its exit code.

Must not know: what runs. Only ``Job.main`` and the command line call this; a program that calls ``Job.run`` keeps its
process as it is.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from typing import NoReturn


def show_log() -> None:
    """Show our log where nobody has set up logging: an epoch's line is what a user of a terminal looks for."""
    ours = logging.getLogger("onceflow")
    if not logging.getLogger().handlers and not ours.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)


def end(by: signal.Signals, *, clean: bool) -> NoReturn:
    """End the process as its signal asks: with 128 + the signal's number.

    Args:
        by: The signal.
        clean: False: at once. Threads that wait for a broker, or for Spark's start, would hold the process; every step
            is made to be cut off.
    """
    if clean:
        sys.exit(128 + by)
    logging.shutdown()
    sys.stdout.flush()
    os._exit(128 + by)
