"""Flink's functions: what each is in Spark's SQL, and the type of what it gives; those that are not taken, by name.

Must not know: tables, queries. A function is here only where both engines give the same, or where its text makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from onceflow.flinksql.kinds import (
    BIGINT,
    BOOLEAN,
    BYTES,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_LTZ,
    Kind,
    as_decimal,
    common,
    decimal,
)

Texts = Sequence[str]
Kinds = Sequence[Kind]


@dataclass(frozen=True, slots=True)
class Function:
    """One.

    Attributes:
        least: So many arguments at least.
        most: And at most; None: any number.
        text: Its text in Spark's SQL, from those of its arguments.
        kind: What it gives; None where the arguments do not fit.
        takes: What each argument must be, for a message and a look: the last stands for all that follow.
    """

    least: int
    most: int | None
    text: Callable[[Texts], str]
    kind: Callable[[Kinds], Kind | None]
    takes: tuple[str, ...] = ("any",)


def suits(kind: Kind, wanted: str) -> bool:
    """Whether an argument is of a class of types."""
    if kind.name == "NULL" or wanted == "any":
        return True
    tests: Mapping[str, bool] = {
        "text": kind.name == "STRING",
        "number": kind.is_number,
        "whole": kind.is_whole,
        "double": kind.name == "DOUBLE",
        "time": kind.is_time,
        "day": kind.is_time or kind.name == "DATE",
        "array": kind.name == "ARRAY",
        "map": kind.name == "MAP",
        "collection": kind.name in ("ARRAY", "MAP"),
        "boolean": kind.name == "BOOLEAN",
        "text or bytes": kind.name in ("STRING", "BYTES"),
    }
    return tests[wanted]


def _call(name: str) -> Callable[[Texts], str]:
    return lambda given: f"{name}({', '.join(given)})"


def _gives(kind: Kind) -> Callable[[Kinds], Kind | None]:
    return lambda _: kind


def _first(kinds: Kinds) -> Kind | None:
    return kinds[0]


def _common(kinds: Kinds) -> Kind | None:
    found: Kind | None = kinds[0]
    for each in kinds[1:]:
        found = None if found is None else common(found, each)
    return found


def _plain(name: str, count: int, kind: Kind, *takes: str, most: int | None = None) -> Function:
    return Function(count, count if most is None else most, _call(name), _gives(kind), takes or ("any",))


def _all_there(name: str) -> Callable[[Texts], str]:
    """Null where one is null: Spark would pass over it."""
    return lambda given: (
        f"CASE WHEN {' OR '.join(f'{each} IS NULL' for each in given)} THEN NULL ELSE {name}({', '.join(given)}) END"
    )


def _no_fraction(kinds: Kinds) -> Kind | None:
    of = kinds[0]
    return decimal(of.precision or 38, 0) if of.name == "DECIMAL" else of


def _time_of(given: Texts) -> str:
    return _parsed(given)


def _unit(unit: str) -> Function:
    return Function(1, 1, lambda given: part(unit, given[0]), _gives(BIGINT), ("day",))


def part(unit: str, of: str) -> str:
    """A part of a time, as EXTRACT gives it: a whole number."""
    named = {"DOW": "DAYOFWEEK"}.get(unit, unit)
    return f"CAST(FLOOR(EXTRACT({named} FROM {of})) AS BIGINT)"


UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOY", "DOW", "HOUR", "MINUTE", "SECOND")

FUNCTIONS: Mapping[str, Function] = {
    "ABS": Function(1, 1, _call("abs"), _first, ("number",)),  # of a DECIMAL see expressions
    # Spark's own gives NULL where nothing fits and an item is NULL.
    "ARRAY_CONTAINS": Function(
        2, 2, lambda given: f"exists({given[0]}, `$item` -> `$item` <=> {given[1]})", _gives(BOOLEAN), ("array", "any")
    ),
    "ASCII": Function(1, 1, lambda given: _first_byte(given[0]), _gives(INT), ("text",)),
    "CARDINALITY": _plain("size", 1, INT, "collection"),
    "CHARACTER_LENGTH": _plain("char_length", 1, INT, "text"),
    "CHAR_LENGTH": _plain("char_length", 1, INT, "text"),
    "COALESCE": Function(1, None, _call("coalesce"), _common),
    "CONCAT": Function(1, None, _call("concat"), _gives(STRING), ("text",)),
    "CONCAT_WS": Function(1, None, _call("concat_ws"), _gives(STRING), ("text",)),
    "DATE_FORMAT": Function(2, 2, _call("date_format"), _gives(STRING), ("time", "text")),
    "DAYOFMONTH": _unit("DAY"),
    "DAYOFWEEK": _unit("DOW"),
    "DAYOFYEAR": _unit("DOY"),
    "EXP": _plain("exp", 1, DOUBLE, "number"),
    "GREATEST": Function(1, None, _all_there("greatest"), _common),
    "HOUR": _unit("HOUR"),
    "IF": Function(3, 3, _call("if"), lambda kinds: _common(kinds[1:]), ("boolean", "any")),
    "IFNULL": Function(2, 2, _call("coalesce"), _common),
    "INSTR": _plain("instr", 2, INT, "text"),
    "JSON_VALUE": _plain("get_json_object", 2, STRING, "text"),
    "LEAST": Function(1, None, _all_there("least"), _common),
    "LEFT": _plain("left", 2, STRING, "text", "whole"),
    "LOCATE": Function(
        2,
        3,
        # From before the text Flink looks from its begin, Spark nowhere.
        lambda given: _located(*given),
        _gives(INT),
        ("text", "text", "whole"),
    ),
    "LOWER": _plain("lower", 1, STRING, "text"),
    "LPAD": _plain("lpad", 3, STRING, "text", "whole", "text"),
    "LTRIM": _plain("ltrim", 1, STRING, "text"),
    "MAP_KEYS": Function(1, 1, _call("map_keys"), lambda kinds: Kind("ARRAY", inner=kinds[0].inner[:1]), ("map",)),
    "MAP_VALUES": Function(1, 1, _call("map_values"), lambda kinds: Kind("ARRAY", inner=kinds[0].inner[1:]), ("map",)),
    "MD5": _plain("md5", 1, STRING, "text"),
    "MINUTE": _unit("MINUTE"),
    "MOD": Function(2, 2, lambda given: f"({given[0]} % {given[1]})", _common, ("number",)),
    "MONTH": _unit("MONTH"),
    "NULLIF": Function(2, 2, _call("nullif"), _first),
    "POWER": _plain("power", 2, DOUBLE, "number"),
    "QUARTER": _unit("QUARTER"),
    "REGEXP": Function(
        2,
        2,
        # Of no pattern Flink says that nothing fits it, Spark that all does.
        lambda given: f"if({given[1]} = '' AND {given[0]} IS NOT NULL, false, {given[0]} RLIKE {given[1]})",
        _gives(BOOLEAN),
        ("text",),
    ),
    "REGEXP_EXTRACT": Function(
        2,
        3,
        # Spark gives '' where nothing matches, Flink NULL; Spark begins with the first group, Flink with the whole.
        lambda given: (
            f"CASE WHEN {given[0]} RLIKE {given[1]} THEN "
            f"regexp_extract({given[0]}, {given[1]}, {given[2] if len(given) > 2 else '0'}) END"
        ),
        _gives(STRING),
        ("text", "text", "whole"),
    ),
    "REGEXP_REPLACE": _plain("regexp_replace", 3, STRING, "text"),
    "REPEAT": _plain("repeat", 2, STRING, "text", "whole"),
    "REPLACE": _plain("replace", 3, STRING, "text"),
    "REVERSE": _plain("reverse", 1, STRING, "text"),
    "RIGHT": _plain("right", 2, STRING, "text", "whole"),
    "ROUND": Function(1, 2, _call("round"), _first, ("number", "whole")),
    "RPAD": _plain("rpad", 3, STRING, "text", "whole", "text"),
    "RTRIM": _plain("rtrim", 1, STRING, "text"),
    "SECOND": _unit("SECOND"),
    "SHA1": _plain("sha1", 1, STRING, "text"),
    "SHA256": Function(1, 1, lambda given: f"sha2({given[0]}, 256)", _gives(STRING), ("text",)),
    "SIGN": Function(1, 1, lambda given: f"sign({given[0]})", _first, ("number",)),
    "SPLIT_INDEX": Function(
        3,
        3,
        lambda given: f"get(split({given[0]}, concat('\\\\Q', {given[1]}, '\\\\E')), {given[2]})",
        _gives(STRING),
        ("text", "text", "whole"),
    ),
    "SQRT": Function(1, 1, lambda given: f"power({given[0]}, 0.5D)", _gives(DOUBLE), ("number",)),
    "SUBSTR": _plain("substr", 2, STRING, "text", "whole", most=3),
    "TO_BASE64": Function(
        # Spark breaks it in lines.
        1,
        1,
        lambda given: f"replace(base64(CAST({given[0]} AS BINARY)), '\\r\\n', '')",
        _gives(STRING),
        ("text or bytes",),
    ),
    "TO_DATE": Function(1, 1, lambda given: _day(given[0]), _gives(DATE), ("text",)),
    "TO_TIMESTAMP": Function(1, 2, _time_of, _gives(TIMESTAMP), ("text",)),
    "UPPER": _plain("upper", 1, STRING, "text"),
    "WEEK": _unit("WEEK"),
    "YEAR": _unit("YEAR"),
    "NOW": Function(0, 0, lambda _: "current_timestamp()", _gives(TIMESTAMP_LTZ)),
    "FROM_UNIXTIME": _plain("from_unixtime", 1, STRING, "whole", "text", most=2),
    "DECODE": Function(2, 2, _call("decode"), _gives(STRING), ("any", "text")),
    "ENCODE": Function(2, 2, _call("encode"), _gives(BYTES), ("text",)),
}
"""What is the same under another name, or made the same."""


def negative(of: str, kind: Kind) -> str:
    """A number with its sign turned. Spark's own minus rounds a DECIMAL to 34 digits: longer ones go by their text."""
    if kind.name != "DECIMAL" or (kind.precision or 0) <= _EXACT:
        return f"(- {of})"
    text = f"CAST({of} AS STRING)"
    return f"CAST(if({of} < 0, substr({text}, 2), concat('-', {text})) AS {kind.spark()})"


