"""Tables of Iceberg and Delta against receipts: the data files that the newest version names, epoch by epoch.

Must not know: how receipts are kept. A data file's name says which attempt of a task wrote it, and a receipt names the
attempts of its epoch; so rows are compared epoch by epoch, and nothing that the table says of itself is believed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onceflow.audit import hashes, keyed
from onceflow.audit.chain import Chain, chosen
from onceflow.audit.findings import Findings, Kind
from onceflow.audit.tables import hash_rows, netstrings, unread

_OURS = re.compile(r"onceflow/([^/]+)/([^/]+)/(\d+)/(\d+)/([0-9a-f]+)-\d+\.parquet$")
_TOGETHER = 50_000


@dataclass(frozen=True, slots=True)
class _File:
    """A data file of the newest version.

    Attributes:
        path: Its path, as the table names it.
        rows: Its rows, as far as they are visible, as an Arrow table.
        belied: What the table says of the file, and its rows do not; "" for nothing.
    """

    path: str
    rows: Callable[[], Any]
    belied: Callable[[Any], str] = lambda _: ""


def check(
    sink: Mapping[str, Any],
    receipts: Sequence[Mapping[str, Any]],
    known: Callable[[], Chain],
    findings: Findings,
    key: bytes | None = None,
    former: Collection[str] = (),
) -> set[str]:
    """Compare a lake sink's table with the receipts.

    Args:
        sink: ``name``; of Iceberg ``catalog``, ``table`` and ``properties``, of Delta ``path`` and ``storage_options``.
        receipts: The epochs that are checked.
        known: Reads all that is decided by now: what the table has by then is decided before.
        findings: Where what is wrong goes.
        key: The audit's, of which the key of each job's rows is made; None looks at no keyed digest.
        former: Sinks that the job does not have now: of which one's files are here, it may be this sink's older name.

    Returns:
        Those older names.
    """
    name = sink["name"]
    was: set[str] = set()
    decided = [(body, p) for body in receipts for p in body["participants"] if p["sink"] == name]
    try:
        files = list((_iceberg if sink["kind"] == "iceberg" else _delta)(sink))
        by_attempt: dict[str, list[_File]] = {}
        for file in files:
            ours = _OURS.search(file.path)
            by_attempt.setdefault(ours[5] if ours else "", []).append(file)
        gone_by = [(body, p) for body in receipts for p in body["participants"] if p["sink"] in former]
        here = {p["sink"] for _, p in gone_by if any(i in by_attempt for i in _attempts(p))}
        to = sink.get("destination")
        was |= {p["sink"] for body, p in gone_by if body["sinks"][p["sink"]].get("destination") == to} & here
        decided += [(body, p) for body, p in gone_by if p["sink"] in was]
        names = {name, *was}
        chain = known()
        bodies = [*chain.receipts, *chain.decided.values()]
        others = {i for body in bodies for p in body["participants"] if p["sink"] in names for i in _attempts(p)}
        strange = [file for i, of in by_attempt.items() if i not in others for file in of]
        if key is not None:
            for each in sorted(names):
                _tell_of_unsigned(each, chain, by_attempt, findings)
        rows = sum(_count_of(file) for file in strange)
        gone = [p for body, p in decided if not chosen(body, p) and not all(i in by_attempt for i in _attempts(p))]
        rewritten = bool(strange)
        if strange and not gone and not chain.is_whole:  # a job of ours, perhaps this one, before the trail's beginning
            older = [file for file in strange if _OURS.search(file.path)]
            if older:
                count = sum(_count_of(file) for file in older)
                told = f"sink {name}: {count} rows in {len(older)} files, first {older[0].path}"
                findings.add("note", f"{told}: they may be of before the first receipt that is kept", count, name)
            strange = [file for file in strange if file not in older]
            rows = sum(_count_of(file) for file in strange)
        if strange:
            kind: Kind = "foreign"
            why = "no receipt has them"
            if gone:  # what compaction has written takes the place of ours
                kind, why = ("note", "they may be rows of epochs whose own files are gone, written anew")
            elif chain.receipts and chain.receipts[0]["number"] > 1:
                kind, why = ("unknown", "they may be of before the first receipt that is kept, written anew")
            told = f"sink {name}: {rows} rows in {len(strange)} files, first {strange[0].path}: {why}"
            findings.add(kind, told, rows, name)
        for body, p in decided:
            _compare(p["sink"], body, p, by_attempt, findings, key, rewritten=rewritten)
        if strange and gone:
            _count(name, decided, by_attempt, rows, findings)
    except Exception as error:  # noqa: BLE001 - each catalog and store has errors of its own
        rows = sum(p["rows"] for _, p in decided)
        said = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        findings.add("unknown", f"sink {name}: {rows} rows were not looked at: {said}", rows, name)
    return was


def _rows(file: _File) -> Any:
    """A file's rows; None where it is no Parquet of the length that the table names. A store that fails raises."""
    import pyarrow as pa  # noqa: PLC0415 - only where a sink is a lake's

    try:
        return file.rows()
    except pa.ArrowInvalid:
        return None


