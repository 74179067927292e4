"""Outputs: what a stream function may return, how several outputs become one query, and what tasks get of an epoch.

Must not know: the journal, any particular sink.

Several outputs share one epoch and one decision by being one query: a union of rows with columns for each sink, null in
the rows of the others. Each branch stands in the plan with its source, and so has positions of its own; those that
only select and filter what they start from are read together (``spark/one_read.py``). Above the union each row gets the
number of its partition: below it every branch would count from 0, and above the groups that tasks take it would be the
task's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from onceflow.connectors.contract import Sink
from onceflow.connectors.source_contract import Connector, Source
from onceflow.errors import ConfigurationError
from onceflow.execution.row_hash import sha256_of
from onceflow.execution.task import DIGEST, LATE, PARTITION, SHA256, output_column
from onceflow.formats.contract import column_named
from onceflow.spark.kept import kept_of
from onceflow.spark.late_rows import drops, is_late, late_alone, watermark_ms, with_time
from onceflow.spark.marks import one_mark
from onceflow.spark.one_read import read_once
from onceflow.spark.plan import Leaf, leaves_of, states_of
from onceflow.twophase.layout import Kept, StateOperator, Watermark

if TYPE_CHECKING:
    from pyspark.sql import Column


REASON = "reason"
"""The column that the rows which a sink refuses have before their own."""

_TAKEN = re.compile(rf"{REASON}|output_\d+_.*|onceflow_.*", re.IGNORECASE)

_REFUSED = "onceflow_refused"
"""Beside the columns of a sink for refused rows, until it is known which they are: why a row is refused, or null."""


class Outputs:
    """What a stream function returned, as one query.

    Args:
        result: One DataFrame, whose rows all sinks get; or ``{sink: DataFrame}``.
        sinks: The sinks of the job, for one DataFrame.
        connectors: Who may have made the sources, of which some have dead letters: each is one more output.
        mode: Spark's output mode.
        keyed: Each row's message goes along, as SHA-256: the job has a key for its rows.
        limits_of: What the system of a sink with ``on_refused`` takes of a row.

    Raises:
        ConfigurationError: It is no streaming DataFrame, or the sinks do not fit.
    """

    def __init__(
        self,
        result: object,
        sinks: Sequence[Sink],
        connectors: Sequence[Connector] = (),
        mode: str = "append",
        *,
        keyed: bool = False,
        limits_of: Callable[[Sink], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        if isinstance(result, DataFrame):
            if not sinks:
                raise ConfigurationError(
                    "the stream has no sink", action="name one with sinks=[...], or return {sink: DataFrame}"
                )
            by_sink = dict.fromkeys(sinks, result)
        elif isinstance(result, Mapping) and result:
            by_sink = dict(result)
        else:
            raise ConfigurationError(
                f"the stream function returned {type(result).__name__}",
                action="return one streaming DataFrame, or {sink: DataFrame}",
            )
        for sink, frame in by_sink.items():
            if not isinstance(sink, Sink) or not isinstance(frame, DataFrame) or not frame.isStreaming:
                raise ConfigurationError(
                    f"output {getattr(sink, 'name', sink)!r} is no streaming DataFrame for a sink",
                    cause=f"got {type(frame).__name__} for {type(sink).__name__}",
                    action="start from KafkaSource(...).load(spark) or spark.readStream",
                )
        dead_letters = _dead_letters(by_sink.values(), connectors)
        _require_apart(dead_letters, by_sink)
        self.dead_letter_sinks = tuple(dict.fromkeys(sink for sink, _, _ in dead_letters))
        """Those of the sinks that get what cannot be read."""
        self._refusing = {sink.on_refused: sink for sink in by_sink if sink.on_refused is not None}
        _require_own(self._refusing, by_sink, self.dead_letter_sinks)
        self.sinks: tuple[Sink, ...] = (*by_sink, *self.dead_letter_sinks, *self._refusing)
        names = [sink.name for sink in self.sinks]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ConfigurationError(f"two sinks are named {', '.join(twice)}", action="give one of them another name=")
        # In the order of the sinks' names: then the order in which a dict names them moves no position.
        distinct = {id(frame): frame for frame in by_sink.values()}
        by_sink |= {refused: by_sink[sink] for refused, sink in self._refusing.items()}
        named = {key: tuple(sorted(s.name for s, f in by_sink.items() if id(f) == key)) for key in distinct}
        frames = [(named[key], distinct[key]) for key in distinct]
        frames += [((sink.name,), frame) for sink, _, frame in dead_letters]
        self._frames = sorted(frames, key=itemgetter(0))
        self._mode = mode
        self.keyed = keyed
        self._late = {id(frame): with_time(frame, LATE) for _, frame in self._frames if is_late(frame)}
        self._require_late(mode)
        self._limits_of = limits_of
        self._written: dict[str, list[Column]] = {}
        self._branches: list[DataFrame] = []
        self._along: set[int] = set()
        self.together = ""
        """Which branches are read together, by their places: what an origin is of, beside what was read."""
        self.query = self._encoded(mode).withColumn(PARTITION, F.spark_partition_id())
        """The one streaming DataFrame to start: what ``task.Task`` gets of each row."""

    def of_epoch(self, rows: DataFrame, executed: Callable[[], Any]) -> DataFrame:
        """An epoch's rows as tasks get them: of those of ``late_rows`` the ones that are late.

        Args:
            rows: What the query gives.
            executed: Gives Spark's physical plan of the epoch.

        Raises:
            LookupError: The plan drops no rows.
        """
        late = {name for outputs, frame in self._frames if id(frame) in self._late for name in outputs}
        if not late:
            return rows
        digests = {i: output_column(i, DIGEST) for i in range(len(self.sinks))}
        times = {output_column(i, LATE): digests.pop(i) for i, sink in enumerate(self.sinks) if sink.name in late}
        return late_alone(rows, times, digests.values(), watermark_ms(executed()))

    @property
    def side_sinks(self) -> tuple[Sink, ...]:
        """Those of the sinks that get what cannot be read, or what another one refuses."""
        return (*self.dead_letter_sinks, *self._refusing)

    def fields(self, sink: Sink) -> StructType:
        """The columns of a sink's DataFrame."""
        return self._seen_by(sink).schema

    def _seen_by(self, sink: Sink) -> DataFrame:
        """What a sink's columns are made of: of what is refused with the reason, which stands here for any."""
        frame = next(frame for outputs, frame in self._frames if sink.name in outputs)
        return frame.select(F.lit("").alias(REASON), "*") if sink in self._refusing else frame

    def hashed(self, sink: Sink) -> list[StructField]:
        """The columns of a sink that the digest of its rows is made of, behind the sink's destination, in order."""
        return self._fields(self.sinks.index(sink))

    def leaves(self) -> list[Leaf]:
        """The streaming sources, in the order of the lines of Spark's ``offsets/N``."""
        return [
            replace(leaf, is_read=place not in self._along)
            for place, (outputs, frame) in enumerate(self._frames)
            for leaf in leaves_of(frame, outputs)
        ]

    def states(self) -> list[StateOperator]:
        """The state operators, in the order of the plan."""
        return [state for outputs, frame in self._frames for state in states_of(frame, outputs)]

    def mark(self) -> Watermark | None:
        """The one watermark that all state goes by; None where there is none such."""
        return one_mark(self.query)

    def kept(self) -> list[Kept]:
        """What Spark keeps for the state operators: what the sinks do not take is not among it."""
        written = zip(self._frames, self._branches, strict=True)
        return [kept for (outputs, _), branch in written for kept in kept_of(branch, outputs, self._mode)]

    def _require_late(self, mode: str) -> None:
        """Refuse late rows where nothing is dropped."""
        others = [frame for _, frame in self._frames if id(frame) not in self._late]
        for names, late in self._frames:
            if id(late) not in self._late or (mode != "complete" and any(drops(frame, late) for frame in others)):
                continue
            raise ConfigurationError(
                f"late rows are to be written to {', '.join(names)}, and no output of the job drops them",
                harmless="always: nothing was started or changed",
                cause=f"output_mode is {mode!r}, in which nothing is dropped"
                if mode == "complete"
                else "late_rows(...) finds what an operator drops; an output that comes of it makes Spark run that",
                action='return the stream that late_rows(...) was given as an output too, in mode "append" or "update"',
            )

    def _encoded(self, mode: str) -> DataFrame:
        """One branch for each different frame: the columns of its own sinks, null for the others'."""
        branches = [
            self._encode(frame, [i for i, sink in enumerate(self.sinks) if sink.name in names])
            for names, frame in self._frames
        ]
        self._branches = branches
        if len(branches) == 1:
            return branches[0]
        types = {field.name: field.dataType for branch in branches for field in branch.schema}
        reads = read_once(branches, mode)
        self.together = " ".join("+".join(map(str, places)) for places in reads.together)
        self._along = {place for _, *others in reads.together for place in others}
        full = [
            branch.select(
                *(column_named(name) if name in branch.columns else _null(name, kind) for name, kind in types.items())
            )
            for branch in reads.frames
        ]
        return reduce(DataFrame.unionByName, full)

    def _encode(self, frame: DataFrame, indexes: Sequence[int]) -> DataFrame:
        # Flat, and in two steps: Spark makes one projection of both, and hands the fields of a struct to Arrow one
        # object at a time.
        fields = {i: self._fields(i) for i in indexes}
        # What is read back of a table are the output's own fields, and they are there in this step only.
        own = [i for i in indexes if self.keyed and self.sinks[i].keeps_fields]
        rows = self._late.get(id(frame), frame)
        made = [column_named(LATE).alias(output_column(i, LATE)) for i in indexes if id(frame) in self._late]
        for i in indexes:
            sink, also = self.sinks[i], i in own
            if sink in self._refusing:
                before = len(rows.columns)
                rows = self._with_refused(rows, frame.schema, i, also=also)
                made += map(column_named, rows.columns[before:])
                continue
            columns = self._columns(sink)
            names = [output_column(i, field.name) for field in fields[i]]
            made += [column.alias(name) for column, name in zip(columns, names, strict=True)]
            made += [_of_fields(frame.schema).alias(output_column(i, SHA256))] if also else []
        rows = rows.select(*made)
        others = [i for i in indexes if self.keyed and i not in own]
        digests = [self._where_taken(i, _digest(i, fields[i], self.sinks[i].destination)) for i in indexes]
        rows = rows.select("*", *digests, *(_sha256(i, fields[i], self.sinks[i].destination) for i in others))
        return rows.drop(*(output_column(i, _REFUSED) for i in indexes if self.sinks[i] in self._refusing))

    def _with_refused(self, rows: DataFrame, fields: StructType, i: int, *, also: bool) -> DataFrame:
        """Rows with the columns of a sink for refused ones, null where a row is not refused; and why it is."""
        refusing = self._refusing[self.sinks[i]]
        why = output_column(i, _REFUSED)
        rows = rows.withColumn(why, refusing.refused(fields, self._limits_of(refusing)))
        is_refused, before = column_named(why).isNotNull(), rows.columns
        seen = rows.withColumn(REASON, column_named(why))
        names = [output_column(i, field.name) for field in self._fields(i)]
        made = [
            F.when(is_refused, column).alias(name)
            for column, name in zip(self._columns(self.sinks[i]), names, strict=True)
        ]
        made += [_of_fields(self.fields(self.sinks[i])).alias(output_column(i, SHA256))] if also else []
        return seen.select(*map(column_named, before), *made)

    def _where_taken(self, i: int, digest: Column) -> Column:
        """A row's digest where it is for a sink: what the sink refuses is for the one that is named for that."""
        sink, name = self.sinks[i], output_column(i, DIGEST)
        aside = sink if sink in self._refusing else sink.on_refused
        if aside is None:
            return digest.alias(name)
        why = column_named(output_column(self.sinks.index(aside), _REFUSED))
        return F.when(why.isNotNull() if sink is aside else why.isNull(), digest).alias(name)

    def _columns(self, sink: Sink) -> list[Column]:
        """What a sink writes, asked once: a format may have asked a registry."""
        if sink.name not in self._written:
            schema = self.fields(sink)
            letters = sink in self.dead_letter_sinks
            self._written[sink.name] = sink.dead_letter_columns(schema) if letters else sink.columns(schema)
        return self._written[sink.name]

    def _fields(self, index: int) -> list[StructField]:
        sink = self.sinks[index]
        frame = self._seen_by(sink)
        try:
            return frame.select(*self._columns(sink)).schema.fields
        except AnalysisException as error:
            raise ConfigurationError(
                f"sink {sink.name} cannot write its output: {str(error).splitlines()[0]}",
                cause=f"the output has {', '.join(f'{name} {kind}' for name, kind in frame.dtypes)}",
                action="give each column a name of its own (of which Spark ignores the case), and a type that the sink "
                "takes for what it is named for",
            ) from error


