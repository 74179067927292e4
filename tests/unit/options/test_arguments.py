"""Arguments of the wrong type: each one of each public callable is told at the call, in words."""

import inspect
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar

import pytest
from pyspark.sql import SparkSession

import onceflow as of
from onceflow import sinks as of_sinks
from onceflow.connectors.contract import Run
from onceflow.errors import ConfigurationError
from onceflow.options.arguments import checked, fits, in_words
from onceflow.rerun.lost_epochs import Again

CLUSTER = of.KafkaCluster("localhost:1")
CHECKPOINTING = of.Checkpointing("checkpoint")
JOB = of.Job("job", checkpointing=CHECKPOINTING)
JOB.stream(print)
SOURCE = of.KafkaSource(CLUSTER, "t", value=of.Raw())
AGAIN = Again(Run("0123456789ab", "onceflow", 1, 0), {}, lambda: None)
NEEDED = {"df": {}, "name": "job", "checkpointing": CHECKPOINTING}

CALLS: dict[str, tuple[Callable[..., object], dict[str, object]]] = {
    "Avro": (of.Avro, {"schema": '"string"'}),
    "Checkpointing": (of.Checkpointing, {"location": "checkpoint"}),
    "Csv": (of.Csv, {}),
    "Debezium": (of.Debezium, {"row": of.Json("id bigint")}),
    "JsonSchema": (of.JsonSchema, {}),
    "Protobuf": (of.Protobuf, {"registry": of.SchemaRegistry("http://localhost:1")}),
    "DatabaseSink": (of.DatabaseSink, {"url": "sqlite:////folder/file.db", "table": "t"}),
    "ExponentialDelay": (of.ExponentialDelay, {}),
    "FailureRate": (of.FailureRate, {}),
    "FixedDelay": (of.FixedDelay, {}),
    "DeltaSink": (of.DeltaSink, {"path": "/lake/t"}),
    "IcebergSink": (of.IcebergSink, {"catalog": "lake", "table": "a.b"}),
    "Job": (of.Job, {"name": "job", "checkpointing": CHECKPOINTING}),
    "Job.check": (JOB.check, {}),
    "Job.main": (JOB.main, {}),
    "Job.recompute": (JOB.recompute, {"receipts": []}),
    "Job.run": (JOB.run, {}),
    "Job.stream": (JOB.stream, {}),
    "Job.write_again": (JOB.write_again, {"receipts": [], "again": AGAIN}),
    "Job.stream()": (JOB.stream(), {}),
    "Json": (of.Json, {}),
    "KafkaCluster": (of.KafkaCluster, {"bootstrap_servers": "localhost:1"}),
    "KafkaSink": (of.KafkaSink, {"cluster": CLUSTER, "topic": "t"}),
    "KafkaSource": (of.KafkaSource, {"cluster": CLUSTER, "topics": "t", "value": of.Raw()}),
    "KafkaSource.load": (SOURCE.load, {}),
    "NewTopic": (of.NewTopic, {"partitions": 1}),
    "NoRestart": (of.NoRestart, {}),
    "Raw": (of.Raw, {}),
    "SchemaRegistry": (of.SchemaRegistry, {"url": "http://localhost:1"}),
    "Text": (of.Text, {}),
    "late_rows": (of.late_rows, {}),
    "show_log": (of.show_log, {}),
    "sql": (of.sql, {"script": "SHOW TABLES"}),
    "start": (of.start, NEEDED),
}
"""What a user calls, with the arguments that must be given."""

OF_THE_CONTRACT = (
    "onceflow.connectors.contract",
    "onceflow.connectors.source_contract",
    "onceflow.connectors.inspection",
    "onceflow.connectors.shards",
    "onceflow.formats.contract",
    "onceflow.twophase.",
)
"""Where stands what a sink of one's own is written against: onceflow makes its values, or its suite looks."""

PARAMETERS = [
    (name, parameter.name)
    for name, (call, _) in CALLS.items()
    for parameter in inspect.signature(call).parameters.values()
]


@pytest.mark.parametrize(
    ("call", "old", "now"),
    [
        (lambda **old: of.DatabaseSink("sqlite:///x", "t", **old), "guarantee", None),
        (lambda **old: of.DatabaseSink("sqlite:///x", "t", **old), "delivery", None),
        (lambda **old: of.Checkpointing("checkpoint", **old), "retention", "on_cancel"),
    ],
)
def test_a_word_of_before_is_told_the_new_one(call, old, now):
    """Who used it before the first release need not look for it; of one that is gone it is told why."""
    with pytest.raises(ConfigurationError, match=f"has no argument {old}") as caught:
        call(**{old: "x"})
    told = f"it is called {now}= now" if now else "remove it: a table's rows are always exactly-once"
    assert caught.value.action.startswith(told)


