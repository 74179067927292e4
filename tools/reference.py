"""The reference pages in docs/reference/, from signatures and docstrings.

Must not know: what the code does. It reads text (griffe parses the docstrings) and never runs the package, except for
the command line's own help.

Every public name is on exactly one page; ``tests/unit/house/test_reference.py`` holds that, and that every parameter
is told.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import griffe

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference"

PAGES: Mapping[str, tuple[str, str, tuple[str, ...]]] = MappingProxyType(
    {
        "jobs": (
            "Jobs",
            "A job, its checkpoint, and how it is run.",
            (
                "Job",
                "start",
                "Stopped",
                "Checkpointing",
                "ExponentialDelay",
                "FailureRate",
                "FixedDelay",
                "NoRestart",
                "late_rows",
                "show_log",
                "sql",
            ),
        ),
        "kafka": (
            "Kafka",
            "Clusters, sources and sinks.",
            ("KafkaCluster", "KafkaSource", "DeadLetter", "KafkaSink", "NewTopic"),
        ),
        "databases": ("Databases", "Tables of PostgreSQL, MySQL, MariaDB and SQLite.", ("DatabaseSink",)),
        "lake": ("Lake tables", "Tables of Apache Iceberg and of Delta Lake.", ("IcebergSink", "DeltaSink")),
        "formats": (
            "Formats",
            "Between the bytes of a record and columns.",
            (
                *("Json", "Avro", "Protobuf", "JsonSchema", "Csv", "Debezium", "Text", "Raw"),
                *("SchemaRegistry", "Format", "RecordReading", "PartOfRecord"),
            ),
        ),
        "contract": (
            "The contract of a sink",
            "What a sink of your own is written against; [docs/sinks.md](../sinks.md) says how.",
            (
                "sinks.Sink",
                "sinks.SinkConnection",
                "Guarantee",
                "sinks.Run",
                "sinks.Shard",
                "sinks.Writer",
                "sinks.WriterFactory",
                "sinks.Committer",
                "sinks.Marks",
                "sinks.ShardCommitter",
                "sinks.OpenShard",
                "sinks.TaskReport",
                "sinks.Part",
                "sinks.Participant",
                "sinks.ParticipantId",
                "sinks.Evidence",
                "sinks.Outcome",
                "sinks.Reply",
            ),
        ),
        "inspection": (
            "What operators see of a sink",
            "The optional part of the contract, for `onceflow txn`; [docs/sinks.md](../sinks.md) says how.",
            (
                "inspection.Inspectable",
                "inspection.Inspection",
                "inspection.Looked",
                "inspection.Waited",
                "inspection.Seen",
                "inspection.Shown",
                "inspection.Origin",
                "inspection.Phase",
                "inspection.PlaceInSystem",
                "inspection.Held",
                "inspection.SourceInspection",
                "inspection.InputRange",
                "inspection.LostInput",
            ),
        ),
    }
)
"""Of each page: its title, its first sentence, and which names of ``onceflow`` are on it."""

MADE_ONLY = frozenset({"Json", "Avro", "Protobuf", "JsonSchema", "Csv", "Debezium", "Text", "Raw"})
"""Classes that a user makes and never calls: their methods are for sources and sinks."""

COMMANDS, ERRORS, TESTING = "commands", "errors", "testing"
_CLUSTER = "local.devcluster"
_OWN_WORDS = "As the contract says."  # a method that only fills in the contract; told where the contract is


def pages() -> dict[str, str]:
    """Every page by its file's name."""
    package = griffe.load("onceflow", search_paths=[str(ROOT / "src")])
    made = {}
    for page, (title, about, names) in PAGES.items():
        made[page] = _page(
            title, about, (_entry(name.rpartition(".")[2], _named(package, name), f"onceflow.{name}") for name in names)
        )
    testing = package["testing"]
    made[TESTING] = _page(
        "For your own tests",
        _paragraphs(testing.docstring.value)[0],
        [
            *(_entry(name, testing[name], f"onceflow.testing.{name}") for name in _exported(testing)),
            _entry("DevCluster", package[f"{_CLUSTER}.cluster.DevCluster"], f"onceflow.{_CLUSTER}.DevCluster"),
        ],
    )
    made[ERRORS] = _errors(package["errors"])
    made[COMMANDS] = _commands()
    index = [f"* [{text.splitlines()[0].removeprefix('# ')}]({page}.md)" for page, text in made.items()]
    made["README"] = "\n".join(
        ["# Reference", "", *_MADE, "", *index, "* [Settings of a job and of the environment](../settings.md)", ""]
    )
    return {f"{name}.md": text for name, text in made.items()}


