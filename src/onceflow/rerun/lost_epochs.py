"""What is asked of a run of decided epochs, and what comes out: values alone.

Must not know: Spark, the journal, how an epoch is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from onceflow.connectors.contract import Run
from onceflow.execution.put_back import Lost, LostEpoch


@dataclass(frozen=True, slots=True)
class Recomputed:
    """What a sink's rows of one epoch were, and are when the plan is run again.

    Attributes:
        epoch: Which.
        sink: Whose rows.
        decided: How many rows, and their digest.
        now: The same, of the run again.
    """

    epoch: int
    sink: str
    decided: tuple[int, int]
    now: tuple[int, int]


@dataclass(frozen=True)
class Again:
    """What is written again.

    Attributes:
        run: The job's. Its epoch counts for nothing, nor its start: an epoch that is decided behind what is lost, and
            not done, has to follow it, and is of an older start than any that there could be now.
        lost: By sink.
        require_newest: Raises where another start has taken the power.
    """

    run: Run
    lost: Mapping[str, Lost]
    require_newest: Callable[[], None]

    def of(self, epoch: int) -> dict[str, LostEpoch]:
        """What each sink has lost of an epoch."""
        return {sink: each for sink, lost in self.lost.items() for each in lost.epochs if each.epoch == epoch}

    def run_of(self, epoch: int, incarnation: int) -> Run:
        """The run of an epoch, as of the start that decided it: each sink must know what it has got before."""
        newest = {
            sink: max(before, key=lambda each: each.epoch).handle
            for sink, lost in self.lost.items()
            if (before := [each for each in lost.epochs if each.epoch < epoch])
        }
        handles = {sink: each.handle for sink, each in self.of(epoch).items()}
        told = replace(self.run, epoch=epoch, newest=newest, handles=handles)
        return replace(told, incarnation=incarnation)
