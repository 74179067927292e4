"""Jars that only peers need: pinned, fetched by Ivy, checked at every use.

Must not know: how a peer is run.
"""

from __future__ import annotations

from pathlib import Path

from onceflow.local import jars

FLINK_CONNECTOR = jars.Jar(
    org="org.apache.flink",
    name="flink-sql-connector-kafka",
    rev="5.0.0-2.2",
    size=10_666_527,
    sha256="5605c691d11a501382c383fecba37a7a552467da5ab7ba904ef5d6f3d62c5616",
)
FLINK_AVRO = jars.Jar(
    org="org.apache.flink",
    name="flink-sql-avro-confluent-registry",
    rev="2.2.0",
    size=23_075_867,
    sha256="dc331e14107ded6e07f5f77321aa06d8019aa9f33654d0658e49648409b5b80d",
)
POSTGRESQL_DRIVER = jars.Jar(
    org="org.postgresql",
    name="postgresql",
    rev="42.7.8",
    size=1_116_727,
    sha256="2a32a9dcbc42d67a50ad3a0de5efd102c8d2be46720045f2cbd6689f160ab7c7",
)


def fetched(jar: jars.Jar) -> Path:
    """The jar's file; fetched first if the cache lacks it.

    Raises:
        SetupError: It cannot be fetched, or it is not the pinned one.
    """
    # onceflow's own lists are what it runs with, so a peer's jar stands here and takes only their mechanism.
    cache = jars.cache_folder()
    path = jar.path_in(cache)
    with jars.one_at_a_time("fetch"):
        if not path.exists():
            jars._fetch([jar], cache, lambda _done, _total: None)  # noqa: SLF001
    jars._require_whole(jar, path, action=f"delete {path}; it is fetched again.")  # noqa: SLF001
    return path
