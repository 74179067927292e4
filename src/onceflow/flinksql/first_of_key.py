"""The first row of each key by its event time: the state that SQL cannot ask Spark for.

Must not know: tables, how a query came to ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import BinaryType, StructField, StructType

from onceflow.flinksql.relations import KeepFirst
from onceflow.spark.plan import OWN

_ROW = "$row"
_TIMES = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}  # Spark's own form cuts off what is below a millisecond


def keep_first(rows: DataFrame, step: KeepFirst) -> DataFrame:
    """Of the rows with a key the one with the least time, given once the watermark has passed that time.

    A row is carried through Python as bytes that Spark made and reads again, so no value is changed on its way. Of rows
    with the same time the one whose bytes come first is taken: the same in every run. Which rows are late is Spark's to
    say, which counts them: it goes by the watermark of the epoch before, as everywhere, so what is behind this one's
    may still come, and is given at once.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - as everywhere

    schema = rows.schema
    whole = F.to_json(F.struct(*(F.col(f"`{name}`") for name in schema.names)), {"ignoreNullFields": "false"} | _TIMES)
    keys = F.to_json(F.struct(*(F.col(f"`{name}`") for name in step.keys)), {"ignoreNullFields": "false"} | _TIMES)
    packed = rows.select(
        keys.alias("key"), F.unix_micros(F.col(f"`{step.time}`")).alias("at"), F.col(f"`{step.time}`").alias("time"),
        whole.cast("binary").alias("row"),
    ).where("at IS NOT NULL")  # fmt: skip
    kept = packed.groupBy("key").applyInPandasWithState(
        _first(),
        StructType([StructField("row", BinaryType())]),
        "at long, row binary, given boolean",
        "append",
        GroupStateTimeout.EventTimeTimeout,
    )
    parsed = F.from_json(F.col("row").cast("string"), schema, _TIMES)
    return kept.select(parsed.alias(_ROW)).select(f"`{_ROW}`.*")


def _first() -> Callable[[tuple[Any, ...], Iterator[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]:
    def first(_: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        at, row, given = state.get if state.exists else (None, None, False)
        if given:
            return
        watermark_ms = state.getCurrentWatermarkMs()
        for frame in frames:
            for when, each in zip(frame["at"], frame["row"], strict=True):
                if at is None or (int(when), bytes(each)) < (at, bytes(row)):
                    at, row = int(when), bytes(each)
        if at is None or row is None:
            return
        if at // 1000 <= watermark_ms:
            state.update((at, b"", True))
            yield pd.DataFrame({"row": [row]})
            return
        state.update((at, row, False))
        # It is to be given when the watermark has reached its time; Spark calls behind that.
        state.setTimeoutTimestamp(at // 1000)

    first.__name__ = f"{OWN}first"  # it gives the same for the same rows, in whichever order they come
    return first
