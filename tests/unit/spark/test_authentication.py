"""Which sessions are refused, and which warned of, for letting strangers fetch a job's tasks: every master."""

import pytest

import onceflow as of
from onceflow.errors import RefusedSettingError
from onceflow.spark.authentication import ALLOWING, require_authenticated, secret_options

HERE = [
    "local",
    "local[2]",
    "local[*]",
    "local[2, 3]",
    "local-cluster[2,1,1024]",
    "spark://127.0.0.1:7077",
    "spark://localhost:7077,127.0.0.2:7078",
    "spark://[::1]:7077",
]
ELSEWHERE = [
    "spark://master:7077",
    "spark://127.0.0.1:7077,master:7077",
    "spark://10.1.2.3:7077",
    "yarn",
    "k8s://https://127.0.0.1:6443",
    "localhost",
    "",
]
CARRIER = ["the secret of sink bank"]


@pytest.mark.parametrize("master", HERE + ELSEWHERE)
def test_one_that_authenticates_is_taken_everywhere(master):
    settings = {"spark.master": master, "spark.authenticate": "TRUE"}
    assert require_authenticated(settings, CARRIER) is None


@pytest.mark.parametrize("master", HERE)
def test_here_one_is_warned_of_where_tasks_carry_nothing(master):
    warning = require_authenticated({"spark.master": master}, [])
    assert '.config("spark.authenticate", "true")' in warning
    assert "\n" not in warning


@pytest.mark.parametrize(
    ("master", "carriers"), [*((m, CARRIER) for m in HERE + ELSEWHERE), *((m, []) for m in ELSEWHERE)]
)
def test_one_is_refused_where_tasks_carry_a_secret_or_others_reach_it(master, carriers):
    with pytest.raises(RefusedSettingError) as refused:
        require_authenticated({"spark.master": master, "spark.authenticate": "false"}, carriers)
    assert all(each in str(refused.value) for each in ['.config("spark.authenticate", "true")', ALLOWING, *carriers])


@pytest.mark.parametrize("master", HERE + ELSEWHERE)
def test_one_word_allows_it_and_is_told(master):
    warning = require_authenticated({"spark.master": master, ALLOWING: "allow"}, CARRIER)
    assert f"{ALLOWING}=allow" in warning


@pytest.mark.parametrize("word", ["true", "1", "yes", "allowed", ""])
def test_no_other_word_does(word):
    with pytest.raises(RefusedSettingError):
        require_authenticated({"spark.master": "local", ALLOWING: word}, CARRIER)


def test_the_options_of_a_source_that_hold_a_secret():
    options = {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.sasl.jaas.config": "…",
        "kafka.ssl.keystore.key": "…",
        "kafka.ssl.key.password": "…",
        "kafka.ssl.truststore.location": "/etc/ca.pem",
        "subscribe": "topic",
    }
    assert secret_options(options) == ["kafka.sasl.jaas.config", "kafka.ssl.key.password", "kafka.ssl.keystore.key"]


@pytest.mark.parametrize(
    ("sink", "carries"),
    [
        (of.KafkaSink(of.KafkaCluster("localhost:9092"), "alerts"), False),
        (
            of.KafkaSink(
                of.KafkaCluster(
                    "localhost:9092",
                    security_protocol="SASL_SSL",
                    sasl_mechanism="PLAIN",
                    username="bank",
                    password="xyzzy",
                ),
                "alerts",
            ),
            True,
        ),
        (of.DatabaseSink("sqlite:////lake/bank.db", "alerts"), False),
        (of.DatabaseSink("postgresql://bank@localhost/bank", "alerts"), False),
        (of.DatabaseSink("postgresql://bank:xyzzy@localhost/bank", "alerts"), True),
        (of.DeltaSink("lake/alerts"), False),
        (of.DeltaSink("lake/alerts", storage_options={"AWS_SECRET_ACCESS_KEY": "xyzzy"}), True),
        (of.IcebergSink("c", "bank.alerts", properties={"type": "sql", "uri": "sqlite:////lake/c.db"}), False),
        (of.IcebergSink("c", "bank.alerts", properties={"type": "rest", "token": "xyzzy"}), True),
    ],
    ids=lambda each: each.describe() if hasattr(each, "describe") else "",
)
def test_which_sinks_put_a_secret_into_tasks(sink, carries):
    assert sink.carries_secret is carries


def test_a_catalogs_secret_may_stand_in_pyicebergs_variables(monkeypatch):
    """Which table the tasks write to with it: pyiceberg gives them all of the catalog's settings."""
    monkeypatch.setenv("PYICEBERG_CATALOG__C__S3__SECRET_ACCESS_KEY", "xyzzy")
    assert of.IcebergSink("c", "bank.alerts").carries_secret
    assert not of.IcebergSink("d", "bank.alerts").carries_secret
