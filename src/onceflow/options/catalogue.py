"""The catalogue of settings: what the operator of a job may set, each with its type, default and meaning, as one tuple.

The checkpoint's, and the environment variables; what is a cluster's, a source's or a sink's stands at its class.
Must not know: what is done with them. The page of the docs is generated from SETTINGS (``page``); a class or a variable
that takes one of them takes its default from here, or a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from onceflow.errors import ConfigurationError

Type = Literal["duration", "count", "path", "paths", "text", "flag"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting.

    Attributes:
        name: Ours: who has it, a dot, and its keyword there.
        type: What its value is.
        default: What it is where nobody sets it; None where there is nothing then, or it must be given.
        doc: What it does, in a sentence.
        flink: Flink's key for the same thing, if there is one.
        becomes: The key, or the option, of Spark or Kafka that gets it, if there is one.
        environment: The environment variable that sets it, if there is one.
    """

    name: str
    type: Type
    default: Any
    doc: str
    flink: str | None = None
    becomes: str | None = None
    environment: str | None = None


SETTINGS = (
    Setting(
        name="checkpointing.location",
        type="path",
        default=None,
        doc="Where the checkpoint is, on a local or shared POSIX file system; a ``file:`` URI is taken, too.",
        flink="execution.checkpointing.dir",
        becomes="checkpointLocation",
    ),
    Setting(
        name="checkpointing.interval",
        type="duration",
        default="1s",
        doc="Time between the beginnings of two epochs; 0 is one after the other without a pause.",
        flink="execution.checkpointing.interval",
        becomes="processingTime",
    ),
    Setting(
        name="checkpointing.retain",
        type="count",
        default=100,
        doc="Epochs whose files are kept, at least 2.",
        flink="execution.checkpointing.num-retained",
        becomes="spark.sql.streaming.minBatchesToRetain",
    ),
    Setting(
        name="session.master",
        type="text",
        default="local[*]",
        doc="Where Spark runs, for a session that onceflow makes and whose settings do not say it.",
        becomes="spark.master",
        environment="SPARK_MASTER",
    ),
    Setting(
        name="session.jars",
        type="paths",
        default=None,
        doc="Jars of your own, or folders of them, in the place of the pinned ones of Spark's Kafka connector.",
        becomes="spark.jars",
        environment="ONCEFLOW_JARS",
    ),
    Setting(
        name="local.cache",
        type="path",
        default="~/.cache/onceflow",
        doc="Where jars and the archive of classes are kept; ``$XDG_CACHE_HOME/onceflow`` goes before the default.",
        environment="ONCEFLOW_CACHE",
    ),
    Setting(
        name="local.ivy_settings",
        type="path",
        default=None,
        doc="An ``ivysettings.xml`` that says where jars are fetched from, for a mirror.",
        environment="ONCEFLOW_IVY_SETTINGS",
    ),
    Setting(
        name="dev.data_dir",
        type="path",
        default="~/.local/share/onceflow/dev",
        doc="Where the Kafka of ``onceflow dev`` has its data, ports and logs.",
        environment="ONCEFLOW_DEV_DIR",
    ),
    Setting(
        name="cli.debug",
        type="flag",
        default=False,
        doc="Errors of ``onceflow`` come with their traceback.",
        environment="ONCEFLOW_DEBUG",
    ),
)


def setting(name: str) -> Setting:
    """The setting of this name.

    Raises:
        ConfigurationError: There is none; the message says which one may have been meant.
    """
    found = {each.name: each for each in SETTINGS}
    if name in found:
        return found[name]
    # It may have been called as elsewhere: by its keyword alone, by Flink's key, by its variable.
    words = {
        word: each.name
        for each in SETTINGS
        for word in (each.name, each.name.rpartition(".")[2], each.flink, each.environment)
        if word is not None
    }
    meant = get_close_matches(name, words, n=1)
    raise ConfigurationError(
        f"there is no setting {name!r}",
        action=f"did you mean {words[meant[0]]}?" if meant else f"choose one of {', '.join(found)}",
    )


_WRITTEN = {
    "duration": '`"200 ms"`, `"5s"`, `"10 min"`, `"2 h"`, or a number of seconds',
    "count": "a whole number",
    "path": "a path",
    "paths": "paths, with `:` between them",
    "text": "text",
    "flag": "on with any text in the variable, off without",
}


def page() -> str:
    """The page of the docs that is made from the catalogue."""
    lines = [
        "# Settings",
        "",
        "Generated from `src/onceflow/options/catalogue.py` by `make settings`; a test holds the two together.",
        "",
        "What the operator of a job sets: the checkpoint's settings, by `Checkpointing(…)`, and environment variables.",
        "What is a cluster's, a source's or a sink's stands at its class.",
        "",
        "| setting | type | default | what it is | in Flink | becomes, in Spark | variable |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in SETTINGS:
        keys = [f"`{key}`" if key else "" for key in (each.flink, each.becomes, each.environment)]
        cells = [each.name, each.type, _default(each), each.doc.replace("``", "`"), *keys]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| type | how it is written |", "|---|---|"]
    lines += [f"| {name} | {how} |" for name, how in _WRITTEN.items()]
    return "\n".join(lines) + "\n"


def _default(of: Setting) -> str:
    return "" if of.default is None else "off" if of.default is False else f"`{of.default}`"
