"""The copy job with a sweep every second, for tests that wait for one."""

import os

from onceflow.execution import sweeper
from tests.integration.jobs import copy_job

if __name__ == "__main__":
    sweeper.EVERY_S = 1.0  # type: ignore[misc]
    copy_job.job.main(until=os.environ.get("UNTIL", "caught-up"))
