"""Targets: what people write: scripts of SQL, settings, durations, addresses, files with secrets, a shell's history."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

import onceflow as of
from onceflow import masking
from onceflow.cli.shell import _history, _is_whole
from onceflow.connectors.database.urls import checked_url
from onceflow.errors import OnceflowError
from onceflow.flinksql.kind_parsing import kind_of
from onceflow.flinksql.lexing import statements_of, tokens_of
from onceflow.flinksql.parsing import parse
from onceflow.flinksql.problems import Position
from onceflow.flinksql.script import Script
from onceflow.flinksql.statements import ScriptText
from onceflow.options.auditing import read_key
from onceflow.options.catalogue import SETTINGS
from onceflow.options.durations import duration_ms
from onceflow.options.layers import CONFIG, effective
from onceflow.options.restarting import FixedDelay
from onceflow.storage.locations import local_path
from tests.fuzz.target import ROOT, Target, put
from tests.sql.cases import TABLES, cases, script


def _lexing(data: bytes, _: Path) -> None:
    statements_of(tokens_of(data.decode("utf-8", "replace")))


def _parsing(data: bytes, _: Path) -> None:
    parse(data.decode("utf-8", "replace"))


def _script(data: bytes, _: Path) -> None:
    """A script before the corpus's tables: up to the jobs that it makes, none of which is started."""
    made = script()
    for answer in made.run(data.decode("utf-8", "replace")):
        list(answer.lines)