def _dead_letters(frames: Iterable[DataFrame], connectors: Sequence[Connector]) -> list[tuple[Sink, Source, DataFrame]]:
    """What cannot be read of each source, once, however many outputs start from it; in the order of the plan."""
    leaves = [leaf for frame in frames for leaf in leaves_of(frame, ())]
    found = [connector.find(leaf.kind, leaf.options) for leaf in leaves for connector in connectors]
    distinct = {id(source): source for source in found if source is not None}
    return [
        (source.dead_letter.sink, source, frame)
        for source in distinct.values()
        if source.dead_letter is not None and (frame := source.dead_letters()) is not None
    ]


def _require_own(refusing: Mapping[Sink, Sink], by_sink: Mapping[Sink, DataFrame], letters: Sequence[Sink]) -> None:
    """Refuse what would mix refused rows with others, or refuse them again."""
    others = [*by_sink, *letters]
    wrong = [
        (sink, f"dead letters go to it, and on_refused is {sink.on_refused.name}")
        for sink in letters
        if sink.on_refused
    ]
    for refused, sink in refusing.items():
        shared = [each.name for each in others if each is not sink and each.on_refused is refused]
        if refused in others or shared:
            wrong.append((refused, f"it gets what sink {sink.name} refuses, and other rows as well"))
        if refused.on_refused is not None:
            wrong.append((refused, f"it gets what sink {sink.name} refuses, and has on_refused itself"))
        taken = [name for name in by_sink[sink].columns if _TAKEN.fullmatch(name)]
        if taken:
            wrong.append((sink, f"its output has a column {', '.join(taken)}, which is a name of onceflow's there"))
    for sink, why in wrong:
        raise ConfigurationError(
            f"refused rows cannot be written: of sink {sink.name}, {why}",
            harmless="always: nothing was started or changed",
            cause="on_refused= of a sink",
            action="give the refused rows of each sink a sink of their own, which takes every row; and give such "
            "a column of the output another name",
            sink=sink.name,
        )