def _count_of(file: _File) -> int:
    rows = _rows(file)
    return 0 if rows is None else len(rows)


def _tell_of_unsigned(name: str, chain: Chain, by_attempt: Mapping[str, Sequence[_File]], findings: Findings) -> None:
    """Files that the journal alone knows: it is not signed."""
    signed = {i for body in chain.receipts for p in body["participants"] if p["sink"] == name for i in _attempts(p)}
    claimed = {i for p in chain.in_journal if p["sink"] == name for i in _attempts(p)} - signed
    rows = sum(_count_of(file) for i in claimed for file in by_attempt.get(i, ()))
    if rows:
        told = f"sink {name}: {rows} rows are of attempts that no receipt has, and the journal does"
        findings.add("unknown", f"{told}: it is not signed, and the newest epoch may have no receipt yet", rows, name)


def _attempts(p: Mapping[str, Any]) -> list[str]:
    """The ids of a participant's attempts that wrote rows: the last part of their names."""
    return [name.rpartition("-")[2] for _, _, name, rows, _ in p["transaction"]["attempts"] if rows]


def _compare(
    name: str,
    body: Mapping[str, Any],
    p: Mapping[str, Any],
    by_attempt: Mapping[str, Sequence[_File]],
    findings: Findings,
    key: bytes | None,
    *,
    rewritten: bool,
) -> None:
    epoch, told = body["epoch"], f"sink {name}, epoch {body['epoch']}"
    rule = body["sinks"][name]
    columns = rule.get("columns", [])
    other = unread(columns)
    seen = digest = made = 0
    belied = ""
    rows_key, decided = keyed.decided(key, body, p) or (None, None)
    for file in (file for i in _attempts(p) for file in by_attempt.get(i, ())):
        table = _rows(file)
        if table is None:
            words = f"{told}: {file.path} is no such file any more as the table names it: it was written over, or cut"
            findings.add("changed", words, p["rows"], name, epoch)
            return
        if not belied and (what := file.belied(table)):
            belied = f"the table says of {file.path} {what}, and its rows do not"
        seen += len(table)
        if columns and not other:
            one, other_one = _digest(table, rule["destination"], columns, rows_key)
            digest, made = digest + one, made + other_one
    findings.read += seen
    if seen != p["rows"]:
        if seen > p["rows"]:
            words = f"{told}: its files hold {seen} rows, and {p['rows']} were decided"
            findings.add("changed", words, seen - p["rows"], name, epoch)
            return
        less = p["rows"] - seen
        said = chosen(body, p)
        why = said or ("the table has files that somebody else wrote: they may hold them" if rewritten else "")
        words = f"{told}: {less} of {p['rows']} rows are not in the table's newest version" + (
            f" ({why})" if why else ""
        )
        kind: Kind = "note" if said else "unknown" if rewritten else "missing"
        findings.add(kind, words, less, name, epoch)
    elif other or not columns:
        words = f"{told}: its {seen} rows are there; they are not compared: there is no one form of {', '.join(other)}"
        findings.add("unknown", words, seen, name, epoch)
    elif digest & hashes.MASK != int(p["digest"], 16):
        findings.add("changed", f"{told}: its {seen} rows are not those that were decided", seen, name, epoch)
    elif rows_key is not None and made & keyed.MASK != decided:
        words = f"{told}: its {seen} rows were made to fit the digest of those that were decided: they have another "
        findings.add("changed", f"{words}keyed one", seen, name, epoch)
    elif belied:
        words = f"{told}: {belied}: by that readers pass over rows, or see other ones"
        findings.add("changed", words, seen, name, epoch)
    else:
        findings.rows += seen
        findings.keyed += 0 if rows_key is None else seen


def _count(
    name: str,
    decided: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]],
    by_attempt: Mapping[str, Sequence[_File]],
    strange: int,
    findings: Findings,
) -> None:
    """What was written anew holds no more rows than it has, whichever they are."""
    less = 0
    for body, p in decided:
        seen = sum(_count_of(file) for i in _attempts(p) for file in by_attempt.get(i, ()))
        less += 0 if chosen(body, p) else max(0, p["rows"] - seen)
    if strange < less:
        told = f"sink {name}: of {less} rows the own files are gone, and what was written anew has {strange} rows"
        findings.add("missing", f"{told}: at least {less - strange} are in neither", less - strange, name)