def _flags(data: bytes, _: Path) -> None:
    """A line a setting of the command line, then a script's SET of the same."""
    lines = [line.partition("=") for line in data.decode("utf-8", "replace").split("\n")]
    made = Script({key: value for key, _, value in lines[: len(lines) // 2]})
    for key, _, value in lines[len(lines) // 2 :]:
        quoted = key.replace("'", "''"), value.replace("'", "''")
        list(made.run(f"SET '{quoted[0]}' = '{quoted[1]}';"))
    effective({key: value for key, _, value in lines}, {}, {})


def _settings_file(data: bytes, folder: Path) -> None:
    path = put(folder, "onceflow.toml", data)
    for each in effective({}, {}, {CONFIG: str(path)}).values():
        assert each.text is None or isinstance(each.text, str)


def _environment(data: bytes, _: Path) -> None:
    """Lines of NAME=VALUE, as a process has them: a name has no zero byte."""
    lines = (line.partition("=") for line in data.decode("utf-8", "surrogateescape").split("\n"))
    effective({}, {}, {name: value for name, _, value in lines if name != CONFIG})


_READERS: dict[str, Callable[[str], object]] = {
    "duration": duration_ms,
    "delay": lambda text: FixedDelay(delay=text),
    "interval": lambda text: of.Checkpointing("/tmp/x", interval=text),  # noqa: S108 - nothing is made there
    "path": local_path,
    "url": checked_url,
    "servers": of.KafkaCluster,
    "type": lambda text: kind_of(ScriptText(text, Position(1, 1))) if text.strip() else None,
}


def _texts(data: bytes, _: Path) -> None:
    """Options that are one text: before it the first line says which."""
    which, _, told = data.partition(b"\n")
    text = told.decode("utf-8", "surrogateescape")
    masking.shown("key", text)
    masking.in_one_line(text)
    _READERS.get(which.decode("utf-8", "replace"), duration_ms)(text)


def _refusal(read: Callable[[str], object], text: str) -> list[OnceflowError]:
    try:
        read(text)
    except OnceflowError as error:
        return [error]
    return []


def _secrets(data: bytes, folder: Path) -> None:
    """A file that holds a key, a password or a certificate."""
    path = put(folder, "secret", data)
    refused: list[OnceflowError] = []
    logging.disable()
    try:
        refused += _refusal(lambda p: read_key(Path(p)), str(path))
        login = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "username": "u"}
        refused += _refusal(lambda p: of.KafkaCluster("h:1", password={"file": p}, **login), str(path))
        refused += _refusal(lambda p: of.KafkaCluster("h:1", security_protocol="SSL", ssl_ca=p), str(path))
    finally:
        logging.disable(logging.NOTSET)
    for error in refused:
        held = data.strip().decode("utf-8", "replace")
        assert len(held) < 16 or held not in str(error), "a secret stands in an error"
    if refused:
        raise refused[0]


def _shell(data: bytes, folder: Path) -> None:
    """The file of the shell's history, and a statement that goes there."""
    path = put(folder, "history/sql", data)
    history = _history(path)
    list(history.load_history_strings())
    text = data.decode("utf-8", "replace")
    history.store_string(text)
    _is_whole(text)


def _sql() -> list[bytes]:
    found = [case.text.encode() for case in cases()]
    found += [path.read_bytes() for path in sorted((ROOT / "examples").glob("*.sql"))]
    found += [
        block.encode()
        for path in sorted((ROOT / "docs").glob("*sql*.md"))
        for block in re.findall(r"```sql\n(.*?)```", path.read_text(), re.DOTALL)
    ]
    return [*found, *(statement.encode() for statement in TABLES.split(";\n"))]


def _setting_lines() -> list[bytes]:
    examples = {"duration": "5 s", "boolean": "true", "count": "3", "number": "0.5", "text": "x"}
    lines = [f"{each.key}={examples.get(each.type, (each.choices or ('x',))[0])}" for each in SETTINGS if each.key]
    return ["\n".join(lines[at : at + 4]).encode() for at in range(0, len(lines), 4)]


def _setting_files() -> list[bytes]:
    lines = [line.split("=") for seed in _setting_lines() for line in seed.decode().split("\n")]
    return [f'{key} = "{value}"\n'.encode() for key, value in lines] + [
        b'preset = "finance"\n[spark]\nsql.x = 5\n',
        b"[restart-strategy]\ntype = 1\n",
    ]


def _variables() -> list[bytes]:
    return [
        b"\n".join(f"{each.variable}=3".encode() for each in SETTINGS if each.variable),
        b"ONCEFLOW_PRESET=logs\nONCEFLOW_X=1",
    ]


_ONE_TEXTS = (
    b"duration\n5 s",
    b"delay\n10 min",
    b"interval\n0.5",
    b"path\nfile:///a/b%2e",
    b"path\nfile://host/a?b",
    b"path\n/a/../b",
    b"path\ns3://b/k",
    b"path\nhdfs://h/p",
    b"url\npostgresql://u:p@h:5432/d?sslmode=require",
    b"url\nsqlite:////f/x.db",
    b"url\nmysql+pymysql://u@h/d?charset=utf8",
    b"servers\nh:9092,[::1]:9093",
    b"type\nDECIMAL(10, 2)",
    b"type\nROW<a INT, b ARRAY<MAP<STRING, TIMESTAMP(3)>>>",
    b"duration\nhttps://u:secret@h/p?password=x&a=b",
)

TARGETS = (
    Target("sql-words", _lexing, (OnceflowError,), _sql),
    Target("sql-statements", _parsing, (OnceflowError,), _sql),
    Target("sql-script", _script, (OnceflowError,), _sql),
    Target("flags", _flags, (OnceflowError,), _setting_lines),
    Target("settings-file", _settings_file, (OnceflowError,), _setting_files),
    Target("environment", _environment, (OnceflowError,), _variables),
    Target("texts", _texts, (OnceflowError,), lambda: list(_ONE_TEXTS)),
    Target(
        "secrets",
        _secrets,
        (OnceflowError,),
        lambda: [b"0123456789abcdef\n", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
    ),
    Target(
        "shell",
        _shell,
        (),
        lambda: [
            b"\n# 2026-01-01 00:00:00\n+SELECT 1;\n",
            b"CREATE TABLE t (a INT) WITH ('password' = 'it''s');",
            b"EXECUTE STATEMENT SET BEGIN END;",
        ],
    ),
)
