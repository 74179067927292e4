"""The file that a job's log goes to where no terminal has it: for its user alone, and of a size that is bounded.

Must not know: what is written to it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import IO
from urllib.parse import quote

from onceflow.errors import SetupError

LARGEST = 20_000_000
"""Bytes; beyond it what is there becomes ``<name>.1``, in the place of the one before."""

_LONGEST = 100
"""Letters of a job's name in the file's."""


def default(job: str, checkpoint: str) -> Path:
    """Where the log of a job is that nobody has named a file for: one for each job, wherever its file is and starts.

    Args:
        job: Its name, which another project's job may have, too.
        checkpoint: Its checkpoint's URI, which no other job has.
    """
    state = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    name = f"{quote(job, safe='')[:_LONGEST]}-{hashlib.sha256(checkpoint.encode()).hexdigest()[:8]}.log"
    return Path(state, "onceflow", name)


# Without waiting: a pipe of that name has nobody at its other end.
_TO_ITS_END = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_NO_FILE = (errno.ELOOP, errno.ENXIO)


def opened(path: Path) -> IO[bytes]:
    """The file, to add to its end; of mode 0600, also where it was there with another one.

    Raises:
        SetupError: It cannot be written; or it is a link, by which others could have any file of this user's written;
            or it is another user's, who reads it and changes it.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, _TO_ITS_END, 0o600)
        try:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid():
                raise OSError(errno.EPERM, "it is another user's, or no file")
            os.fchmod(handle, 0o600)
        except OSError:
            os.close(handle)
            raise
    except OSError as error:
        raise SetupError(
            f"the log cannot be written to {path}: "
            + ("it is a link, or no file" if error.errno in _NO_FILE else error.strerror or str(error)),
            harmless="always: nothing was started",
            cause="--log names it, or it is the default (XDG_STATE_HOME)",
            action="name a file that this user may write with --log",
            file=str(path),
        ) from None
    return os.fdopen(handle, "ab", buffering=0)


def bound(path: Path) -> None:
    """Begin the file anew where it has become too large; lines that come in that moment may be missing.

    The processes that write to it go on writing to its end, so it is copied and emptied, not renamed.
    """
    try:
        if path.stat().st_size <= LARGEST:
            return
        older = path.with_name(f"{path.name}.1")
        with opened(older) as to, path.open("rb") as it:
            to.truncate(0)
            shutil.copyfileobj(it, to)
        os.truncate(path, 0)
    except (OSError, SetupError):
        return  # a full disk, or a link in the way: the job goes on
