"""The schemas of state, which Spark names by absolute paths: those of another checkpoint become this one's own.

Must not know: the journal, savepoints, who runs the job.

Of operators that keep several variables (``transformWithState``), ``state/<operator>/_metadata/v2/<epoch>`` lists the
files that hold their schemas, each with the whole path of the checkpoint that it was written in. In a checkpoint that
was moved, copied or made of a savepoint Spark would go on reading them there: until the other place is gone, whatever
lies there then. The files themselves came along, under names that nothing else ever has.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from onceflow.errors import CheckpointCorruptError
from onceflow.storage.files import Where, numbers
from onceflow.storage.store import Store
from onceflow.twophase.forms import OTHER_FORM

log = logging.getLogger(__name__)

_INSIDE = re.compile(r".*/(state/\d+/_stateSchema/.+)", re.DOTALL)
_PATHS = "stateSchemaFilePaths"


def inside(path: str) -> str:
    """Where a schema is in its checkpoint, whichever that is; the path itself where it has no such place."""
    found = _INSIDE.fullmatch(path)
    return path if found is None else found[1]


def paths_in(text: str) -> list[str]:
    """The schemas that an operator's metadata names.

    Raises:
        OTHER_FORM: It is no operator's metadata.
    """
    return [str(path) for store in _parsed(text).get("stateStoreInfo", ()) for path in store.get(_PATHS, ())]


def moved(text: str, checkpoint: Where) -> str:
    """An operator's metadata, with its schemas in another checkpoint.

    Args:
        text: The file.
        checkpoint: Where that is.
    """
    told = _parsed(text)
    for store in told.get("stateStoreInfo", ()):
        if _PATHS in store:
            store[_PATHS] = [_named(checkpoint, str(path)) for path in store[_PATHS]]
    return f"{text.partition(chr(10))[0]}\n{json.dumps(told, separators=(',', ':'))}"


def bring_home(checkpoint: Store) -> None:
    """Let a checkpoint name its own schemas, where it names another's. Only while no query runs on it.

    Whoever dies on the way does it again at the next start: each file is replaced as a whole.

    Args:
        checkpoint: Its folder.
    """
    for folder, name, text in _abroad(checkpoint):
        log.warning(
            "%s names schemas of the state in another checkpoint: from here on those of this one", folder.path(name)
        )
        folder.remove(f".{name}.crc")  # of what was there; without one Spark reads the file as it is
        folder.replace(name, moved(text, checkpoint.path()).encode())


def require_schemas(checkpoint: Store) -> None:
    """Refuse a checkpoint that names schemas in another one and has not all of them itself.

    Args:
        checkpoint: Its folder.

    Raises:
        CheckpointCorruptError: Naming the first that is missing.
    """
    for folder, name, text in _abroad(checkpoint):
        for named in paths_in(text):
            own = inside(named)
            if not checkpoint.count(own):
                raise CheckpointCorruptError(
                    f"{checkpoint.path(own)} is gone: a schema of the state, which {folder.path(name)} names as "
                    f"{named}, where the checkpoint was before, or was copied from",
                    harmless="never: Spark would read it in that other place, whatever lies there",
                    cause="the checkpoint was moved or copied in part",
                    action="copy the checkpoint again, with all of its files; nothing was changed by this start",
                    file=str(checkpoint.path(own)),
                )


def _abroad(checkpoint: Store) -> Iterator[tuple[Store, str, str]]:
    """The operators' metadata that name a schema outside of the checkpoint: folder, name, content."""
    states = checkpoint.below("state")
    for operator in map(str, numbers(states.names())):
        folder = states.below(operator).below("_metadata").below("v2")
        for name in map(str, numbers(folder.names())):
            try:
                text = folder.read(name).decode()
                named = paths_in(text)
            except (FileNotFoundError, *OTHER_FORM):
                continue  # it is empty or torn: Spark says so, if it needs it
            if any(each != _named(checkpoint.path(), each) for each in named):
                yield folder, name, text


def _named(checkpoint: Where, path: str) -> str:
    """A schema as Spark names it in a checkpoint."""
    return f"{'file:' if isinstance(checkpoint, Path) else ''}{checkpoint}/{inside(path)}"


def _parsed(text: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(text.partition("\n")[2])
    return told
