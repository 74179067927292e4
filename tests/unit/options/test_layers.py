"""Layers of settings: which of them counts, who said it, and what of it is refused."""

import json

import pytest
from typer.testing import CliRunner

import onceflow as of
from onceflow.cli.app import app
from onceflow.errors import ConfigurationError
from onceflow.options.catalogue import SETTINGS
from onceflow.options.job_options import JobOptions

INTERVAL = "execution.checkpointing.interval"
VARIABLE = "ONCEFLOW__EXECUTION__CHECKPOINTING__INTERVAL"


@pytest.fixture
def options(monkeypatch):
    """A job's, whose author has said two things; and an environment that says nothing."""
    for name in ("ONCEFLOW_CONFIG", VARIABLE, "ONCEFLOW__RESTART_STRATEGY__TYPE"):
        monkeypatch.delenv(name, raising=False)
    return JobOptions(of.Checkpointing("somewhere", interval="3 s"), of.FixedDelay(attempts=4))


@pytest.fixture
def said(monkeypatch, tmp_path):
    """``said(flags=, variable=, file=)`` sets what is given."""

    def say(variable=None, file=None):
        if variable:
            monkeypatch.setenv(VARIABLE, variable)
        if file:
            path = tmp_path / "settings.toml"
            path.write_text(file)
            monkeypatch.setenv("ONCEFLOW_CONFIG", str(path))
            return str(path)
        return ""

    return say


@pytest.mark.parametrize(("flag", "variable", "file", "counts"), [
    ("5 s", "6 s", "7 s", (5_000, "-D")),
    (None, "6 s", "7 s", (6_000, VARIABLE)),
    (None, None, "7 s", (7_000, "file")),
    (None, None, None, (3_000, "Python")),
])  # fmt: skip
def test_the_strongest_layer_counts(options, said, flag, variable, file, counts):
    """A flag before a variable, that before a file, and that before Python; and it is told who said it."""
    path = said(variable, file and f'[execution.checkpointing]\ninterval = "{file}"')
    flags = {INTERVAL: flag} if flag else {}
    found = options.layers(flags)["checkpointing.interval"]
    source = f"file {path}" if counts[1] == "file" else counts[1]
    assert (found.value, found.source) == (counts[0], source)
    assert options.under(flags).checkpointing.interval_ms == counts[0]


def test_what_nobody_says_is_as_it_is_by_default(options):
    """The author's object has all of its fields, of which most were never said."""
    found = options.layers({})
    assert {name for name, each in found.items() if each.source != "default"} == {
        "checkpointing.location", "checkpointing.interval", "restart.type", "restart.fixed_delay.attempts",
    }  # fmt: skip
    assert options.under({}) == options


def test_every_layered_setting_can_be_given(options):
    """Each by its key, of each strategy."""
    given = {"duration": "5 s", "count": "5", "number": "0.5", "path": "elsewhere", "boolean": "false", "text": "so"}
    for each in SETTINGS:
        if each.key and each.type != "choice":
            value = "1.5" if "multiplier" in each.name else given[each.type]
            assert options.layers({each.key: value})[each.name].source == "-D"
    rate = {"restart-strategy.type": "failure-rate", "restart-strategy.failure-rate.delay": "9 s"}
    assert options.under(rate).restart == of.FailureRate(delay="9 s")
    assert options.under({"restart-strategy.type": "none"}).restart == of.NoRestart()
    assert not options.under({"execution.checkpointing.incremental": "False"}).checkpointing.incremental
    assert options.under({"execution.checkpointing.dir": "elsewhere"}).checkpointing.location == "elsewhere"


@pytest.mark.parametrize(("flags", "what", "action"), [
    ({"execution.checkpointing.intervall": "5s"}, "there is no setting", f"did you mean {INTERVAL}?"),
    ({"checkpointing.interval": "5s"}, "there is no setting", f"did you mean {INTERVAL}?"),
    ({INTERVAL: "10000"}, 'has no unit; write "10000 ms" or "10000 s"', "docs/settings.md"),
    ({INTERVAL: "often"}, "'often' is no duration", "docs/settings.md"),
    ({"execution.checkpointing.num-retained": "1"}, "num-retained: 1 is no whole number from 2 on", "docs/settings.md"),
    ({"execution.checkpointing.num-retained": "many"}, "'many' is no whole number", "docs/settings.md"),
    ({"commit.offsets.on.checkpoint": "no"}, "'no' is neither true nor false", "docs/settings.md"),
    ({"execution.checkpointing.max-concurrent-checkpoints": "2"}, "2 is not 1; Spark begins", "docs/settings.md"),
    ({"execution.checkpointing.incremental": "yes"}, "'yes' is neither true nor false", "docs/settings.md"),
    ({"execution.checkpointing.mode": "exactly"}, "'exactly' is none of EXACTLY_ONCE, AT_LEAST_ONCE", "docs/settings"),
    ({"state.backend.type": "hashmap"}, "state.backend.type: hashmap is refused", "use rocksdb"),
    ({"parallelism.default": "0"}, "is not at least 1", "docs/settings.md"),
    ({"restart-strategy.type": "always"}, "'always' is none of none, fixed-delay", "docs/settings.md"),
    ({"restart-strategy.fixed-delay.attempts": "0"}, "attempts is not at least 1", "docs/settings.md"),
])  # fmt: skip
def test_what_cannot_be_is_refused_with_who_said_it(options, flags, what, action):
    """A key that is none, a value that is none, or none for this setting; a number alone, which Flink reads as ms."""
    with pytest.raises(ConfigurationError) as refused:
        options.under(flags)
    assert what in refused.value.what
    assert "-D" in refused.value.cause
    assert action in refused.value.action