def _located(what: str, of: str, begin: str = "") -> str:
    if not begin:
        return f"locate({what}, {of})"
    return f"CASE WHEN {begin} IS NOT NULL THEN locate({what}, {of}, if({begin} < 1, 1, {begin})) END"


def whole_from_text(of: str) -> str:
    """A text of a number as one of a whole number: what is behind the point is cut off."""
    sign = f"regexp_extract(trim({of}), '^[+-]?', 0)"
    digits = f"regexp_extract(trim({of}), '^[+-]?([0-9]*)', 1)"
    cut = f"concat({sign}, if({digits} = '', '0', {digits}))"
    return f"if(trim({of}) RLIKE '^[+-]?([0-9]+[.][0-9]*|[.][0-9]+)$', {cut}, {of})"


_EXACT = 34
_TIME = "'^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}( [0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}([.][0-9]{1,9})?)?$'"


def _first_byte(text: str) -> str:
    """The first byte as Java has it: of anything but ASCII a number below 0."""
    byte = f"CAST(conv(hex(substr(CAST({text} AS BINARY), 1, 1)), 16, 10) AS INT)"
    return f"CASE WHEN ascii({text}) < 128 THEN ascii({text}) ELSE {byte} - 256 END"


def _parsed(given: Texts) -> str:
    """A time from text, or null, with three digits behind the second: with a form, or as SQL writes it."""
    if len(given) > 1:
        # What has another form Flink reads as JDBC writes times and days, whatever form was asked for.
        otherwise = f"CASE WHEN trim({given[0]}) RLIKE {_TIME} THEN try_cast(trim({given[0]}) AS TIMESTAMP) END"
        text = f"coalesce(try_to_timestamp({', '.join(given)}), {otherwise})"
    else:
        text = f"CASE WHEN {given[0]} RLIKE {_TIME} THEN try_cast({given[0]} AS TIMESTAMP) END"
    return f"date_trunc('MILLISECOND', {text})"


