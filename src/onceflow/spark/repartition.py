"""The state of a query that does not run, in another number of shuffle partitions: Spark's own, with a proof.

Must not know: savepoints, the journal, sinks.

Spark, from 4.2 on, rewrites state offline, as an epoch of its own that reads nothing. What it keeps for each key is
read before and after by Spark's own reader of state, and must be the same, each entry where a query looks for its key.
A query has what is kept without keys in partition 0, whatever their number; Spark's repartition puts it where the hash
of no value belongs, which is another one for most numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, cast

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import ConfigurationError, EpochFailedError
from onceflow.spark.internals import can_repartition_state, repartition_state
from onceflow.spark.session import spark_path
from onceflow.storage.store import Store

Digest = tuple[int, str]
"""How many entries, and the sum of a hash of each: the same for the same entries in any order."""

_HASH_OF_NOTHING = 42
"""Spark's hash of a row without columns: the seed."""
_OF_SPARK = "$"
"""How variables begin that Spark makes for timers: they are read as timers."""
_OF_SESSIONS = "sessionWindow"
"""How the names of operators begin that keep sessions: the last field of their key is the session's begin, by which
nothing is distributed."""


def repartition(session: SparkSession, checkpoint: SparkCheckpoint, partitions: int) -> Mapping[str, Digest]:
    """Rewrite the state of a checkpoint, and prove that each key has what it had.

    Args:
        session: A SparkSession.
        checkpoint: It. No query runs on it; where this fails it is not to be used.
        partitions: Into how many.

    Returns:
        What it kept, by part of the state.

    Raises:
        ConfigurationError: Spark cannot repartition this state; its operators are named.
        EpochFailedError: Spark did, and a key has another state than before, or has it where no query looks for it.
    """
    if not can_repartition_state(session):
        raise ConfigurationError(
            f"Spark {session.version} cannot repartition state",
            harmless="always: the savepoint is as it was, and nothing was made",
            cause=f"{partitions} shuffle partitions were asked for, and what rewrites state is not in this Spark",
            action="resume with as many partitions as it has, or rescale with PySpark 4.2",
        )
    _require_keys(session, checkpoint, partitions)
    before = {name: _digest(frame) for name, frame in _parts(session, checkpoint)}
    try:
        repartition_state(session, spark_path(session, checkpoint), partitions)
    except Exception as error:
        raise ConfigurationError(
            f"Spark cannot repartition the state of {', '.join(_operators(checkpoint.store))}: {_first_line(error)}",
            harmless="always: the savepoint is as it was, and nothing was made",
            cause=f"{partitions} shuffle partitions were asked for; what Spark has for it does not take this state",
            action="resume with as many partitions as it has; or begin with empty state (--allow-non-restored-state)",
        ) from error
    after = {name: _digest(frame) for name, frame in _parts(session, checkpoint)}
    misplaced = [name for name, frame in _parts(session, checkpoint) if _is_misplaced(name, frame, partitions)]
    different = sorted({*misplaced, *(name for name in before if before[name] != after.get(name))})
    if different or before.keys() != after.keys():
        raise EpochFailedError(
            f"Spark has repartitioned the state, and it is not what it was: {', '.join(different)}",
            harmless="always: the savepoint is as it was, and nothing was made",
            cause="an error in Spark's repartition, or in its reader of state",
            action="resume with as many partitions as it has",
        )
    return after


def _parts(session: SparkSession, checkpoint: SparkCheckpoint) -> Iterator[tuple[str, DataFrame]]:
    """All that is kept, in the parts that Spark's reader tells apart."""
    for number, told in _metadata(checkpoint.store):
        name = str(told["operatorInfo"]["operatorName"])
        options: list[dict[str, str]] = [{}]
        if name == "symmetricHashJoin":
            options = [{"joinSide": "left"}, {"joinSide": "right"}]
        elif name.startswith("transformWithState"):
            properties = json.loads(told["operatorPropertiesJson"])
            names = [str(each["stateName"]) for each in properties["stateVariables"]]
            options = [{"stateVarName": each} for each in names if not each.startswith(_OF_SPARK)]
            if properties.get("timeMode") != "NoTime":
                options.append({"readRegisteredTimers": "true"})
        for each in options:
            reader = session.read.format("statestore").options(operatorId=str(number), **each)
            yield " ".join([f"{name} {number}", *each.values()]), reader.load(spark_path(session, checkpoint))


