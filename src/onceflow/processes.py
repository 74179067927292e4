"""Process trees: a job is a Python driver, its Java, and Java's Python workers.

Must not know: jobs. PySpark's worker daemon makes a process group of its own, so killing the driver's group leaves
workers alive; only the tree has them all.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import signal
import stat
from pathlib import Path

import psutil


def descendants(pid: int) -> list[int]:
    """All processes below ``pid``, deepest last."""
    return [process.pid for process in _below(pid)]


def stopped(pid: int) -> list[int]:
    """Which of a process and all below it stand still by a signal."""
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in (psutil.Process(pid), *_below(pid)):
            with contextlib.suppress(psutil.NoSuchProcess):
                if process.status() == psutil.STATUS_STOPPED:
                    found.append(process.pid)
    return found


def stands_still(pid: int) -> bool:
    """Whether each thread of a process is stopped by a signal; so is one that is gone.

    psutil knows the first thread's state alone, and the others may run on for a moment.
    """
    still = True
    for task in Path("/proc").glob(f"{pid}/task/*/stat"):
        with contextlib.suppress(OSError):  # the thread has ended
            still &= task.read_text().rpartition(") ")[2].startswith("T")
    return still


def kill_tree(pid: int) -> None:
    """SIGKILL a process and everything below it, the process first: it sees no other of them end, and tells of none.

    Whoever is among them does not return.
    """
    try:
        top = psutil.Process(pid)
    except psutil.NoSuchProcess:
        return
    doomed = (top, *_below(pid))
    forked = os.getpid() in {process.pid for process in doomed}
    if forked and os.fork():
        while True:  # the fork is none of them, and goes on when this process is gone
            signal.pause()
    for process in doomed:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    if forked:
        os._exit(0)


def children_with(name: str, value: str) -> list[int]:
    """Children of this process that were started with an environment variable of this value."""
    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if child.environ().get(name) == value:
                found.append(child.pid)
    return found


def began(pid: int) -> str:
    """When a process began, which tells it from another one of its number; empty if there is none."""
    try:
        return str(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return ""


def command_line(pid: int) -> str:
    """How a process was started; empty if there is none, or if it is a zombie."""
    try:
        return " ".join(psutil.Process(pid).cmdline())
    except psutil.Error:
        return ""


def others_may_write(path: Path) -> bool:
    """Whether others than this process's user and root may write to a file, or make others in a folder.

    Raises:
        OSError: It is not there, or may not be looked at.
    """
    about = path.stat()
    if is_anothers(about) or about.st_mode & stat.S_IWOTH:
        return True
    # Where a list names further users or groups, the bits of the group are the most that any of them may.
    return bool(about.st_mode & stat.S_IWGRP) and (_has_list(path) or not _is_own_group(about.st_gid))


def open_to_others(folder: Path) -> Path | None:
    """By which folder others may change what is in this one: it, or one above, to which they may lay another; or None.

    One that is not there yet is nobody's: who makes it sees then whose it is.
    """
    here = folder.resolve()
    if here.exists() and others_may_write(here):
        return here
    for above in here.parents:
        about = above.stat() if above.exists() else None
        # What is in a folder like /tmp only its user renames, and the folder's.
        if about is not None and (is_anothers(about) or not about.st_mode & stat.S_ISVTX) and others_may_write(above):
            return above
    return None


def is_anothers(about: os.stat_result) -> bool:
    """Whether a file is of neither this process's user nor root."""
    return about.st_uid not in (0, os.geteuid())


def _is_own_group(gid: int) -> bool:
    """Whether a group has this process's user as its only member, by its name too.

    Many systems give each user such a group, and umask 002. That nobody else is listed as a member is no proof
    without the name: a directory of a company's users lists those that it is asked for, and no others.
    """
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:  # nobody knows who is in it
        return False
    named = group.gr_name == user.pw_name and not set(group.gr_mem) - {user.pw_name}
    return named and all(each.pw_uid == user.pw_uid for each in pwd.getpwall() if each.pw_gid == gid)


def _has_list(path: Path) -> bool:
    """Whether a list of access (POSIX.1e) stands beside a file's mode; where it cannot be had there is none."""
    try:
        return "system.posix_acl_access" in os.listxattr(path)
    except (AttributeError, OSError):  # the system, or the file system, has none
        return False


def umask() -> int:
    """What others do not get of the files that this process makes."""
    before = os.umask(0o077)
    os.umask(before)
    return before


def _below(pid: int) -> list[psutil.Process]:
    try:
        found: list[psutil.Process] = psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return found