def from_text(text: str, to: str) -> tuple[str, str]:
    """What a CAST to a time or a DATE reads of a text, and whether it is of the one form that Flink takes."""
    if to == "DATE":
        day = f"if(instr({text}, ' ') > 1, substring_index({text}, ' ', 1), trim({text}))"
        return day, f"{day} RLIKE '^[0-9]{{4}}(-[0-9]{{1,2}}(-[0-9]{{1,2}})?)?$'"
    return text, f"{text} RLIKE {_TIME}"


def _day(text: str) -> str:
    day, fits = from_text(text, "DATE")
    return f"CASE WHEN {fits} THEN try_cast({day} AS DATE) END"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One.

    Attributes:
        text: Its text from that of its argument, with its FILTER behind each call.
        kind: What it gives.
        takes: What its argument must be.
    """

    text: Callable[[str, Kind, str], str]
    kind: Callable[[Kind], Kind]
    takes: str = "any"


def _sum(of: str, kind: Kind, only: str) -> str:
    text = f"sum({of}){only}"
    return f"CAST({text} AS {_sum_kind(kind).spark()})" if kind.name == "DECIMAL" else text


def _sum_kind(kind: Kind) -> Kind:
    if kind.is_approximate:
        return DOUBLE
    return BIGINT if kind.is_whole else Kind("DECIMAL", 38, as_decimal(kind).scale)


def _average(of: str, kind: Kind, only: str) -> str:
    if kind.is_approximate:
        return f"avg({of}){only}"
    total, count = f"sum({of}){only}", f"nullif(count({of}){only}, 0)"
    if kind.is_whole:  # Flink's average of whole numbers is one, cut towards zero
        return f"CAST({total} DIV {count} AS {kind.spark()})"
    return f"CAST({total} / {count} AS {_average_kind(kind).spark()})"


def _average_kind(kind: Kind) -> Kind:
    if kind.name == "DECIMAL":
        return Kind("DECIMAL", 38, max(kind.scale or 0, 6))
    return kind if kind.is_whole else DOUBLE


def _simple(name: str) -> Callable[[str, Kind, str], str]:
    return lambda of, _, only: f"{name}({of}){only}"


AGGREGATES: Mapping[str, Aggregate] = {
    "COUNT": Aggregate(_simple("count"), lambda _: BIGINT),
    "SUM": Aggregate(_sum, _sum_kind, "number"),
    "AVG": Aggregate(_average, _average_kind, "number"),
    "MIN": Aggregate(_simple("min"), lambda kind: kind),
    "MAX": Aggregate(_simple("max"), lambda kind: kind),
    "APPROX_COUNT_DISTINCT": Aggregate(_simple("approx_count_distinct"), lambda _: BIGINT),
    "STDDEV_POP": Aggregate(_simple("stddev_pop"), lambda _: DOUBLE, "double"),
    "VAR_POP": Aggregate(_simple("var_pop"), lambda _: DOUBLE, "double"),
}
"""Those that both engines have. A deviation of whole numbers is a whole one in Flink: only that of DOUBLE is taken.

