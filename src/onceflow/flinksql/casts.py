"""CAST and TRY_CAST, and literals of times: of what Flink takes, with what it gives.

Must not know: which other expressions there are, tables.
"""

from __future__ import annotations

import re

from sqlglot import exp

from onceflow.flinksql import functions
from onceflow.flinksql.kinds import DATE, Kind
from onceflow.flinksql.operands import cut, loses
from onceflow.flinksql.pieces import Piece, QueryText, literal
from onceflow.flinksql.problems import refused, wrong

_FRACTION = "SSSSSS"


def dated(text: QueryText, node: exp.Expr, name: str, value: str) -> Piece:
    """``DATE '…'`` and ``TIMESTAMP '…'``."""
    pattern = r"\d{4}-\d\d-\d\d" + (r" \d\d:\d\d:\d\d(\.\d{1,6})?" if name == "timestamp" else "")
    if re.fullmatch(pattern, value) is None:
        form = "TIMESTAMP '2026-01-31 23:59:59'" if name == "timestamp" else "DATE '2026-01-31'"
        raise wrong(text.position(node), f"{value!r} is no {name.upper()}", action=f"write {form}")
    kind = DATE if name == "date" else Kind("TIMESTAMP", len(value.partition(".")[2]))
    return Piece(f"{name.upper()} {literal(value)}", kind)


def cast(text: QueryText, node: exp.Expr, of: Piece, to: Kind, *, trying: bool = False) -> Piece:
    """CAST, or TRY_CAST: of what Flink takes, with what it gives."""
    word, given = "try_cast" if trying else "CAST", of.kind
    if to.name == "STRING" and to.precision is not None:
        raise refused(
            text.position(node),
            "a CAST to text of a length",
            "Spark does not cut it",
            "CAST it to STRING, and use LEFT",
        )
    if to.name == "STRING" and given.name in ("ARRAY", "MAP", "ROW"):
        raise refused(
            text.position(node),
            f"a CAST of {given.name} to text",
            "the engines write it differently",
            "name its parts, and put them together by CONCAT",
        )
    if to.name == "STRING" and given.name == "BOOLEAN":
        return Piece(f"upper(CAST({of.sql} AS STRING))", to)
    if trying and given.is_number and to.is_whole and loses(given, to):
        raise refused(
            text.position(node),
            f"a TRY_CAST of {given} to {to}",
            "of what does not fit Flink gives another number",
            "write CAST, which stops the job",
        )
    if given.name == "STRING" and to.is_whole:
        return Piece(f"{word}({functions.whole_from_text(of.sql)} AS {to.spark()})", to)
    if given.name == "STRING" and to.name == "BOOLEAN":  # Spark would leave out blanks
        otherwise = "NULL" if trying else f"CAST(concat('blanks in ', {of.sql}) AS BOOLEAN)"
        return Piece(f"if({of.sql} <> trim({of.sql}), {otherwise}, {word}({of.sql} AS BOOLEAN))", to)
    if given.name == "STRING" and (to.is_time or to.name == "DATE"):
        return _time_from_text(of, to, trying=trying)
    if to.name == "STRING" and given.is_time:
        digits = given.precision or 0
        form = "yyyy-MM-dd HH:mm:ss" + (f".{_FRACTION[:digits]}" if digits else "")
        return Piece(f"date_format({of.sql}, '{form}')", to)
    if to.is_time:
        if given.is_number or given.name == "BOOLEAN":
            raise refused(
                text.position(node),
                f"a CAST of {given} to {to}",
                "Flink takes none",
                "use TO_TIMESTAMP_LTZ(n, 3)",
            )
        return Piece(cut(f"{word}({of.sql} AS TIMESTAMP)", to), to)
    if given.is_time and to.name != "DATE":
        raise refused(text.position(node), f"a CAST of {given} to {to}", "Flink takes none", "use EXTRACT")
    return Piece(f"{word}({of.sql} AS {to.spark()})", to)


def _time_from_text(of: Piece, to: Kind, *, trying: bool) -> Piece:
    word, kind = "try_cast" if trying else "CAST", to.spark()
    given, fits = functions.from_text(of.sql, to.name)
    failure = literal(f"a text is no {to.name}: write it as 2026-01-31 or 2026-01-31 23:59:59.999")
    otherwise = "" if trying else f" WHEN {of.sql} IS NULL THEN NULL ELSE raise_error({failure})"
    text = f"CASE WHEN {fits} THEN {word}({given} AS {kind}){otherwise} END"
    return Piece(cut(text, to) if to.is_time else text, to)
