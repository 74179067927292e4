"""What is shown of settings, options and addresses: names and values as others write them, with secrets made up."""

import pytest
import typer

import onceflow as of
from onceflow.cli.config import read_settings
from onceflow.errors import OnceflowError
from onceflow.masking import MASKED, in_one_line, in_text, is_secret, printable, shown
from onceflow.options import layers

SECRET = [
    "password",
    "properties.sasl.jaas.config",
    "properties.ssl.key.password",
    "kafka.ssl.keystore.key",
    "s3.access-key-id",
    "s3.secret-access-key",
    "spark.hadoop.fs.s3a.access.key",
    "spark.hadoop.fs.azure.account.key.bank.dfs.core.windows.net",
    "spark.hadoop.fs.azure.sas.container.bank",
    "spark.executorEnv.DB_PASS",
    "spark.executorEnv.PGPASSWORD",
    "AZURE_STORAGE_ACCOUNT_KEY",
    "spark.authenticate.secret",
    "oauth_client_secret",
    "token",
    "credential",
    "spark.hadoop.fs.s3a.encryption.key",
    "spark.hadoop.fs.s3a.server-side-encryption.key",
    "spark.hadoop.parquet.encryption.key.list",
    "s3.sse.key",
    "spark.executorEnv.SCORES_API_KEY",
    "x-api-key",
    "header.Authorization",
    "ssl.key.passphrase",
    "ssl.key.pem",
]
OPEN = [
    "key.format",
    "key.fields",
    "value.fields-include",
    "topic",
    "url",
    "connector",
    "spark.sql.shuffle.partitions",
    "spark.executor.memory",
    "bypass",
    "compass.direction",
    "json.map-null-key.mode",
    "ssl_certificate",
    "spark.io.encryption.keySizeBits",
    "spark.io.encryption.keygen.algorithm",
    "spark.hadoop.hadoop.security.authorization",
    "spark.sql.legacy.keyOfApi",
]
TEXTS = {
    "jdbc:postgresql://localhost/bank": None,
    "jdbc:postgresql://u:PW@localhost/bank": f"jdbc:postgresql://{MASKED}@localhost/bank",
    "jdbc:postgresql://localhost/bank?user=u&password=PW&ssl=true": "jdbc:postgresql://localhost/bank?user=u"
    f"&password={MASKED}&ssl=true",
    "jdbc:sqlserver://localhost;user=u;password=PW": f"jdbc:sqlserver://localhost;user=u;password={MASKED}",
    "https://id:PW@login/token?api=1": f"https://{MASKED}@login/token?api=1",
    "https://store/file?sig=x&sas=PW": f"https://store/file?sig=x&sas={MASKED}",
    "a@b, //c": None,
    "s3a://id:a/PW/b@bucket/folder": f"s3a://{MASKED}@bucket/folder",
    "postgresql://u:a:PW?/@host:5432/bank": f"postgresql://{MASKED}@host:5432/bank",
    "https://host:8443/a@b": None,
    "https://host/a:b@c": None,
    "jdbc:oracle:thin:u/PW@//host:1521/bank": f"jdbc:oracle:thin:{MASKED}@//host:1521/bank",
    "jdbc:sqlserver://host;password={a;PW&b};user=u": f"jdbc:sqlserver://host;password={MASKED};user=u",
    "password=PW": f"password={MASKED}",
    "localhost:9092,localhost:9093": None,
}


@pytest.mark.parametrize("name", SECRET)
def test_a_secret_is_known_by_its_name(name):
    assert (is_secret(name), shown(name, "PW")) == (True, MASKED)


@pytest.mark.parametrize("name", OPEN)
def test_other_names_are_no_secrets(name):
    assert (is_secret(name), shown(name, "what it is")) == (False, "what it is")


@pytest.mark.parametrize("text", TEXTS)
def test_a_secret_is_known_by_its_shape(text):
    assert in_text(text) == (TEXTS[text] or text)


def test_a_cluster_shows_no_login_of_its_endpoint():
    cluster = of.KafkaCluster(
        "localhost:9092",
        security_protocol="SASL_SSL",
        sasl_mechanism="OAUTHBEARER",
        oauth_token_endpoint="https://id:PW@login/token?client_secret=PW",
        oauth_client_id="me",
        oauth_client_secret="PW",
    )
    assert "PW" not in f"{cluster!r} {cluster} {cluster.description()}"


def test_settings_of_sparks_are_shown_without_secrets():
    given = {f"spark.hadoop.{name}": "PW" for name in SECRET} | {"spark.x": "jdbc:x://u:PW@h"}
    found = layers.effective(given, {})
    assert all("PW" not in found[name].text for name in given)


@pytest.mark.parametrize("given", ["spark.hadoop.fs.s3a.secret.key=PW", "spark.executorEnv.URL=https://u:PW@h"])
def test_a_command_line_takes_no_secret(given):
    with pytest.raises(typer.BadParameter, match="mode 0600") as refused:
        read_settings(["spark.executor.memory=2g", given], None)
    assert "PW" not in refused.value.message


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("café, naïve — 日本語\tand\nlines", "café, naïve — 日本語\tand\nlines"),
        ("\x1b[2J\x1b]0;OWNED\x07", "\\x1b[2J\\x1b]0;OWNED\\x07"),
        ("a\rb\x7f\x9bc", "a\\rb\\x7f\\x9bc"),
        ("\u202egnp.exe\u2066", "\\u202egnp.exe\\u2066"),
    ],
)
def test_what_moves_a_terminal_is_shown_as_an_escape(text, seen):
    assert printable(text) == seen
    assert printable(seen) == seen
    assert "\n" not in in_one_line(text)


def test_an_error_of_ours_moves_no_terminal():
    error = OnceflowError("topic \x1b[2J", cause="\x9b", action="\x07\n  two lines")
    assert str(error).count("\\x") == 3
    assert not set(str(error)) & set("\x1b\x9b\x07")
    assert error.what == "topic \\x1b[2J"
