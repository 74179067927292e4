"""A program that runs the copy job inside itself: stopped by a signal it goes on, and runs the job again to its end."""

import logging
import signal

import onceflow as of
from tests.integration.jobs import copy_job


def theirs(*_: object) -> None:
    """The program's own handler."""


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    signal.signal(signal.SIGTERM, theirs)
    signal.signal(signal.SIGINT, theirs)
    try:
        copy_job.job.run()
    except of.Stopped as stopped:
        print(f"{stopped}, clean: {stopped.clean}", flush=True)
    assert signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGINT) is theirs
    copy_job.job.run(until="caught-up")
    assert signal.getsignal(signal.SIGTERM) is signal.getsignal(signal.SIGINT) is theirs
    print("the program goes on", flush=True)
