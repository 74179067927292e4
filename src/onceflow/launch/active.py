"""What runs in this process: no job is started beside itself, and none takes the name of a query of its session.

Must not know: the journal, sinks, how a query is started. Between processes a second start takes over and the first one
is fenced, since a supervisor must get past a driver that hangs. In one process it is an accident, mostly a notebook's
cell that ran again: it is refused before anything is touched, and the query that runs goes on.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from onceflow.checkpoint.place import Place
from onceflow.errors import ConfigurationError


@dataclass
class Active:
    """A start on a checkpoint, and then its query.

    Attributes:
        name: The job's name.
        query: None while it is being started.
    """

    name: str
    query: StreamingQuery | None = None

    def has_ended(self) -> bool:
        """Whether its query was stopped, or failed."""
        if self.query is None:
            return False
        try:
            return not self.query.isActive
        except Exception:  # noqa: BLE001 - py4j's, of many kinds: Java is gone, and the query with it
            return True


_lock = threading.Lock()
_active: dict[str, Active] = {}
"""By the checkpoint's one name, whatever spelling of the path was given."""


@contextlib.contextmanager
def alone(uri: str, name: str) -> Iterator[Active]:
    """Start a job while nobody else does on its checkpoint. A query that is handed over keeps the place until it ends.

    Args:
        uri: The checkpoint's URI.
        name: The job's name.

    Raises:
        ConfigurationError: In this process a job runs on the checkpoint, or is being started.
    """
    mine = Active(name)
    with _lock:
        other = _active.get(uri)
        if other is not None and not other.has_ended():
            raise _refused(
                f"job {name} is not started: job {other.name} "
                f"{'is being started' if other.query is None else 'runs'} in this process on the same checkpoint, {uri}"
            )
        _active[uri] = mine
    try:
        yield mine
    finally:
        with _lock:
            if _active.get(uri) is mine and (mine.query is None or mine.has_ended()):
                del _active[uri]


def require_free(session: SparkSession, place: Place, name: str) -> None:
    """Refuse a start that Spark would refuse, or end a running query for, when the journal names the start already.

    Raises:
        ConfigurationError: A query of this name, or one on this checkpoint, runs in the session.
    """
    queries = [query for query in session.streams.active if query.isActive]
    if any(query.name == name for query in queries):
        raise _refused(f"job {name} is not started: a query of this name runs in this SparkSession")
    query_id = place.checkpoint.query_id()
    if any(str(query.id) == query_id for query in queries):
        raise _refused(f"job {name} is not started: a query runs in this SparkSession on its checkpoint, {place.uri}")


def _refused(what: str) -> ConfigurationError:
    return ConfigurationError(
        what,
        harmless="always: nothing was touched, and what runs goes on",
        cause="a cell of a notebook, or a function, was run again",
        action="to start it anew, stop() it first: query.stop() ends at a clean point, also for each of "
        "spark.streams.active",
    )