def test_a_variable_that_is_none_of_ours_is_refused(options, monkeypatch):
    """It begins as ours do, so it was meant for us; a misspelt one must not be passed over."""
    monkeypatch.setenv(f"{VARIABLE}S", "5 s")
    with pytest.raises(ConfigurationError, match=f"{VARIABLE}S") as refused:
        options.under({})
    assert refused.value.action == f"did you mean {VARIABLE}?"


@pytest.mark.parametrize(("file", "said_of_it"), [
    ("interval = 5", "there is no setting 'interval'"),
    ("execution", "cannot be read"),
    ('[execution.checkpointing.interval]\nx = "5 s"', "there is no setting 'execution.checkpointing.interval.x'"),
])  # fmt: skip
def test_a_file_that_cannot_be_taken_is_refused(options, said, file, said_of_it):
    """No TOML, or keys that are none; the file is named."""
    path = said(file=file)
    with pytest.raises(ConfigurationError, match=said_of_it) as refused:
        options.under({})
    assert path in str(refused.value)


def test_a_boolean_is_written_as_in_flink_and_as_in_toml(options, said):
    """As text, and as TOML's own; it is told in the words in which it is given."""
    key = "commit.offsets.on.checkpoint"
    assert options.under({}).checkpointing.publish_offsets is True
    assert options.under({key: "false"}).checkpointing.publish_offsets is False
    said(file=f"{key} = false")
    found = options.layers({})["checkpointing.publish_offsets"]
    assert (found.value, found.text) == (False, "false")


def test_the_command_shows_each_setting_and_who_said_it(options, said, tmp_path):
    """``onceflow config``: for people a line each, for programs one object."""
    job = tmp_path / "job.py"
    job.write_text(
        "import onceflow as of\n"
        'job = of.Job("orders", checkpointing=of.Checkpointing("somewhere", retain=7), restart=of.NoRestart())\n'
    )
    said(variable="6 s")
    runner = CliRunner()
    told = runner.invoke(app, ["config", str(job), "-D", "restart-strategy.type=fixed-delay", "--output", "json"])
    found = {each["setting"]: each for each in json.loads(told.stdout)["settings"]}
    assert found[INTERVAL] == {
        "setting": INTERVAL, "value": "6000 ms", "source": VARIABLE, "becomes": "processingTime",
    }  # fmt: skip
    assert found["restart-strategy.type"]["source"] == "-D"
    assert found["execution.checkpointing.num-retained"]["source"] == "Python"
    lines = runner.invoke(app, ["config", str(job)]).stdout.splitlines()
    assert len(lines) == len(found)
    assert f"6000 ms  ({VARIABLE}; becomes processingTime)" in "\n".join(lines)


def test_what_the_author_says_of_parallelism_is_the_sessions():
    """It is shown as Python's, and set by who makes the session; what an operator says is set on any."""
    job = of.Job("j", checkpointing=of.Checkpointing("c"), spark={"spark.sql.shuffle.partitions": "3"})
    found = job.options.layers({})["job.parallelism"]
    assert (found.value, found.source) == (3, "Python")
    assert job.options.under({}).parallelism is None
    assert job.options.under({"parallelism.default": "5"}).parallelism == 5


def test_the_jobs_own_tools_see_the_same_checkpoint(options, monkeypatch):
    """``onceflow txn`` asks the job where its checkpoint is."""
    job = of.Job("orders", checkpointing=of.Checkpointing("somewhere"))
    monkeypatch.setenv("ONCEFLOW__EXECUTION__CHECKPOINTING__DIR", "elsewhere")
    assert job.checkpointing.location == "elsewhere"


def test_an_operator_sets_spark_by_sparks_own_keys(options, said):
    """By a flag or a file, TOML's numbers and booleans in Spark's words; a flag goes before the file."""
    said(file='[spark]\nmaster = "spark://one:7077"\nexecutor.cores = 2\nui.enabled = false')
    assert options.under({"spark.master": "yarn"}).spark == {
        "spark.master": "yarn",
        "spark.executor.cores": "2",
        "spark.ui.enabled": "false",
    }
    found = options.layers({"spark.master": "yarn"})["spark.master"]
    assert (found.text, found.source, found.setting.becomes) == ("yarn", "-D", "spark.master")


def test_what_an_operator_sets_of_spark_goes_before_the_author(options, monkeypatch):
    """The session that is made for a job gets both, and of one key the operator's."""
    given = {}

    def made(name, spark, begin, *, s3):
        given.update(spark)
        raise ConfigurationError("no Spark here")

    monkeypatch.setattr("onceflow.job.make_session", made)
    job = of.Job("j", checkpointing=of.Checkpointing("c"), spark={"spark.master": "local[3]", "spark.a": "b"})
    job.stream(lambda spark: None)
    with pytest.raises(ConfigurationError, match="no Spark here"):
        job.run(settings={"spark.master": "yarn"})
    assert given == {"spark.master": "yarn", "spark.a": "b"}


@pytest.mark.parametrize("where", ["variable", "SET"])
def test_sparks_keys_are_no_variables_and_no_statements(options, monkeypatch, where):
    """A variable's name has no cases, as Spark's keys have; what SET says is a job's, not a cluster's."""
    if where == "variable":
        monkeypatch.setenv("ONCEFLOW__SPARK__MASTER", "yarn")
    with pytest.raises(ConfigurationError, match="there is no setting"):
        options.layers({}, {"spark.master": "yarn"} if where == "SET" else {})


def test_a_secret_of_sparks_is_given_and_not_shown(options, said):
    """The session gets it; ``onceflow config`` says that there is one."""
    key = "spark.hadoop.fs.s3a.secret.key"
    said(file=f'"{key}" = "hush"')
    assert options.under({}).spark == {key: "hush"}
    assert options.layers({})[key].text == "******"
