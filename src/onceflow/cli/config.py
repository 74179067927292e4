"""``onceflow config FILE``: what each setting of a job is, who said it, and what it becomes in Spark.

And ``-D``, ``--preset`` and ``--config``, which other commands take, too. Must not know: what a setting is for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from onceflow.cli.job_file import blamed_on, find_job
from onceflow.cli.output import OutputForm, OutputOption, tell_json
from onceflow.masking import shown
from onceflow.options import presets

SettingsOption = Annotated[
    list[str] | None,
    typer.Option(
        "-D",
        metavar="KEY=VALUE",
        help="A setting by Flink's key (docs/settings.md) or Spark's; it goes before all others.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", metavar="TOML", help="A file with settings, as ONCEFLOW_CONFIG names one."),
]
PresetOption = Annotated[
    str | None,
    typer.Option(help="Values that go together, just above the defaults: finance, balanced, logs or warehouse."),
]


def read_settings(settings: Sequence[str] | None, config: Path | None, preset: str | None = None) -> dict[str, str]:
    """What ``-D`` and ``--preset`` say; a file is named for the whole process."""
    if config is not None:
        os.environ["ONCEFLOW_CONFIG"] = str(config)
    flags = {} if preset is None else {presets.KEY: preset}
    for each in settings or ():
        key, between, value = each.partition("=")
        if not between:
            raise typer.BadParameter(f"-D {each} has no value: write -D key=value")
        if shown(key, value) != value:
            raise typer.BadParameter(
                f"-D {key.strip()} holds a secret, which every user of the machine could read on this command line: "
                "give it in a file that its owner alone reads (mode 0600), by --config FILE"
            )
        flags[key.strip()] = value
    return flags


def config(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A Python file that makes a Job; without it --preset alone is shown."),
    ] = None,
    job: Annotated[str | None, typer.Option(help="The job's name, if FILE makes several.")] = None,
    preset: PresetOption = None,
    settings: SettingsOption = None,
    config: ConfigOption = None,
    output: OutputOption = OutputForm.TEXT,
) -> None:
    """Show every setting of the job that FILE makes: its value, who said it, and what it becomes in Spark.

    With --preset also why the preset has it; without FILE the preset alone.
    """
    flags = read_settings(settings, config, preset)
    found: list[dict[str, str | None]]
    if file is None:
        if preset is None:
            raise typer.BadParameter("give FILE, or --preset NAME")
        found = [{"setting": key, "value": of.value, "why": of.why} for key, of in presets.preset(preset).items()]
    else:
        with blamed_on(file):
            options = find_job(file, job).options
        found = [
            {"setting": each.setting.key, "value": each.text, "source": each.source, "becomes": each.setting.becomes}
            | ({"why": each.why} if each.why else {})
            for each in options.layers(flags).values()
        ]
        options.under(flags)  # refuses what cannot work
    if output is OutputForm.JSON:
        tell_json({"settings": found})
        return
    width = max(len(str(row["setting"])) for row in found)
    for row in found:
        said = [row.get("source"), row.get("becomes") and f"becomes {row['becomes']}", row.get("why")]
        value = "none" if row["value"] is None else row["value"]
        typer.echo(f"{row['setting']:<{width}}  {value}  ({'; '.join(filter(None, said))})")
