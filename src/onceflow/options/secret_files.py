"""A file that holds a secret: who else may read it.

Must not know: what the secret is for.
"""

from __future__ import annotations

import logging
import stat
from pathlib import Path

log = logging.getLogger(__name__)


def tell_of_readers(path: Path) -> None:
    """Warn of a file that others than its owner may read. A volume of a container's secrets is often so.

    Args:
        path: A file with a secret.

    Raises:
        OSError: It is not there.
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        log.warning(
            "%s holds a secret, and others than its owner may read it (mode %04o): chmod 600 it, unless its folder "
            "keeps them out",
            path,
            mode,
        )
