"""Settings of the audit's receipts, from the environment.

Must not know: what a receipt says, who writes it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Self

from onceflow.errors import ConfigurationError
from onceflow.options.catalogue import setting
from onceflow.options.durations import duration_ms
from onceflow.options.secret_files import tell_of_readers

RETENTION = "ONCEFLOW_AUDIT_RETENTION"
KEY_FILE = "ONCEFLOW_AUDIT_KEY_FILE"
_SHORTEST = 16


@dataclass(frozen=True)
class Auditing:
    """How receipts are kept (docs/audit.md).

    Attributes:
        retention: Files of receipts go when their newest one is older.
        key: Signs each receipt; None for none.
    """

    retention: timedelta
    key: bytes | None = field(default=None, repr=False)

    @classmethod
    def told(cls, environ: Mapping[str, str] = os.environ) -> Self:
        """What the operator says.

        Raises:
            ConfigurationError: The retention is no duration, or the key cannot be used.
        """
        given = environ.get(RETENTION) or setting("audit.retention").default
        try:
            retention = timedelta(milliseconds=duration_ms(given))
        except ConfigurationError as error:
            raise ConfigurationError(
                f"audit.retention: {error.what}",
                harmless="always: nothing was started",
                cause=f"{RETENTION} is {given!r}",
                action='write for example "7 d" or "12 h"',
                setting="audit.retention",
            ) from None
        path = environ.get(KEY_FILE)
        return cls(retention, read_key(Path(path)) if path else None)


def read_key(path: Path) -> bytes:
    """The key in a file, without the white space around it.

    Raises:
        ConfigurationError: The file cannot be read, or is too short for a key.
    """
    why = ""
    try:
        key = path.read_bytes().strip()
        tell_of_readers(path)
        if len(key) < _SHORTEST:
            why = f"it holds {len(key)} bytes, and a key has at least {_SHORTEST}"
    except OSError as error:
        why = error.strerror or str(error)
    if why:
        raise ConfigurationError(
            f"the key that signs receipts cannot be used: {why}",
            harmless="always: nothing was started",
            cause=f"{KEY_FILE} is {str(path)!r}",
            action="make one with `openssl rand -hex 32`, readable by this user alone",
            setting="audit.key_file",
        )
    return key
