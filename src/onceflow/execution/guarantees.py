"""Which guarantee a job's sinks have: their own, or that of its checkpoints.

Must not know: Spark, any particular sink.
"""

from __future__ import annotations

from collections.abc import Iterable

from onceflow.connectors.contract import Guarantee, Sink
from onceflow.options.checkpointing import Checkpointing


def settle_guarantees(sinks: Iterable[object], checkpointing: Checkpointing) -> None:
    """Give the job's mode to its sinks. Which of them take part is asked only behind this.

    Raises:
        ConfigurationError: One of them names a stronger guarantee.
    """
    mode = Guarantee(checkpointing.mode.replace("_", "-").lower())
    for sink in sinks:
        if isinstance(sink, Sink):
            sink.under(mode)
