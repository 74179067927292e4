"""Whether a job is observed, and by what: the one place that a job asks.

Must not know: what is observed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from onceflow.control.standing import JobStatus
from onceflow.execution.observer import NOBODY, Observer
from onceflow.options.job_options import JobOptions


@contextmanager
def observed(standing: JobStatus, options: JobOptions) -> Iterator[Observer]:
    """Who is told of a job while it runs; inside of it what is told can be asked for, where a port is named.

    Args:
        standing: How the job stands.
        options: The job's, under all layers of settings.

    Raises:
        SetupError: Figures are asked for, and the library that writes them is missing.
    """
    if options.metrics.port is None:
        yield NOBODY
        return
    # Most jobs need neither.
    from onceflow.metrics.endpoint import Endpoint  # noqa: PLC0415
    from onceflow.metrics.figures import Figures  # noqa: PLC0415

    checkpointing = options.checkpointing
    figures = Figures(standing, (checkpointing.interval_ms + checkpointing.min_pause_ms) / 1000)
    with Endpoint(options.metrics, figures.samples, figures.not_ready):
        yield figures