def _digest(table: Any, destination: str, columns: Sequence[Sequence[str]], key: bytes | None) -> tuple[int, int]:
    """The digest of a table's rows, and the keyed one, 0 without a key."""
    total = made = 0
    for batch in table.select([name for name, _ in columns]).to_batches(max_chunksize=_TOGETHER):
        if len(batch):
            values = [_octets(column).to_pylist() for column in batch.columns]
            total += int(hash_rows(columns, values, destination).sum(dtype=np.uint64))
            if key is not None:
                made += sum(keyed.digests(key, destination, netstrings(columns, values)))
    return total, made


def _octets(column: Any) -> Any:
    """A column; texts as their bytes, since somebody may have put bytes there that are no text."""
    import pyarrow as pa  # noqa: PLC0415 - only where a sink is a lake's

    texts = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return column.cast(pa.large_binary()) if texts else column


def _iceberg(sink: Mapping[str, Any]) -> Iterator[_File]:
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415 - only where a sink is one
    from pyiceberg.expressions import AlwaysTrue  # noqa: PLC0415
    from pyiceberg.io.pyarrow import ArrowScan  # noqa: PLC0415

    table = load_catalog(sink["catalog"], **sink["properties"]).load_table(sink["table"])
    scan = ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue())
    for task in table.scan().plan_files():
        yield _File(
            task.file.file_path,
            lambda task=task: scan.to_table([task]),  # type: ignore[misc]
            lambda rows, task=task: _belied(table, task, rows),  # type: ignore[misc]
        )


def _belied(table: Any, task: Any, rows: Any) -> str:
    """What Iceberg's readers take from the table and not from the file: counts, partitions' values, bounds."""
    import pyarrow.compute as pc  # noqa: PLC0415 - only where a sink is one
    from pyiceberg.conversions import from_bytes  # noqa: PLC0415
    from pyiceberg.transforms import IdentityTransform  # noqa: PLC0415
    from pyiceberg.types import IntegerType, LongType, StringType  # noqa: PLC0415

    file, compared = task.file, (IntegerType, LongType, StringType)
    if not task.delete_files and file.record_count != len(rows):
        return "how many rows it has"
    fields = {field.field_id: field for field in table.schema().fields if isinstance(field.field_type, compared)}
    for at, by in enumerate(table.specs()[file.spec_id].fields):
        field = fields.get(by.source_id)
        if field is not None and isinstance(by.transform, IdentityTransform):
            of = file.partition[at]
            if {*pc.unique(_octets(rows.column(field.name))).to_pylist()} - {
                of.encode() if isinstance(of, str) else of
            }:
                return f"of which {field.name} it is"
    for number, field in fields.items():
        low, high = (None if each is None else each.get(number) for each in (file.lower_bounds, file.upper_bounds))
        if not isinstance(field.field_type, StringType):
            low, high = (None if each is None else from_bytes(field.field_type, each) for each in (low, high))
        least, most = pc.min_max(_octets(rows.column(field.name))).as_py().values()  # none where all are null
        if least is not None and ((low is not None and least < low) or (high is not None and most > high)):
            return f"within which bounds its {field.name} are"
    return ""


def _delta(sink: Mapping[str, Any]) -> Iterator[_File]:
    import pyarrow as pa  # noqa: PLC0415 - only where a sink is one
    from deltalake import DeltaTable  # noqa: PLC0415

    table = DeltaTable(sink["path"], storage_options=sink["storage_options"])
    data = table.to_pyarrow_dataset()
    said = pa.table(table.get_add_actions(flatten=True))
    counts = dict(zip(said["path"].to_pylist(), said["num_records"].to_pylist(), strict=True))
    for fragment in data.get_fragments():

        def belied(rows: Any, of: Any = fragment) -> str:
            """What Delta's readers take from the log and not from the file: counts, and bounds."""
            if (count := counts.get(of.path)) is not None and count != len(rows):
                return "how many rows it has"
            try:
                beyond = len(rows.filter(~of.partition_expression))  # a null is beyond nothing
            except pa.ArrowException:  # a bound of a type that cannot be compared
                return ""
            return "within which bounds its columns are" if beyond else ""

        yield _File(fragment.path, lambda of=fragment: of.to_table(schema=data.schema), belied)  # type: ignore[misc]
