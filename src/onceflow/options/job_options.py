"""What a job's operator may change without its author: the author's objects, and the same under the layers of settings.

Must not know: who asks, Spark, Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, TypeVar

from onceflow.errors import ConfigurationError, RefusedSettingError
from onceflow.options.checkpointing import Checkpointing
from onceflow.options.layers import DEFAULT, PYTHON, SPARK, Effective, effective
from onceflow.options.restarting import STRATEGIES, RestartStrategy

Made = TypeVar("Made", Checkpointing, RestartStrategy)
_LARGEST_PORT = 65_535


@dataclass(frozen=True)
class MetricsAddress:
    """Where a job tells its figures and its health.

    Attributes:
        host: The address of this machine.
        port: The port; None: nowhere.
    """

    host: str = "127.0.0.1"
    port: int | None = None


@dataclass(frozen=True)
class JobOptions:
    """As its author wrote them.

    Attributes:
        checkpointing: Where the checkpoint is, and how often.
        restart: What follows a failure.
        parallelism: Partitions of a shuffle, or None where nobody has said it.
        metrics: Where it tells its figures: what its operator says alone.
        spark: Settings of the session that is made for the job: likewise.
    """

    checkpointing: Checkpointing
    restart: RestartStrategy
    parallelism: int | None = None
    metrics: MetricsAddress = MetricsAddress()
    spark: Mapping[str, str] = field(default_factory=dict)

    def layers(
        self, flags: Mapping[str, str], script: Mapping[str, str] = MappingProxyType({})
    ) -> dict[str, Effective]:
        """Each setting by name, with where it comes from.

        Args:
            flags: What the command line says, by Flink's keys.
            script: What a script of SQL has SET, likewise.

        Raises:
            ConfigurationError: A key is unknown, or a value cannot work.
        """
        kind = type(self.restart)
        said = {_checkpointing(name): getattr(self.checkpointing, name) for name in Checkpointing.model_fields}
        said |= {_restart(kind, each.name): getattr(self.restart, each.name) for each in fields(kind)}
        said |= {"restart.type": self.restart.type, "job.parallelism": self.parallelism}
        defaults = effective({}, {}, {})
        # What is as it is by default was hardly said: an author's object has all of its fields.
        python = {name: value for name, value in said.items() if value != defaults[name].value}
        return effective(flags, python, script=script)

    def under(self, flags: Mapping[str, str]) -> JobOptions:
        """These options as they are under flags, variables, and a file.

        Args:
            flags: What the command line says, by Flink's keys.

        Raises:
            ConfigurationError: A key is unknown, or a value cannot work.
        """
        found = self.layers(flags)
        backend, parallelism = found["job.state_backend"], found["job.parallelism"]
        if backend.value != "rocksdb":
            raise _refused(backend)
        if parallelism.value is not None and parallelism.value < 1:
            raise _wrong(parallelism, "is not at least 1")
        kind = next(each for each in STRATEGIES if each.type == found["restart.type"].value)
        checkpointing = {_keyword(name): found[_checkpointing(name)] for name in Checkpointing.model_fields}
        restart = {_keyword(each.name): found[_restart(kind, each.name)] for each in fields(kind)}
        strategy: RestartStrategy = _made(kind, restart)
        # What the author wrote is a setting of the session that is made for the job, and of no other one.
        said = None if parallelism.source == PYTHON else parallelism.value
        metrics = MetricsAddress(found["metrics.bind_host"].value, _port(found["metrics.port"]))
        spark = {name: str(each.value) for name, each in found.items() if name.startswith(SPARK)}
        return JobOptions(_made(Checkpointing, checkpointing), strategy, said, metrics, spark)


def _port(of: Effective) -> int | None:
    port: int | None = of.value
    if port is not None and not 0 <= port <= _LARGEST_PORT:
        raise ConfigurationError(
            f"{of.setting.key}: {port} is no port",
            harmless="always: nothing was started",
            cause=f"{of.source} says {of.text!r}",
            action=f"give a number from 0, which is any free one, to {_LARGEST_PORT}",
            setting=of.setting.key,
        )
    return port


def _made(kind: type[Made], told: Mapping[str, Effective]) -> Made:
    """An object of the author's kind; of a value that it refuses it is said who gave it."""
    try:
        return kind(**{name: _given(each) for name, each in told.items()})
    except ConfigurationError as error:
        of = told.get(error.facts.get("setting", ""))
        if of is None or of.source in (PYTHON, DEFAULT):
            raise
        raise _wrong(of, error.what.rpartition(": ")[2]) from None


def _wrong(of: Effective, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{of.setting.key}: {why}",
        harmless="always: nothing was started",
        cause=f"{of.source} says {of.text!r}",
        action="write it as docs/settings.md says",
        setting=of.setting.key,
    )


def _refused(backend: Effective) -> RefusedSettingError:
    return RefusedSettingError(
        f"state.backend.type: {backend.text} is refused",
        harmless="always: nothing was started",
        cause=f"{backend.source} says {backend.text!r}; Spark's store in memory cannot keep the state of a run that "
        "was not recorded apart from that of the run that is, so an epoch that is run again could count twice; and "
        "execution.checkpointing.incremental is RocksDB's changelogs, which it does not have",
        action="use rocksdb, which is the default",
        setting="state.backend.type",
    )


def _checkpointing(field: str) -> str:
    return f"checkpointing.{_keyword(field)}"


def _restart(kind: type[RestartStrategy], field: str) -> str:
    return f"restart.{kind.type.replace('-', '_')}.{_keyword(field)}"


def _keyword(field: str) -> str:
    return field.removesuffix("_ms")


def _given(of: Effective) -> Any:
    return of.text if of.setting.type == "duration" else of.value
