"""The copy job with a sweep every second, for tests that wait for one."""

import os

from onceflow.execution import running
from tests.integration.jobs import copy_job

if __name__ == "__main__":
    running._SWEEP_EVERY_S = 1.0  # type: ignore[misc]
    copy_job.job.main(until=os.environ.get("UNTIL", "caught-up"))
