"""Presets: settings that go together, each with its reason, below all that anybody says."""

import json
from pathlib import Path

import pytest
from bench import intervals
from typer.testing import CliRunner

import onceflow as of
from onceflow.cli.app import app
from onceflow.errors import ConfigurationError
from onceflow.options.catalogue import SETTINGS, setting
from onceflow.options.job_options import JobOptions
from onceflow.options.presets import KEY, PRESETS

ROOT = Path(__file__).parents[3]

INTERVAL, TOLERABLE = "execution.checkpointing.interval", "execution.checkpointing.tolerable-failed-checkpoints"
JOB = """
import onceflow as of
job = of.Job("one", checkpointing=of.Checkpointing("checkpoints/one"{more}))
"""


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch):
    for name in ("ONCEFLOW_CONFIG", "ONCEFLOW__PRESET", "ONCEFLOW__EXECUTION__CHECKPOINTING__INTERVAL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def plain():
    """Of an author who has said nothing."""
    return JobOptions(of.Checkpointing("somewhere"), of.ExponentialDelay())


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_works_and_says_why(name, plain):
    """Each key is one of the catalogue, each value can be used, each has a reason; and each counts."""
    found = {each.setting.flink: each for each in plain.layers({KEY: name}).values()}
    assert {key for key, each in found.items() if each.source == f"preset {name}"} == set(PRESETS[name])
    assert all(found[key].why == chosen.why != "" for key, chosen in PRESETS[name].items())
    assert plain.under({KEY: name}).checkpointing.interval_ms == found[INTERVAL].value > 0
    assert set(PRESETS[name]) <= {each.flink for each in SETTINGS}


def test_the_presets_are_those_that_the_catalogue_and_the_guide_name():
    """In all three places the same ones."""
    assert setting(KEY).choices == tuple(PRESETS)
    guide = (ROOT / "docs" / "choosing.md").read_text()
    for name, chosen in PRESETS.items():
        section = guide.partition(f"\n## `{name}`")[2].partition("\n## ")[0]
        for key, each in chosen.items():
            assert f"| `{key}` | {each.value} | {each.why} |" in section


def test_every_layer_goes_before_the_preset(plain, monkeypatch, tmp_path):
    """Python, a file, a variable and a flag; what they do not say stays the preset's."""
    author = JobOptions(of.Checkpointing("somewhere", interval="7 s"), of.ExponentialDelay())
    assert author.under({KEY: "balanced"}).checkpointing.interval_ms == 7_000
    (tmp_path / "settings.toml").write_text(f'{KEY} = "balanced"\n"{INTERVAL}" = "8 s"')
    monkeypatch.setenv("ONCEFLOW_CONFIG", str(tmp_path / "settings.toml"))
    assert plain.under({}).checkpointing.interval_ms == 8_000
    monkeypatch.setenv("ONCEFLOW__EXECUTION__CHECKPOINTING__INTERVAL", "9 s")
    assert plain.under({}).checkpointing.interval_ms == 9_000
    options = plain.under({INTERVAL: "6 s"}).checkpointing
    assert (options.interval_ms, options.tolerable_failures) == (6_000, int(PRESETS["balanced"][TOLERABLE].value))


def test_the_strongest_layer_names_the_preset(plain, monkeypatch):
    """A flag before a variable."""
    monkeypatch.setenv("ONCEFLOW__PRESET", "logs")
    assert plain.under({}).checkpointing.interval_ms == 30_000
    assert plain.under({KEY: "finance"}).checkpointing.interval_ms == 5_000


def test_a_preset_that_is_none_is_refused(plain):
    """With the one that may be meant."""
    with pytest.raises(ConfigurationError, match="no preset 'finanz'") as refused:
        plain.layers({KEY: "finanz"})
    assert refused.value.action == "did you mean finance?"


def test_the_command_shows_each_value_with_its_reason(tmp_path):
    """Of the preset alone, and of a job under it; a flag still goes before."""
    alone = CliRunner().invoke(app, ["config", "--preset", "logs"])
    assert alone.exit_code == 0, alone.output
    assert alone.stdout.splitlines()[0].startswith(INTERVAL)
    assert PRESETS["logs"][INTERVAL].why in alone.stdout
    job = tmp_path / "job.py"
    job.write_text(JOB.format(more=""))
    words = ["config", str(job), "--preset", "logs", "-D", f"{TOLERABLE}=1", "--output", "json"]
    found = {row["setting"]: row for row in json.loads(CliRunner().invoke(app, words).stdout)["settings"]}
    assert (found[INTERVAL]["value"], found[INTERVAL]["source"]) == ("30000 ms", "preset logs")
    assert found[INTERVAL]["why"] == PRESETS["logs"][INTERVAL].why
    assert (found[TOLERABLE]["value"], found[TOLERABLE]["source"]) == ("1", "-D")
    assert CliRunner().invoke(app, ["config"]).exit_code == 2


def test_the_guide_has_the_figures_that_were_measured():
    """Its table of intervals is what the bench wrote, and nothing was void."""
    results = json.loads((ROOT / "bench" / "results" / "intervals.json").read_text())
    assert {(row["incremental"], row["interval_s"]) for row in results["rows"] if not row["void"]} == {
        (incremental, interval) for incremental in (True, False) for interval in (1, 5, 30)
    }
    assert "\n".join(intervals.table(results)) in (ROOT / "docs" / "choosing.md").read_text()
    assert {"machine", "versions", "seed"} <= set(results)
