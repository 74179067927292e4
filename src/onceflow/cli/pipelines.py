"""One job of a script of SQL, run in this process; and what its start has to say.

Must not know: what statements mean, who gave them.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from onceflow import program

if TYPE_CHECKING:
    from onceflow.cli.starting import Until
    from onceflow.flinksql.pipelines import Pipeline
    from onceflow.job import Takeover

log = logging.getLogger(__name__)


def tell(pipeline: Pipeline) -> None:
    """Who a job is, where it goes on, and what its start has to say."""
    from onceflow.flinksql.pipelines import standing  # noqa: PLC0415 - it loads Spark

    for line in (*standing(pipeline), *pipeline.notes):
        log.info("job %s: %s", pipeline.job.name, line)


def run_here(pipeline: Pipeline, *, until: Until, takeover: Takeover | None, ending: bool = True) -> None:
    """Run one job in this process, until it ends; with ``ending`` a signal ends the process, too."""
    from onceflow.supervision.signals import Stopped  # noqa: PLC0415 - it loads Spark

    tell(pipeline)
    try:
        pipeline.job.run(until="caught-up" if pipeline.bounded else until, takeover=takeover)
    except Stopped as stopped:
        if ending or not stopped.clean:
            program.end(stopped.signal, clean=stopped.clean)