@pytest.mark.parametrize(("old", "now"), [("check_output", "make_output"), ("check_beside", "require_beside")])
def test_a_sink_of_ones_own_that_answers_by_a_name_of_before_is_told_the_new_one(old, now):
    """Else nobody would ask it: the answer would be lost without a word."""
    with pytest.raises(ConfigurationError, match=f"{old} is {now} now"):
        type("Connection", (of.sinks.SinkConnection,), {old: lambda self, _: None})


@pytest.mark.parametrize("name", ["sinks.Sink", "sinks.Reply", "inspection.Seen"])
def test_a_name_that_has_moved_says_where_it_is(name):
    """So does what is imported from where it was."""
    with pytest.raises(AttributeError, match=rf"onceflow\.{name.partition('.')[2]} is onceflow\.{name} now"):
        getattr(of, name.partition(".")[2])


def test_every_public_callable_is_looked_at():
    """A name that is new in the package is in the list above, if it is no part of the contract."""
    called = {name for name in of.__all__ if not getattr(of, name).__module__.startswith(OF_THE_CONTRACT)}
    assert {name.partition(".")[0] for name in CALLS} == called - {"Stopped"}, "which is raised, and never made"


def test_every_method_that_takes_arguments_is_looked_at():
    """Of the classes above, as far as a user calls them: what the contract names is called by onceflow."""
    contract = {name for kind in (of_sinks.Sink, of.KafkaSource.__mro__[1], of.Format) for name in vars(kind)}
    contract |= set(vars(of.RecordReading))
    for kind in (
        of.Job,
        of.DatabaseSink,
        of.KafkaSink,
        of.KafkaSource,
        of.NewTopic,
        of.Json,
        of.Avro,
        of.Protobuf,
        of.JsonSchema,
        of.Csv,
        of.Debezium,
    ):
        methods = {name for name, one in vars(kind).items() if inspect.isfunction(one) and not name.startswith("_")}
        taking = {name for name in methods - contract if len(inspect.signature(getattr(kind, name)).parameters) > 1}
        assert {f"{kind.__name__}.{name}" for name in taking - {"reads"}} <= set(CALLS)


@pytest.mark.parametrize(("name", "argument"), PARAMETERS)
def test_a_wrong_type_is_told_at_the_call(name, argument, monkeypatch):
    """As our own error, with the argument's name and what to do; nothing was asked of a broker or of Spark."""

    def fail(error):
        raise error

    monkeypatch.setattr("onceflow.program.fail", fail)  # which ends the process with it
    call, needed = CALLS[name]
    position = inspect.signature(call).parameters[argument].kind
    with pytest.raises(ConfigurationError) as told:
        call(object()) if position is inspect.Parameter.POSITIONAL_ONLY else call(**{**needed, argument: object()})
    assert argument in told.value.what + told.value.cause
    assert told.value.cause or name == "Json"
    assert told.value.action


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: of.Job("j", checkpointing="path"), "Job has a wrong checkpointing|give a Checkpointing"),
        (lambda: of.Job("j", checkpointing=CHECKPOINTING, output_mode="apend"), "'append', 'update' or 'complete'"),
        (lambda: of.Job(" ", checkpointing=CHECKPOINTING), "give it a name"),
        (lambda: JOB.stream(sinks=of.KafkaSink(CLUSTER, "t")), "give a list of Sinks"),
        (lambda: of.KafkaSink(CLUSTER, "t", create_topic=4), "give a NewTopic or None"),
        (lambda: of.KafkaSink(CLUSTER, "t", value_columns="value"), "give a list of texts or None"),
        (lambda: of.KafkaSink(CLUSTER, "t", key=["a", 4]), r"key=\['a', 4\]"),
        (lambda: of.KafkaSink("localhost:9092", "t"), "give a KafkaCluster"),
        (lambda: of.NewTopic(0), "give a number from 1 on"),
        (lambda: of.NewTopic(partitions=True), "give a whole number"),
        (lambda: of.start(**{**NEEDED, "df": None}), "start has a wrong df|df=None"),
        (lambda: of.start(**{**NEEDED, "df": {of.KafkaSink(CLUSTER, "t"): None}}), "{KafkaSink: NoneType}|DataFrame"),
        (lambda: JOB.run(until="finished"), "'stopped' or 'caught-up'"),
    ],
)
def test_what_is_told(make, said):
    """The mistakes that are made, in words: what was given, and what is taken."""
    with pytest.raises(ConfigurationError) as told:
        make()
    for part in said.split("|"):
        assert re.search(part, str(told.value))


def test_a_secret_in_an_argument_is_not_told():
    """What holds others is told by its type alone."""
    with pytest.raises(ConfigurationError) as told:
        of.Job("j", checkpointing=CHECKPOINTING, spark={"spark.ssl.keyPassword": b"geheim"})
    assert "spark={str: bytes}" in str(told.value)


