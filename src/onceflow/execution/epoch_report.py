"""What is told of an epoch, of the driver's part.

Must not know: who tells it, who is told.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass
class EpochReport:
    """One epoch.

    Attributes:
        epoch: Its number.
        incarnation: Of the start that ran it.
        began_at: In seconds since 1970.
        rows: By sink.
        participants: How many took part in the decision.
        phases: Seconds, by phase.
    """

    epoch: int
    incarnation: int = 0
    began_at: float = field(default_factory=time.time)
    rows: dict[str, int] = field(default_factory=dict)
    participants: int = 0
    phases: dict[str, float] = field(default_factory=dict)

    def spent(self, phase: str, seconds: float) -> None:
        """So long went into a phase."""
        self.phases[phase] = self.phases.get(phase, 0.0) + seconds

    def wrote(self, sink: str, rows: int) -> None:
        """So many rows went to a sink."""
        self.rows[sink] = self.rows.get(sink, 0) + rows
