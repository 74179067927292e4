"""Settings of the audit's receipts, from the environment.

Must not know: what a receipt says, who writes it.
"""

from __future__ import annotations

import contextlib
import logging
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

log = logging.getLogger(__name__)

RETENTION = "ONCEFLOW_AUDIT_RETENTION"
KEY_FILE = "ONCEFLOW_AUDIT_KEY_FILE"
FORWARD_KEY_FILE = "ONCEFLOW_AUDIT_FORWARD_KEY_FILE"
ANCHOR = "ONCEFLOW_AUDIT_ANCHOR"
_TOPIC = "topic:"
_SHORTEST = 16


@dataclass(frozen=True)
class Auditing:
    """How receipts are kept (docs/audit.md).

    Attributes:
        retention: Files of receipts go when their newest one is older.
        key: Signs each receipt; None for none.
        anchor_file: Where the newest receipt's hash is told; None for nowhere, or for a topic.
        anchor_topic: Likewise, a topic in the cluster of the job's first Kafka sink; "" for none.
        forward_key_file: Has the key that seals the next receipt; None for none.
    """

    retention: timedelta
    key: bytes | None = field(default=None, repr=False)
    anchor_file: Path | None = None
    anchor_topic: str = ""
    forward_key_file: Path | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Self:
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
        path, anchor = environ.get(KEY_FILE), environ.get(ANCHOR, "")
        topic = anchor.removeprefix(_TOPIC) if anchor.startswith(_TOPIC) else ""
        file = Path(anchor) if anchor and not topic else None
        if file is not None and (anchor.startswith(_TOPIC) or not file.is_absolute()):
            raise ConfigurationError(
                f"receipts cannot be anchored at {anchor!r}",
                harmless="always: nothing was started",
                cause=f"{ANCHOR} is that: neither an absolute path nor topic:NAME",
                action="write for example /mnt/append-only/fraud.anchors, or topic:fraud-anchors",
                setting="audit.anchor",
            )
        forward = environ.get(FORWARD_KEY_FILE)
        if forward:
            with contextlib.suppress(OSError):  # who reads it says what is wrong with it
                tell_of_readers(Path(forward))
        return cls(retention, read_key(Path(path)) if path else None, file, topic, Path(forward) if forward else None)


def advise(preset: str | None, environ: Mapping[str, str] = os.environ) -> None:
    """Warn where a preset is for money, and the audit would prove less than it can."""
    lacks = [name for name in (KEY_FILE, ANCHOR) if not environ.get(name)]
    if preset == "finance" and lacks:
        log.warning(
            "the preset finance goes with receipts that are signed and anchored, and %s not set: an audit proves less "
            "against people than it can (docs/audit.md)",
            " and ".join(lacks) + (" are" if len(lacks) > 1 else " is"),
        )


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