def _named(package: Any, name: str) -> Any:
    """A public name, of the package itself or of one of its rooms."""
    room, _, name = name.rpartition(".")
    return (package[room] if room else package)[name]


_PARSER: dict[str, Any] = {"warnings": False, "returns_multiple_items": False, "returns_named_value": False}
_MADE = ("Generated from the docstrings by `make reference`; a test holds the two together.",)


def _page(title: str, about: str, entries: Iterable[str]) -> str:
    return "\n".join([f"# {title}", "", about, "", *_MADE, "", *entries]).rstrip() + "\n"


def _exported(module: griffe.Object | griffe.Alias) -> list[str]:
    return [str(name) for name in module.exports or ()]


def _entry(name: str, what: griffe.Object | griffe.Alias, path: str) -> str:
    target = what.final_target if isinstance(what, griffe.Alias) else what
    if isinstance(target, griffe.Class):
        return "\n".join(_of_class(target, path))
    if isinstance(target, griffe.Function):
        return "\n".join([f"## {name}", "", *_code(_signature(path, target)), "", *_docstring(target), ""])
    if isinstance(target, griffe.Module):
        functions = [
            line
            for member in _public(target)
            if isinstance(member, griffe.Function)
            for line in (
                f"### {name}.{member.name}",
                "",
                *_code(_signature(member.name, member)),
                "",
                *_docstring(member),
                "",
            )
        ]
        return "\n".join([f"## {name}", "", *_paragraphs(_text(target)), "", *functions])
    return "\n".join([f"## {name}", "", *_code(f"{path} = {_value(target)}"), "", *_docstring(target), ""])


def _value(attribute: griffe.Object) -> str:
    return str(getattr(attribute, "value", "")) or "..."


def _of_class(cls: griffe.Class, path: str) -> Iterator[str]:
    yield f"## {cls.name}"
    yield ""
    init = cls.all_members.get("__init__")
    values = [m for m in cls.members.values() if isinstance(m, griffe.Attribute) and "dataclass" in cls.labels]
    if isinstance(init, griffe.Alias):
        init = init.final_target
    if isinstance(init, griffe.Function) and not _is_protocol(cls):
        yield from _code(_signature(path, init))
        yield ""
    elif values:
        fields = ", ".join(f"{v.name}: {v.annotation}" + (f" = {v.value}" if v.value else "") for v in values)
        yield from _code(f"{path}({fields})")
        yield ""
    yield from _docstring(cls)
    yield ""
    for member in () if cls.name in MADE_ONLY else _public(cls):
        if isinstance(member, griffe.Function):
            kind = " (property)" if "property" in member.labels else ""
            yield f"### {cls.name}.{member.name}{kind}"
            yield ""
            if not kind:
                yield from _code(_signature(member.name, member))
                yield ""
            yield from _docstring(member)
            yield ""
        elif isinstance(member, griffe.Attribute):
            yield f"### {cls.name}.{member.name}"
            yield ""
            yield from _docstring(member)
            yield ""


def _is_protocol(cls: griffe.Class) -> bool:
    return any(str(base) in {"ABC", "Protocol"} for base in cls.bases)


def _public(holder: griffe.Object) -> list[griffe.Object]:
    """The documented, public members that are its own, in their order."""
    return [
        member
        for name, member in holder.members.items()
        if not name.startswith("_")
        and not isinstance(member, griffe.Alias)
        and member.docstring is not None
        and not _text(member).startswith(_OWN_WORDS)
    ]


