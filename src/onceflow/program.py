"""What a job does to its process where the job is the whole program: its log, its last words, its exit code.

Must not know: what runs. ``Job.main`` and the command line call this; a program that calls ``Job.run`` keeps its
process as it is, unless it asks for the log itself.

Exit codes, which supervisors go by: 0 good, 1 failed and a person is needed, 2 wrong usage (the command line only),
75 failed by what passes (sysexits' EX_TEMPFAIL): start it again as it is, 130 and 143 ended by SIGINT and SIGTERM.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import resource
import signal
import sys
from typing import Any, NoReturn

from onceflow.errors import ConfigurationError, OnceflowError
from onceflow.masking import printable

DEBUG = "ONCEFLOW_DEBUG"
"""The variable that asks for tracebacks."""

UMASK = "ONCEFLOW_UMASK"
"""The variable that says what others get of the files."""

FAILED, TRY_AGAIN = 1, 75


class _Lines(logging.Formatter):
    """Lines in which names and messages of others move no terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, with what moves a terminal as escapes."""
        return printable(super().format(record))


def show_log() -> None:
    """Show onceflow's log on stderr: the phases of a start, a line for each epoch, what is waited for.

    ``job.main()`` and ``onceflow run`` call it; a notebook, or a program that calls ``start`` or ``job.run()``, may.
    Where logging is set up it changes nothing: ``logging.getLogger("onceflow").setLevel(logging.INFO)`` shows it there.
    """
    ours = logging.getLogger("onceflow")
    if not logging.getLogger().handlers and not ours.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(_Lines("%(asctime)s %(levelname)-7s %(message)s"))
        ours.addHandler(handler)
        ours.setLevel(logging.INFO)
        # py4j logs by `logging.info(…)`, which gives the root logger a handler: every line would come twice.
        ours.propagate = False
    if not os.environ.get(DEBUG):
        _silence_py4j()


def _silence_py4j() -> None:
    """Keep py4j's tracebacks out: what it tells is raised as well, here or in Java, and comes back as an error.

    Where a stop cuts a call to Java off, they are pages of broken connections.
    """
    logging.getLogger("py4j").propagate = False
    root = logging.getLogger()
    if not any(isinstance(each, _NotPy4j) for each in root.filters):
        root.addFilter(_NotPy4j())


class _NotPy4j(logging.Filter):
    """Of what is logged on the root logger itself, all but py4j's."""

    def filter(self, record: logging.LogRecord) -> bool:
        return f"{os.sep}py4j{os.sep}" not in record.pathname


def require_sql() -> None:
    """Look whether what reads SQL is installed.

    Raises:
        ConfigurationError: It is not.
    """
    missing = [name for name in ("sqlglot",) if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"SQL needs {', '.join(missing)}, which comes with the extra [sql]",
            action="pip install '.[cli,sql]' in onceflow's folder",
        )


def exit_code(error: OnceflowError) -> int:
    """What a supervisor learns of an error: whether the same job may be started again, unchanged."""
    return TRY_AGAIN if error.retriable else FAILED


def last_words(error: OnceflowError) -> str:
    """An error as an operator reads it: its message, and for the supervisor its kind and its exit code."""
    again = "start it again as it is" if error.retriable else "do not start it again as it is"
    return f"error: {error}\n  {type(error).__name__}, exit code {exit_code(error)}: {again}"


def fail(error: OnceflowError) -> NoReturn:
    """End the process by an error: its message, without a traceback unless one is asked for."""
    if os.environ.get(DEBUG):
        raise error
    sys.stderr.write(f"{last_words(error)}\n")
    leave(exit_code(error))


def keep_files_private() -> None:
    """Let nobody else read what this process and its Java write: checkpoints, state and shuffles hold rows as they are.

    A core, which would have passwords in it, is dumped by none of them.

    Raises:
        ConfigurationError: The variable that says what else others get is no umask.
    """
    given = os.environ.get(UMASK) or "077"
    try:
        mask = int(given, 8)
        if not 0 <= mask <= 0o777:
            raise ValueError
    except ValueError:
        raise ConfigurationError(
            f"{UMASK} is {given!r}, and no umask",
            harmless="always: nothing was started",
            cause="it is written in octal digits, as a shell's umask is",
            action=f"write 077 (for nobody else), 027 (a group reads), or leave {UMASK} away",
            setting="process.umask",
        ) from None
    os.umask(os.umask(0o077) | mask)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def bear_a_full_log() -> None:
    """Let no line that cannot be written any more end the process, or change its exit code: the log's disk may be full.

    It holds for standard error, where the log and all that is said on the way goes; for as long as nobody has put
    something else in its place.
    """
    error = sys.__stderr__
    if error is None or sys.stderr is not error:
        return
    with contextlib.suppress(OSError, ValueError):  # it is closed
        raw = _Bearing(error.fileno())
        sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(raw), encoding=error.encoding, errors="backslashreplace", line_buffering=True
        )


class _Bearing(io.RawIOBase):
    """What is written to a descriptor, or is lost."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        try:
            return os.write(self._descriptor, data)
        except OSError:
            return len(data)


def leave(code: int) -> NoReturn:
    """End the process with this code, also where standard output takes no more: Python would make it 120."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: PTH123, SIM115 - until the process has ended
    sys.exit(code)


def end(by: signal.Signals, *, clean: bool) -> NoReturn:
    """End the process as its signal asks: with 128 + the signal's number.

    Args:
        by: The signal.
        clean: False: at once. Threads that wait for a broker, or for Spark's start, would hold the process; every step
            is made to be cut off.
    """
    if clean:
        leave(128 + by)
    logging.shutdown()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(128 + by)
