"""A checkpoint's epochs in Flink's three views: overview, summary and history.

Must not know: how they are shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onceflow.checkpoint.failures import FailureLine
from onceflow.checkpoint.place import Place
from onceflow.checkpoint.statistics import EpochStatistics
from onceflow.errors import ConfigurationError

Opened = Callable[[str, int], Place]
_ANY = 2  # of how many epochs Spark keeps files is no matter to one who reads statistics


@dataclass(frozen=True)
class Spread:
    """The least, the average and the greatest of some numbers."""

    minimum: float
    average: float
    maximum: float


@dataclass(frozen=True)
class Overview:
    """What is kept of a checkpoint's epochs.

    Attributes:
        uri: The checkpoint's URI.
        completed: How many were recorded, of those that are kept.
        failed: How many failed, by the error's class.
        restored: How often a start has taken the checkpoint over after the first one, since it was made.
        summary: Of the completed ones, by what was measured: ``duration_ms``, ``records_in``, ``rows_out``,
            ``state_bytes``, and each phase; only what there is.
        history: The epochs, oldest first.
    """

    uri: str
    completed: int
    failed: dict[str, int]
    restored: int
    summary: dict[str, Spread]
    history: tuple[EpochStatistics, ...]


def overview(location: str, opened: Opened = Place.at) -> Overview:
    """What is kept at a checkpoint's location.

    Args:
        location: It.
        opened: Opens it.

    Raises:
        ConfigurationError: Nothing of a job is there.
        CheckpointError: It cannot be read.
    """
    place = _found(opened(location, _ANY))
    history = tuple(place.statistics.read())
    done = [each for each in history if each.status == "COMPLETED"]
    failed = Counter(each.failure for each in history if each.status == "FAILED")
    restored = max(place.journal.starts() - 1, 0)
    return Overview(place.uri, len(done), dict(failed), restored, _summary(done), history)


def failures(location: str, opened: Opened = Place.at) -> list[FailureLine]:
    """What the job has failed by, of the checkpoint at a location, oldest first.

    Args:
        location: It.
        opened: Opens it.

    Raises:
        ConfigurationError: Nothing of a job is there.
        CheckpointError: It cannot be read.
    """
    return _found(opened(location, _ANY)).failures.read()


def _found(place: Place) -> Place:
    if place.is_empty():
        raise ConfigurationError(
            f"there is no checkpoint at {place.checkpoint.where}",
            cause="the job was not started yet, or the path is relative and this is another folder than the job's",
            action="start the job, or name the job's file from the folder in which it is started",
            checkpoint=place.uri,
        )
    return place


def _summary(done: Sequence[EpochStatistics]) -> dict[str, Spread]:
    measured: dict[str, Callable[[EpochStatistics], float | None]] = {
        "duration_ms": lambda each: each.duration_ms,
        "records_in": lambda each: sum(each.records_in.values()),
        "rows_out": lambda each: sum(each.rows_out.values()),
        "state_bytes": lambda each: each.state_bytes,
    }
    found = {
        name: _spread([value for value in map(take, done) if value is not None]) for name, take in measured.items()
    }
    phases = dict.fromkeys(name for each in done for name in each.phases_ms)
    for name in phases:
        found[f"{name}_ms"] = _spread([each.phases_ms[name] for each in done if name in each.phases_ms])
    return {name: spread for name, spread in found.items() if spread is not None}


def _spread(values: Sequence[float]) -> Spread | None:
    return Spread(min(values), round(sum(values) / len(values), 1), max(values)) if values else None
