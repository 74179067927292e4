"""Layers of settings: a flag before a variable, that before a script's SET, a file, Python, and the default.

Must not know: what a setting is for. Keys are Flink's where it has one; each value keeps where it came from, for
``onceflow config``. A key of Spark's own is taken as it is, from a flag or a file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from onceflow.errors import ConfigurationError
from onceflow.masking import shown
from onceflow.options.catalogue import LAYER, SETTINGS, Setting
from onceflow.options.durations import duration_ms
from onceflow.options.presets import KEY, preset

CONFIG = "ONCEFLOW_CONFIG"
SPARK = "spark."
"""How keys of Spark's own begin."""
PYTHON = "Python"
SET = "SET"
DEFAULT = "default"


@dataclass(frozen=True)
class Effective:
    """What a setting is, and who said it.

    Attributes:
        setting: Which.
        value: Its value: milliseconds of a duration, None where there is none.
        source: Who said it: "-D", a variable's name, SET, a file, PYTHON, "preset NAME", or DEFAULT.
        why: Of a preset's, its reason.
    """

    setting: Setting
    value: Any
    source: str
    why: str = ""

    @property
    def text(self) -> str | None:
        """The value as it is written; of a setting of Spark's that holds a secret, only that there is one."""
        if self.value is None:
            return None
        if self.setting.type == "boolean":
            return str(self.value).lower()
        if self.setting.type == "duration":
            return f"{self.value} ms"
        return shown(self.setting.name, str(self.value)) if self.setting.name.startswith(SPARK) else str(self.value)


def effective(
    flags: Mapping[str, str],
    python: Mapping[str, Any],
    environ: Mapping[str, str] = os.environ,
    script: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Effective]:
    """Every layered setting by its name, and what flags and a file say of Spark's own, by Spark's keys.

    Args:
        flags: By Flink's keys.
        python: What the program says, by our names, durations in milliseconds.
        environ: The environment, which may name a file (``ONCEFLOW_CONFIG``).
        script: What a script of SQL has SET, by Flink's keys.

    Raises:
        ConfigurationError: A key is unknown, or a value is none.
    """
    layered = {each.key: each for each in SETTINGS if each.key is not None}
    found = {each.name: Effective(each, _of_python(each, each.default), DEFAULT) for each in layered.values()}
    texts = list(_texts(flags, environ, script, layered))
    named = next((given[KEY] for _, given in reversed(texts) if KEY in given), None)
    for key, chosen in preset(str(named)).items() if named is not None else ():
        setting, source = layered[key], f"preset {named}"
        found[setting.name] = Effective(setting, _read(setting, chosen.value, source), source, chosen.why)
    for name, value in python.items():
        found[name] = Effective(found[name].setting, value, PYTHON)
    for source, given in texts:
        for key, text in given.items():
            setting = layered[key] if key in layered else _of_spark(key, source, layered)
            found[setting.name] = Effective(setting, _read(setting, text, source), source)
    return found


def _of_spark(key: str, source: str, known: Mapping[str, Setting]) -> Setting:
    """A setting of Spark's session, which only Spark knows.

    Raises:
        ConfigurationError: It is none, or it is said where none of Spark's can be.
    """
    if not key.startswith(SPARK) or source == SET:
        raise _unknown(key, source, known)
    return Setting(name=key, type="text", default=None, doc="", ours=key, becomes=key)


def _texts(
    flags: Mapping[str, str], environ: Mapping[str, str], script: Mapping[str, str], layered: Mapping[str, Setting]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What each layer says under Flink's keys, the weakest first."""
    path = environ.get(CONFIG)
    if path:
        yield f"file {path}", dict(_of_file(Path(path)))
    yield SET, script
    variables = {setting.variable: key for key, setting in layered.items()}
    for name in sorted(environ):
        if name.startswith(LAYER):
            yield name, {variables.get(name, name): environ[name]}
    yield "-D", flags


def _of_file(path: Path) -> Iterator[tuple[str, Any]]:
    try:
        tables = tomllib.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:  # a number of too many digits is no TOMLDecodeError
        raise ConfigurationError(
            f"the settings in {path} cannot be read: {error}",
            harmless="always: nothing was started",
            cause=f"{CONFIG} or --config names it",
            action='write TOML, for example: execution.checkpointing.interval = "5s"',
        ) from None
    yield from _flat("", tables)


def _flat(before: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(f"{before}{key}.", value)
        else:
            yield before + key, value


def _read(setting: Setting, given: Any, source: str) -> Any:
    """A value as it is written; TOML's true and false are not Python's words for them."""
    text = str(given).lower() if isinstance(given, bool) else str(given).strip()
    if setting.type == "duration" and text.replace(".", "", 1).isdecimal() and float(text):
        raise _wrong(setting, text, source, f'has no unit; write "{text} ms" or "{text} s"')
    if setting.type == "choice" and text not in setting.choices:
        raise _wrong(setting, text, source, f"is none of {', '.join(setting.choices)}")
    if setting.type not in _READ:
        return text
    read, called = _READ[setting.type]
    try:
        return read(text)
    except ValueError:  # a ConfigurationError is one
        raise _wrong(setting, text, source, f"is {called}") from None


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


_READ: Mapping[str, tuple[Callable[[str], int | float], str]] = {
    "boolean": (_boolean, "neither true nor false"),
    "duration": (duration_ms, "no duration"),
    "count": (int, "no whole number"),
    "number": (float, "no number"),
}


def _of_python(setting: Setting, value: Any) -> Any:
    return duration_ms(value) if setting.type == "duration" and value is not None else value


def _wrong(setting: Setting, text: str, source: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"{setting.key}: {text!r} {why}",
        harmless="always: nothing was started",
        cause=f"{source} says {text!r}",
        action="write it as docs/settings.md says",
        setting=setting.key,
    )


def _unknown(key: str, source: str, known: Mapping[str, Setting]) -> ConfigurationError:
    words = {setting.name: key for key, setting in known.items()} | {key: key for key in known}
    words |= {setting.variable: setting.variable for setting in known.values() if setting.variable is not None}
    meant = get_close_matches(key, words, n=1, cutoff=0.5)
    return ConfigurationError(
        f"there is no setting {key!r}",
        harmless="always: nothing was started",
        cause=f"{source} names it",
        action=f"did you mean {words[meant[0]]}?" if meant else "docs/settings.md has all",
    )
