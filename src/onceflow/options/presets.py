"""Presets: settings that go together for a kind of job, as one table, each value with its reason.

A preset is a layer just above the defaults: what the job's author, a file, a variable or a flag says goes before it.

Must not know: what is done with settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from onceflow.errors import ConfigurationError

KEY = "preset"


@dataclass(frozen=True, slots=True)
class Chosen:
    """A value, as it is written, and why."""

    value: str
    why: str


_INTERVAL = "execution.checkpointing.interval"
_TOLERABLE = "execution.checkpointing.tolerable-failed-checkpoints"
_MODE = "execution.checkpointing.mode"
_INCREMENTAL = "execution.checkpointing.incremental"
_RETENTION = "execution.checkpointing.externalized-checkpoint-retention"
_EXACTLY, _ONCE_OR_MORE, _RETAIN = "EXACTLY_ONCE", "AT_LEAST_ONCE", "RETAIN_ON_CANCELLATION"
_LESS = "an epoch writes what it has changed of the state; all of it was six times as much and more"

PRESETS: Mapping[str, Mapping[str, Chosen]] = {
    "finance": {
        _INTERVAL: Chosen(
            "5s", "a payment is visible some seconds after it came; a shorter interval costs more epochs"
        ),
        _TOLERABLE: Chosen("0", "every failed epoch counts for the restart strategy, so that it is seen"),
        _MODE: Chosen(_EXACTLY, "an alert that comes twice is acted on twice"),
        _INCREMENTAL: Chosen("true", _LESS),
        _RETENTION: Chosen(_RETAIN, "what was decided can be shown after the job's end, too"),
    },
    "balanced": {
        _INTERVAL: Chosen("10s", "the fixed cost of an epoch is some per cent of it, and few people wait for less"),
        _TOLERABLE: Chosen("3", "a broker that changes its leaders fails an epoch or two, which nobody has to see"),
        _MODE: Chosen(_EXACTLY, "it costs little at this interval, and nobody has to remove what came twice"),
        _INCREMENTAL: Chosen("true", _LESS),
    },
    "logs": {
        _INTERVAL: Chosen(
            "30s", "what is searched by people may come half a minute later, and large epochs cost least"
        ),
        _TOLERABLE: Chosen("10", "a gap in the stream of logs is worse than an epoch that is run again"),
        _MODE: Chosen(_ONCE_OR_MORE, "a line that comes twice does no harm, and readers wait for no transaction"),
        _INCREMENTAL: Chosen("true", _LESS),
    },
    "warehouse": {
        _INTERVAL: Chosen("1 min", "each epoch is one version of a table, and many small files are slow to read"),
        _TOLERABLE: Chosen("3", "catalogs and object stores refuse now and then; the next try is one minute away"),
        _MODE: Chosen(_EXACTLY, "a sum counts a row that came twice twice, for ever"),
        _INCREMENTAL: Chosen("true", _LESS),
        _RETENTION: Chosen(_RETAIN, "a table's loads go on where they ended, whoever cancelled the job"),
    },
}
"""By name, under the keys of the catalogue."""


def preset(name: str) -> Mapping[str, Chosen]:
    """The preset of this name.

    Raises:
        ConfigurationError: There is none; the message says which one may have been meant.
    """
    if name in PRESETS:
        return PRESETS[name]
    meant = get_close_matches(name, PRESETS, n=1, cutoff=0.5)
    raise ConfigurationError(
        f"there is no preset {name!r}",
        harmless="always: nothing was started",
        cause=f"the presets are {', '.join(PRESETS)}",
        action=f"did you mean {meant[0]}?" if meant else "docs/choosing.md says which is for what",
    )