def _digest(frame: DataFrame) -> Digest:
    """Of all entries, without the partition that they are in."""
    told = [_by_field(frame, name) for name in _columns_of_state(frame)]
    hashed = F.xxhash64(F.to_json(F.struct(*told))).cast("decimal(38,0)")
    count, total = frame.agg(F.count(F.lit(1)), F.sum(hashed)).collect()[0]
    return int(count), str(total)


def _require_keys(session: SparkSession, checkpoint: SparkCheckpoint, partitions: int) -> None:
    """Refuse what Spark would put where no query looks for it."""
    goes_to = _HASH_OF_NOTHING % partitions
    if not goes_to:
        return
    for name, frame in _parts(session, checkpoint):
        if _distributed_by(name, frame) == []:
            right = [str(n) for n in range(2, _HASH_OF_NOTHING + 1) if _HASH_OF_NOTHING % n == 0]
            raise ConfigurationError(
                f"Spark cannot repartition the state without keys of {name}: a query has it in partition 0, and Spark "
                f"would put it into partition {goes_to} of {partitions}, where it would never be found again",
                harmless="always: the savepoint is as it was, and nothing was made",
                cause=f"{partitions} shuffle partitions were asked for; an aggregate of all rows has no keys",
                action=f"take {', '.join(right[:-1])} or {right[-1]} partitions, for which the two are the same; or "
                "resume with as many as it has",
            )


def _is_misplaced(name: str, frame: DataFrame, partitions: int) -> bool:
    """Whether an entry lies in another partition than that in which a query looks for its key."""
    by = _distributed_by(name, frame)
    if by is None:
        return False
    place = F.pmod(F.hash(*by), F.lit(partitions)) if by else F.lit(0)
    return bool(frame.where(F.col("partition_id") != place).limit(1).count())


def _distributed_by(name: str, frame: DataFrame) -> list[Column] | None:
    """What a query distributes the entries of a part by; None where they have no key."""
    if "key" not in frame.columns:
        return None
    fields = cast(StructType, frame.schema["key"].dataType).names
    return [F.col("key")[field] for field in (fields[:-1] if name.startswith(_OF_SESSIONS) else fields)]


def _by_field(frame: DataFrame, name: str) -> Column:
    """A column, its fields named one by one: a row of a join's state has one more than its schema says."""
    kind = frame.schema[name].dataType
    if not isinstance(kind, StructType) or not kind.names:
        return F.col(name)
    return F.struct(*(F.col(name)[field].alias(field) for field in kind.names)).alias(name)


def _columns_of_state(frame: DataFrame) -> list[str]:
    return [name for name in frame.columns if name not in ("partition_id", "change_type", "batch_id")]


def _metadata(checkpoint: Store) -> Iterator[tuple[int, dict[str, Any]]]:
    """What Spark says of each operator, the newest where there are several."""
    states = checkpoint.below("state")
    for operator in sorted(filter(str.isdigit, states.names()), key=int):
        told = states.below(operator).below("_metadata")
        versions = sorted(filter(str.isdigit, told.below("v2").names()), key=int)
        text = told.below("v2").read(versions[-1]) if versions else told.read("metadata")
        yield int(operator), json.loads(text.decode().partition("\n")[2])


def _operators(checkpoint: Store) -> list[str]:
    return [str(told["operatorInfo"]["operatorName"]) for _, told in _metadata(checkpoint)]


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if line.startswith(": ")), lines[0] if lines else type(error).__name__)[:300]
