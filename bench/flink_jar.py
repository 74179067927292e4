"""The one jar that PyFlink needs beside its own: Flink's Kafka connector, pinned, fetched by Ivy, checked at every use.

Must not know: how Flink is run.
"""

from __future__ import annotations

from pathlib import Path

from onceflow.local import jars

CONNECTOR = jars.Jar(
    org="org.apache.flink",
    name="flink-sql-connector-kafka",
    rev="5.0.0-2.2",
    size=10_666_527,
    sha256="5605c691d11a501382c383fecba37a7a552467da5ab7ba904ef5d6f3d62c5616",
)


def flink_jar() -> Path:
    """The connector's file; fetched first if the cache lacks it.

    Raises:
        SetupError: It cannot be fetched, or it is not the pinned one.
    """
    # onceflow's own lists are what it runs with, so a peer's jar stands here and takes only their mechanism.
    cache = jars.cache_folder()
    path = CONNECTOR.path_in(cache)
    with jars.one_at_a_time("fetch"):
        if not path.exists():
            jars._fetch([CONNECTOR], cache, lambda _done, _total: None)  # noqa: SLF001
    jars._check(CONNECTOR, path, action=f"delete {path}; it is fetched again.")  # noqa: SLF001
    return path