def _signature(name: str, function: griffe.Function) -> str:
    parts, keyword_only = [], False
    for parameter in function.parameters:
        if parameter.name in {"self", "cls"}:
            continue
        if parameter.kind is griffe.ParameterKind.keyword_only and not keyword_only:
            keyword_only = True
            parts.append("*")
        keyword_only = keyword_only or parameter.kind is griffe.ParameterKind.var_positional
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}
        text = f"{stars.get(parameter.kind, '')}{parameter.name}"
        if parameter.annotation is not None:
            text += f": {parameter.annotation}"
        if parameter.default is not None and parameter.kind not in stars:
            text += f" = {parameter.default}"
        parts.append(text)
    returns = "" if function.returns is None or function.name == "__init__" else f" -> {function.returns}"
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){returns}"])


def _code(text: str) -> list[str]:
    return ["```python", text, "```"]


def _text(what: griffe.Object) -> str:
    return what.docstring.value if what.docstring is not None else ""


def _paragraphs(text: str) -> list[str]:
    """The text of a docstring as Markdown: literals with one backtick, and nothing else changed."""
    return [_markdown(part) for part in re.split(r"\n\s*\n", text.strip())]


def _markdown(text: str) -> str:
    text = re.sub(r"``([^`]+)``", r"`\1`", text)
    return re.sub(r"::$", ":", text, flags=re.MULTILINE)


def _one_line(text: str) -> str:
    return " ".join(_markdown(text).split())


def _docstring(what: griffe.Object) -> Iterator[str]:
    if what.docstring is None:
        return
    for section in what.docstring.parse("google", **_PARSER):
        match section.kind:
            case griffe.DocstringSectionKind.text:
                yield _markdown(str(section.value))
            case (
                griffe.DocstringSectionKind.parameters
                | griffe.DocstringSectionKind.attributes
                | griffe.DocstringSectionKind.raises
                | griffe.DocstringSectionKind.returns
                | griffe.DocstringSectionKind.yields
            ):
                yield f"**{section.kind.value.capitalize()}**"
                yield ""
                for item in section.value:
                    name = getattr(item, "name", "") or str(getattr(item, "annotation", "") or "")
                    about = _one_line(item.description)
                    named = name and section.kind not in {
                        griffe.DocstringSectionKind.returns,
                        griffe.DocstringSectionKind.yields,
                    }
                    yield f"* `{name}`: {about}" if named else f"* {about}"
            case griffe.DocstringSectionKind.admonition:
                yield f"**{section.title}** {_one_line(section.value.description)}"
            case other:
                raise ValueError(f"{what.path}: a section that no page knows: {other}")
        yield ""


def _errors(module: griffe.Object | griffe.Alias) -> str:
    lines = [
        "Every error that onceflow raises on purpose, in `onceflow.errors`. **Again?** says whether the same job may",
        "be started again as it is: what a supervisor goes by. In Python it is `error.retriable`.",
        "",
        "| error | a kind of | again? | when |",
        "|---|---|---|---|",
    ]
    retriable: dict[str, bool] = {}
    for name, cls in module.members.items():
        if not isinstance(cls, griffe.Class) or name.startswith("_"):
            continue
        base = str(cls.bases[0]) if cls.bases else ""
        own = cls.members.get("retriable")
        again = str(own.value) == "True" if isinstance(own, griffe.Attribute) else retriable.get(base, False)
        retriable[name] = again
        when = _one_line(_paragraphs(_text(cls))[0])
        lines.append(f"| `{name}` | {f'`{base}`' if base else ''} | {'yes' if again else 'no'} | {when} |")
    return _page("Errors", "\n".join(lines), ())


def _commands() -> str:
    made = subprocess.run(
        [sys.executable, "-m", "typer", "onceflow.cli.app", "utils", "docs", "--name", "onceflow"],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    ).stdout
    _, _, text = made.partition("\n")
    return _page("Commands", "What the command `onceflow` does.", (text.strip(),))


def main() -> None:
    """Write the pages, and remove what is none of them."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = pages()
    for old in FOLDER.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    main()