Of a sample of one value Spark's STDDEV_SAMP is NULL, too, and Flink's as well."""

_ORDER = ("its result hangs on the order of rows, which is not the same in every run", "use MIN, MAX or a top-N")
_NO_WAY_BACK = "it needs an order of rows that is not the same in every run"
REFUSED: Mapping[str, tuple[str, str]] = {
    "ARRAY_AGG": _ORDER,
    "COLLECT": ("Spark has no bag of values", "count each value by a GROUP BY of its own"),
    "CUMULATE": ("Spark has no windows that grow", "use HOP, or TUMBLE with a smaller size"),
    "CURRENT_WATERMARK": ("Spark tells no query of its watermark", "late rows are dropped by windows by themselves"),
    "CURRENT_TIME": ("there is no type TIME", "use CURRENT_TIMESTAMP"),
    "LOCALTIME": ("there is no type TIME", "use LOCALTIMESTAMP"),
    "CONVERT_TZ": ("the session's zone is UTC", "write a Python function for another zone"),
    "DENSE_RANK": ("of a stream only ROW_NUMBER is kept", "use ROW_NUMBER with a top-N"),
    "RANK": ("of a stream only ROW_NUMBER is kept", "use ROW_NUMBER with a top-N"),
    "FIRST_VALUE": _ORDER,
    "LAST_VALUE": _ORDER,
    "GROUPING": ("there are no GROUPING SETS", "write an INSERT for each set"),
    "HOP_PROCTIME": ("processing time moves nothing here", "use windows of event time"),
    "SESSION_PROCTIME": ("processing time moves nothing here", "use windows of event time"),
    "TUMBLE_PROCTIME": ("processing time moves nothing here", "use windows of event time"),
    "JSON_ARRAYAGG": _ORDER,
    "JSON_OBJECTAGG": _ORDER,
    "LAG": (_NO_WAY_BACK, "join the stream with itself by an interval"),
    "LEAD": (_NO_WAY_BACK, "join the stream with itself by an interval"),
    "LISTAGG": _ORDER,
    "LN": ("of 0 the engines give different values", "write a Python function"),
    "LOG": ("of 0 the engines give different values", "write a Python function"),
    "LOG10": ("of 0 the engines give different values", "write a Python function"),
    "LOG2": ("of 0 the engines give different values", "write a Python function"),
    "NTILE": (_NO_WAY_BACK, "use ROW_NUMBER with a top-N"),
    "PERCENTILE": ("it keeps every value", "count by steps of the value"),
    "RAND": ("an epoch that is run again must give the same rows", "take a hash of a key: MD5"),
    "RAND_INTEGER": ("an epoch that is run again must give the same rows", "take a hash of a key: MD5"),
    "STDDEV_SAMP": ("of one row the engines give different values", "use STDDEV_POP"),
    "UNIX_TIMESTAMP": ("the second in which a row is looked at differs in every run", "use the event's time"),
    "UUID": ("an epoch that is run again must give the same rows", "take a hash of a key: MD5"),
    "VAR_SAMP": ("of one row the engines give different values", "use VAR_POP"),
    "ML_PREDICT": ("there are no models", "write a Python function"),
}
"""What is not taken: why, and what to do instead."""

WINDOWS = ("TUMBLE", "HOP", "SESSION")
"""Functions that stand in GROUP BY, or, over a TABLE, in FROM."""
ELSEWHERE = (
    "TIMESTAMPADD", "TIMESTAMPDIFF", "TO_TIMESTAMP_LTZ", "PROCTIME", "ROW", "TUMBLE_START", "TUMBLE_END",
    "TUMBLE_ROWTIME",
    "HOP_START", "HOP_END", "HOP_ROWTIME", "SESSION_START", "SESSION_END", "SESSION_ROWTIME", "ROW_NUMBER", "CAST",
    "TRY_CAST", "EXTRACT", "TRIM", "SUBSTRING", "POSITION", "CEIL", "CEILING", "FLOOR", *WINDOWS,
)  # fmt: skip
"""Those with a grammar of their own, or a place of their own."""