def _require_apart(dead_letters: Sequence[tuple[Sink, Source, DataFrame]], by_sink: Mapping[Sink, DataFrame]) -> None:
    """Refuse what would mix dead letters with other rows, or write one of them twice."""
    for sink, _, _ in dead_letters:
        if sink in by_sink:
            raise ConfigurationError(
                f"sink {sink.name} is to get an output and dead letters, which have columns of their own",
                cause="on_malformed=DeadLetter(...) of a source names a sink of the job",
                action="give the dead letters a sink of their own, to another topic or table",
                sink=sink.name,
            )
    for (sink, one, _), (other_sink, other, _) in combinations(dead_letters, 2):
        if sink is other_sink and one.overlaps(other):
            raise ConfigurationError(
                f"two sources read the same records, of {one.describe()} and {other.describe()}, and send those that "
                f"are malformed to sink {sink.name}: each would be there twice",
                cause="load() was called twice, and every call makes a source of its own",
                action="call load() once and let all outputs start from what it gives; or give each source a sink of "
                "its own for its dead letters",
                sink=sink.name,
            )


def _digest(i: int, fields: Sequence[StructField], destination: str) -> Column:
    """The hash of destination and fields, each with its null flag: xxhash64 alone passes over nulls."""
    hashed: list[Column] = [F.lit(destination)]
    for field in fields:
        value = column_named(output_column(i, field.name))
        nested = isinstance(field.dataType, ArrayType | MapType | StructType)
        hashed += [F.to_json(value) if nested else value, value.isNull()]
    return F.xxhash64(*hashed)


def _of_fields(schema: StructType) -> Column:
    """SHA-256 of an output's own fields, as a reader of a table gets them."""
    return sha256_of([(column_named(field.name), field.dataType) for field in schema.fields])


def _sha256(i: int, fields: Sequence[StructField], destination: str) -> Column:
    """SHA-256 of the message of destination and fields."""
    told = [(column_named(output_column(i, field.name)), field.dataType) for field in fields]
    return sha256_of(told, destination).alias(output_column(i, SHA256))


def _null(name: str, kind: DataType) -> Column:
    return F.lit(None).cast(kind).alias(name)
