"""Settings: durations, the checkpoint's, and the catalogue that has them all."""

import inspect
import os
import re
from pathlib import Path
from typing import Literal, get_type_hints

import pytest

import onceflow as of
from onceflow import crash_points
from onceflow.cli import dev
from onceflow.errors import ConfigurationError
from onceflow.local import jars
from onceflow.options.catalogue import SETTINGS, setting
from onceflow.options.durations import duration_ms
from onceflow.supervision import child

SOURCE = Path(of.__file__).parent
CODE = "\n".join(path.read_text() for path in SOURCE.rglob("*.py") if path.name != "catalogue.py")
TYPES = {"path": str | os.PathLike[str], "duration": str | float, "count": int, "boolean": bool}
"""How a keyword of each type is declared."""


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        ("200 ms", 200),
        ("5s", 5_000),
        ("1.5 min", 90_000),
        ("2H", 7_200_000),
        ("1 day", 86_400_000),
        (3, 3_000),
        (0.5, 500),
    ],
)
def test_a_duration_is_a_number_and_a_unit(given, ms):
    """Units are taken in any case, with or without a space; a number alone means seconds."""
    assert duration_ms(given) == ms


@pytest.mark.parametrize("given", ["", "soon", "5 weeks", "-1s", -1, "1s 2"])
def test_what_is_no_duration_is_refused(given):
    """An unknown unit, a negative number, or no number."""
    with pytest.raises(ConfigurationError, match="is no duration"):
        duration_ms(given)


def test_names_are_unique():
    """No two settings have one name, one key, one of Spark's, or one variable."""
    for words in (
        [each.name for each in SETTINGS],
        [each.key for each in SETTINGS if each.key],
        [each.becomes for each in SETTINGS if each.becomes],
        [each.variable for each in SETTINGS if each.variable],
    ):
        assert len(set(words)) == len(words)


def test_the_checkpoints_settings_are_those_of_the_catalogue():
    """``Checkpointing`` has a keyword for each, of its type and with its default, and no other; so are its docs."""
    catalogued = {each.name.partition(".")[2]: each for each in SETTINGS if each.name.startswith("checkpointing.")}
    keywords = {name: each for name, each in inspect.signature(of.Checkpointing).parameters.items() if name != "self"}
    assert list(keywords) == list(catalogued)
    assert {name.removesuffix("_ms") for name in of.Checkpointing.model_fields} == set(catalogued)
    types = get_type_hints(of.Checkpointing.__init__)
    docs = " ".join(inspect.getdoc(of.Checkpointing).split())
    for name, each in catalogued.items():
        default = keywords[name].default
        assert (None if default is inspect.Parameter.empty else default) == each.default
        assert types[name] == (Literal[each.choices] if each.type == "choice" else TYPES[each.type])
        assert each.doc in docs


def test_every_variable_is_in_the_catalogue():
    """The variables of ours that the code names are the catalogue's, and it reads each.

    But for those for tests, and the one by which a process finds its parent.
    """
    nobodys = {crash_points.ARM, crash_points.MARK, crash_points.DRIVER, child.LINE}
    variables = {each.environment for each in SETTINGS if each.environment}
    assert set(re.findall(r"\bONCEFLOW_(?!_)[A-Z_]+\b", CODE)) - nobodys == {
        name for name in variables if name.startswith("ONCEFLOW_")
    }
    assert not [name for name in variables if f'"{name}"' not in CODE]


def test_what_a_setting_becomes_is_what_the_code_sets():
    """Spark's keys and options in the catalogue are those by which the code tells Spark."""
    keys = [each.becomes for each in SETTINGS if each.becomes]
    assert not [key for key in keys if f'"{key}"' not in CODE and f"({key}=" not in CODE]


def test_the_defaults_of_variables_are_those_of_the_code(monkeypatch):
    """Where no variable says it: the folders of the cache and of the dev cluster, and Spark's master."""
    monkeypatch.delenv("ONCEFLOW_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert Path(setting("local.cache").default).expanduser() == jars.cache_folder()
    assert Path(setting("dev.data_dir").default) == dev.DEFAULT_DIR
    told = f'os.environ.get("SPARK_MASTER", "{setting("session.master").default}")'
    assert told in (SOURCE / "spark" / "session.py").read_text()


@pytest.mark.parametrize(
    "name", ["checkpointing.intervall", "interval", "execution.checkpointing.interval", "execution.checkpoint.interval"]
)
def test_an_unknown_name_is_answered_with_the_one_that_was_meant(name):
    """Misspelt, without its first part, or as Flink calls it."""
    with pytest.raises(ConfigurationError, match=r"did you mean checkpointing\.interval\?"):
        setting(name)


def test_a_name_like_no_other_is_answered_with_all():
    """The message lists the names."""
    with pytest.raises(ConfigurationError, match=r"choose one of checkpointing\.location, "):
        setting("xyzzy")


@pytest.mark.parametrize("location", ["", " ", None, 5, b"folder"])
def test_a_checkpoint_is_in_a_folder_that_is_named(location):
    """An empty name would be the folder that the program runs in, which a job would fill."""
    with pytest.raises(ConfigurationError, match="location"):
        of.Checkpointing(location)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"interval": "5 secnds"}, "interval: '5 secnds' is no duration"),
        ({"interval": -1}, "interval: -1 is no duration"),
        ({"retain": 1}, "retain: 1 is no whole number from 2 on"),
        ({"publish_offsets": 2}, "publish_offsets"),
    ],
)
def test_a_setting_of_the_checkpoint_is_refused_in_our_words(settings, said):
    """With one cause and one thing to do, and none of the sentences of the library that checks it."""
    with pytest.raises(ConfigurationError) as refused:
        of.Checkpointing("checkpoints/one", **settings)
    assert said in refused.value.what
    assert str(refused.value).count("What to do") == 1
    assert "Input should" not in str(refused.value)
    assert "Value error" not in str(refused.value)


@pytest.mark.parametrize(("interval", "told"), [(10_000, True), (3_600, False), ("3 h", False)])
def test_an_interval_that_was_meant_in_milliseconds(caplog, interval, told):
    """Flink's are: a number that gives hours here is said, with what to write for either."""
    of.Checkpointing("somewhere", interval=interval)
    assert ["10000 ms" in message for message in caplog.messages] == [True] * told
