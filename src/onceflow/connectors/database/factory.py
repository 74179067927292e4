"""Opens the writer of a shard: one that stages, or one that merges by itself.

Must not know: the driver, how either writes.
"""

from __future__ import annotations

from dataclasses import dataclass

from onceflow.connectors.contract import Shard, Writer
from onceflow.connectors.database.direct import DirectWriter
from onceflow.connectors.database.writer import DatabaseWriter, Settings


@dataclass(frozen=True)
class DatabaseWriterFactory:
    """Opens writers of one sink. It travels as a pickle, with the URL's password, and is never kept.

    Attributes:
        settings: What they need.
    """

    settings: Settings

    def __call__(self, shard: Shard) -> Writer:
        """Open the writer of one shard."""
        return (DirectWriter if self.settings.target.direct else DatabaseWriter)(self.settings, shard)
