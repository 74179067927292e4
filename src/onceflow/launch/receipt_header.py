"""What a start says of itself for the audit's receipts: hashes of code and settings, and what its sinks' rows are.

Must not know: the journal, any particular sink. No rule asks for any of it.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pyspark.sql.types import ArrayType, MapType, StructType

from onceflow.connectors.contract import Sink
from onceflow.execution.outputs import Outputs


def code_of(function: Callable[..., object]) -> str:
    """SHA-256 of the file that a stream function stands in; "" where there is none."""
    try:
        file = inspect.getsourcefile(inspect.unwrap(function))
        return "" if file is None else hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except (TypeError, OSError):
        return ""


def about(name: str, code: str, settings: Mapping[str, Any], outputs: Outputs) -> str:
    """What a start says, as JSON text.

    Args:
        name: The job's name.
        code: ``code_of`` its function.
        settings: What may change what the job does, without secrets; its hash is told.
        outputs: Where rows go.
    """
    taking_part = [sink for sink in outputs.sinks if sink.participates]
    whole = {**settings, "sinks": _described(outputs.sinks)}
    return json.dumps(
        {
            "name": name,
            "version": _version(),
            "code": code,
            "settings": hashlib.sha256(json.dumps(whole, sort_keys=True, default=str).encode()).hexdigest(),
            "sinks": {sink.name: _rows_of(sink, outputs) for sink in taking_part},
        },
        separators=(",", ":"),
    )


def _described(sinks: Iterable[Sink]) -> dict[str, str]:
    return {sink.name: sink.describe() for sink in sinks}


def _rows_of(sink: Sink, outputs: Outputs) -> dict[str, Any]:
    """What the digest of a sink's rows is made of: its destination, and columns with their types, in order.

    ``columns`` are what the sink is given; ``fields`` are those of its output, of which a table's own hash is made.
    """
    return {
        "destination": sink.destination,
        "columns": [[field.name, _kind(field.dataType)] for field in outputs.hashed(sink)],
        "fields": [[field.name, _kind(field.dataType)] for field in outputs.fields(sink).fields],
    }


def _kind(kind: Any) -> str:
    return "json" if isinstance(kind, ArrayType | MapType | StructType) else str(kind.simpleString())


def _version() -> str:
    try:
        return version("onceflow")
    except PackageNotFoundError:
        return ""
