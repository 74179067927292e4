"""What is to be started: a job's name, its checkpoint, and how its query runs.

Must not know: Spark, sinks, what a start does with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from onceflow.checkpoint.deleting import require_not_deleting
from onceflow.checkpoint.place import Place
from onceflow.connectors.source_contract import Connector
from onceflow.errors import ConfigurationError
from onceflow.execution.means import REAL, Means
from onceflow.execution.observer import NOBODY, Observer
from onceflow.formats.schemas import WantedSchema
from onceflow.options.checkpointing import Checkpointing
from onceflow.twophase.names import DEFAULT_PREFIX, PREFIX

OutputMode = Literal["append", "update", "complete"]


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What to start.

    Attributes:
        name: The job's name.
        checkpointing: Where the checkpoint is, and how often.
        prefix: First part of the transactional ids.
        output_mode: Spark's.
        bounded: Take what is there and end.
        takeover: None; ``"claim"``: the checkpoint was moved or put back on purpose; ``"as-new"``: it is a second,
            independent job from here on.
        limits: The sources were loaded with the limit that ``epoch_limit`` gave.
        connectors: Who may have made the plan's sources.
        parallelism: Partitions of a shuffle, where somebody has said it.
        watched: Whoever starts it waits for its end, and is told why; else the log tells it.
        code: A hash of the job's code, for its receipts; "" where it is not known.
        observer: Told of what happens while it runs.
        wanted: Schemas that records have named since the checkpoint knows its own.
        fixed_tables: The static tables that it reads stay as they are.
    """

    name: str
    checkpointing: Checkpointing
    prefix: str = DEFAULT_PREFIX
    output_mode: OutputMode = "append"
    bounded: bool = False
    takeover: Literal["claim", "as-new"] | None = None
    limits: bool = False
    connectors: Sequence[Connector] = ()
    watched: bool = True
    code: str = ""
    parallelism: int | None = None
    observer: Observer = NOBODY
    fixed_tables: bool = False
    wanted: tuple[WantedSchema, ...] = ()

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise ConfigurationError(
                f"a job cannot be named {self.name!r}",
                cause="Spark shows its query under this name, and takes none that is empty",
                action="give it a name",
            )
        if PREFIX.fullmatch(self.prefix) is None:
            raise ConfigurationError(
                f"transactional_id_prefix {self.prefix!r} is refused",
                cause="it begins transactional ids: letters, digits, '.', '_' and '-', at most 64",
                action="choose another one",
            )


def place_of(request: StartRequest, means: Means = REAL) -> Place:
    """The job's checkpoint.

    Raises:
        CheckpointConflictError: It is being deleted.
    """
    place = means.opened(request.checkpointing.location, request.checkpointing.retain)
    require_not_deleting(place)
    return place