NAMED = sorted(n for n, (call, _) in CALLS.items() if inspect.signature(call).parameters and n != "Job.main")
"""All that take arguments; ``Job.main`` hands its own to ``Job.run``."""


@pytest.mark.parametrize("name", NAMED)
def test_an_argument_that_is_none_is_told_at_the_call(name):
    """By each public callable, in our words, with those that it has."""
    call, needed = CALLS[name]
    with pytest.raises(ConfigurationError, match="has no argument nmae") as told:
        call(**{**needed, "nmae": 1})
    assert ", ".join(n for n in inspect.signature(call).parameters if n != "self") in told.value.cause
    assert told.value.action


def test_what_is_missing_or_misspelt_is_told_with_what_is_meant():
    """A name that is near one of the signature's; what was not given; too many."""
    with pytest.raises(ConfigurationError, match="missing a required argument: 'topic'"):
        of.KafkaSink(CLUSTER)
    with pytest.raises(ConfigurationError, match="did you mean key="):
        of.KafkaSink(CLUSTER, "t", keys="a")
    with pytest.raises(ConfigurationError, match=r"transactional_id_prefix= was given(.|\n)*docs/settings.md"):
        of.KafkaSink(CLUSTER, "t", transactional_id_prefix="a")
    with pytest.raises(ConfigurationError, match="Checkpointing cannot be called like this: too many positional"):
        of.Checkpointing("a", "5s")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: of.KafkaSink(CLUSTER, "t", value=of.Text), r"value=the class Text(.|\n)*not the class, but Text\(…\)"),
        (lambda: of.KafkaSource(CLUSTER, "t", value=of.Json), r"not the class, but Json\(…\)"),
        (lambda: JOB.stream(sinks=[of.KafkaSink]), r"sinks=\[the class KafkaSink\](.|\n)*KafkaSink\(…\)"),
        (lambda: JOB.stream(sources=[of.KafkaSource]), r"not the class, but KafkaSource\(…\)"),
        (lambda: of.KafkaSink(CLUSTER, "t", create_topic=of.NewTopic), r"not the class, but NewTopic\(…\)"),
        (lambda: of.KafkaSink(of.KafkaCluster, "t"), r"not the class, but KafkaCluster\(…\)"),
        (lambda: of.Job("j", checkpointing=of.Checkpointing), r"not the class, but Checkpointing\(…\)"),
        (lambda: of.start(**NEEDED | {"df": {of.KafkaSink: None}}), r"not the class, but KafkaSink\(…\)"),
    ],
)
def test_a_class_in_the_place_of_its_object_is_told_as_such(make, said):
    """Parentheses that were forgotten: formats, sinks, sources and settings."""
    with pytest.raises(ConfigurationError, match=said):
        make()


def test_the_advice_is_about_the_setting_that_is_wrong():
    """An example with another argument would not help."""
    with pytest.raises(ConfigurationError) as told:
        of.Checkpointing("a", retain=1)
    assert "retain=100" in told.value.action


ANY_OF = TypeVar("ANY_OF", bound=Callable[[SparkSession], object])


@pytest.mark.parametrize(
    ("hint", "right", "wrong", "words"),
    [
        (str | None, ["a", None], [1, b"a"], "text or None"),
        (int, [1, -1], [True, 1.0, "1"], "a whole number"),
        (float, [1, 1.5], [True, "1"], "a number"),
        (bool, [True], [1], "True or False"),
        (Literal["a", "b"], ["a"], ["c", 1, None], "'a' or 'b'"),
        (Sequence[str], [[], ["a"], ("a",), {"a"}], ["a", [1], {"a": 1}, None], "a list of texts"),
        (Mapping[str, int], [{}, {"a": 1}], [{"a": "b"}, {1: 1}, []], "a dict of texts to whole numbers"),
        (str | os.PathLike[str], ["a", os.curdir], [1], "text or a path"),
        (re.Pattern[str], [re.compile("a")], ["a"], "a compiled pattern"),
        (ANY_OF, [print], [None, "a"], "a function"),
        (of.Checkpointing, [CHECKPOINTING], [of.Checkpointing], "a Checkpointing"),
        (Any, [None, 1], [], "anything"),
    ],
)
def test_types_as_annotations_write_them(hint, right, wrong, words):
    """Each form that a public signature uses: what fits, what does not, and what is said of it."""
    assert all(fits(value, hint) for value in right)
    assert not any(fits(value, hint) for value in wrong)
    assert in_words(hint) == words


def test_a_checked_function_keeps_its_signature():
    """``help`` and type checkers see what was written."""

    @checked
    def f(a: int, *, b: str = "") -> int:
        """Docs."""
        return a + len(b)

    assert f(1, b="x") == 2
    assert list(inspect.signature(f).parameters) == ["a", "b"]
    assert f.__doc__ == "Docs."
