"""Options of Avro's formats: what they mean, and what is said of those that cannot be."""

import pytest

from onceflow.errors import ConfigurationError
from onceflow.flinksql.script import Script
from onceflow.formats.registry import SchemaRegistry, require_one_each

TABLE = "CREATE TABLE t ({columns}) WITH ('connector' = 'kafka', 'topic' = 'a', {options}); "
PLAIN = "'properties.bootstrap.servers' = 'k:9092', 'format' = 'avro-confluent', 'avro-confluent.url' = 'http://r:1'"


def source(options="", columns="n INT", plain=PLAIN):
    text = TABLE.format(columns=columns, options=plain + (f", {options}" if options else ""))
    sink = "CREATE TABLE p (n INT) WITH ('connector' = 'print'); INSERT INTO p SELECT 1 FROM t;"
    (pipeline,) = (answer.pipeline for answer in Script({}).run(text + sink) if answer.pipeline is not None)
    return pipeline.job.sources[0]


def test_the_registry_is_that_of_the_options():
    """Address, subject and login; and the job knows it."""
    user = (
        "'avro-confluent.basic-auth.credentials-source' = 'USER_INFO', 'avro-confluent.basic-auth.user-info' = 'a:b:c'"
    )
    made = source(f"'avro-confluent.subject' = 's', {user}")
    (registry,) = made.registries
    assert (registry.url, registry.username, registry.password.get_secret_value()) == (("http://r:1",), "a", "b:c")
    assert made.value.inner.subject == "s"


def test_a_token_is_taken():
    """And is nowhere in what is shown."""
    (registry,) = source("'avro-confluent.bearer-auth.token' = 'abc123'").registries
    assert registry.token.get_secret_value() == "abc123"
    assert "abc123" not in repr(registry)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("'avro-confluent.basic-auth.credentials-source' = 'URL'", "the login is taken from the table alone"),
        ("'avro-confluent.basic-auth.credentials-source' = 'ann:hidden'", "has no value"),
        ("'avro-confluent.basic-auth.credentials-source' = 'USER_INFO'", "has no login"),
        ("'avro-confluent.basic-auth.user-info' = 'hidden'", "has no colon"),
        ("'avro-confluent.ssl.truststore.location' = '/x'", "they are stores of Java's"),
        ("'avro-confluent.properties.a' = 'b'", "they are settings of Java's client"),
        ("'avro-confluent.schema' = 'none'", "it is no JSON"),
        ("'avro.codec' = 'snappy'", "is of a format that table t does not have"),
    ],
)
def test_what_cannot_work_is_said(options, said):
    """By its option, and never with what was given as a login."""
    with pytest.raises(ConfigurationError) as caught:
        source(options)
    assert said in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_a_registry_is_needed():
    """By its option's name."""
    with pytest.raises(ConfigurationError, match=r"has no 'avro-confluent\.url'"):
        source(plain="'properties.bootstrap.servers' = 'k:9092', 'format' = 'avro-confluent'")


def test_a_column_without_a_form_is_refused():
    """By its type."""
    with pytest.raises(ConfigurationError, match="there is no such type in Avro"):
        source(columns="n INT, c MAP<INT, INT>")


def test_a_name_that_avro_has_not_is_refused():
    """By the column's name, before anything is started."""
    with pytest.raises(ConfigurationError, match="a column my col in Avro"):
        source(columns="n INT, `my col` INT")


def test_a_login_is_masked_where_a_table_is_shown():
    """Neither user nor password of it."""
    shown = TABLE.format(columns="n INT", options=PLAIN + ", 'avro-confluent.basic-auth.user-info' = 'ann:hidden'")
    (_, answer) = Script({}).run(shown + "SHOW CREATE TABLE t;")
    assert "hidden" not in str(answer)
    assert "user-info" in str(answer)


def test_a_secret_in_a_registrys_address_is_not_told():
    """Where two registries of one job are refused their addresses are named without it."""
    with pytest.raises(ConfigurationError) as caught:
        require_one_each([SchemaRegistry("http://r:1?token=hidden"), SchemaRegistry("http://r:2")])
    assert "hidden" not in str(caught.value)
    assert "http://r:2" in str(caught.value)
