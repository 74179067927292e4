"""The folder in which running jobs are found: one Unix socket each, in a folder that only its user can enter.

Must not know: what is said over the sockets. A job that was killed leaves its socket behind, which nobody answers;
whoever finds it so removes it.
"""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from onceflow.errors import SetupError

_SUFFIX = ".sock"


def folder() -> Path:
    """``ONCEFLOW_RUNTIME_DIR``, else ``$XDG_RUNTIME_DIR/onceflow``, else one in the folder for temporary files.

    Raises:
        SetupError: It cannot be made, or somebody else could enter it.
    """
    named, session = os.environ.get("ONCEFLOW_RUNTIME_DIR"), os.environ.get("XDG_RUNTIME_DIR")
    if named:
        path = Path(named)
    else:
        path = Path(session, "onceflow") if session else Path(tempfile.gettempdir(), f"onceflow-{os.getuid()}")
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()  # where all may write, somebody may have made it before, or a link of its name
    except OSError as error:
        raise _refused(path, error.strerror or str(error)) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise _refused(path, "it is not a folder of this user that nobody else may enter (mode 0700)")
    if not named and _may_be_moved(path):
        raise _refused(path, f"{path.parent} is another user's, who may lay another folder into its place")
    return path


def _may_be_moved(path: Path) -> bool:
    """Whether another user may rename it: he owns the folder above, or all may write there to what is not theirs."""
    above = path.parent.stat()
    return above.st_uid not in (0, os.getuid()) or above.st_mode & (stat.S_IWOTH | stat.S_ISVTX) == stat.S_IWOTH


def sockets() -> list[Path]:
    """Where jobs may answer, in the order of their names."""
    return sorted(folder().glob(f"*{_SUFFIX}"))


def new_socket() -> Path:
    """A name for one more job of this process."""
    taken = {path.name for path in sockets()}
    number = next(n for n in range(len(taken) + 1) if f"{os.getpid()}-{n}{_SUFFIX}" not in taken)
    return folder() / f"{os.getpid()}-{number}{_SUFFIX}"


def _refused(path: Path, why: str) -> SetupError:
    return SetupError(
        f"running jobs cannot be found at {path}: {why}",
        harmless="for jobs: they run as they are, and are ended by SIGTERM",
        cause="ONCEFLOW_RUNTIME_DIR or XDG_RUNTIME_DIR names it, or it is the default",
        action="remove it, or name another folder with ONCEFLOW_RUNTIME_DIR",
        folder=str(path),
    )
