"""Which errors that pass are an answer of their system, and are counted; what is not known to stay passes for ever."""

import errno
import sqlite3

import pytest
from confluent_kafka import KafkaError, KafkaException
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from onceflow.connectors.database import refusals as database
from onceflow.connectors.kafka import refusals as kafka
from onceflow.connectors.lake import refusals as lake
from onceflow.errors import DatabaseUnavailableError


@pytest.mark.parametrize("code", ["RECORD_LIST_TOO_LARGE", "POLICY_VIOLATION", "UNSUPPORTED_COMPRESSION_TYPE"])
def test_what_a_broker_refuses(code):
    """By the topic and the code."""
    number = getattr(KafkaError, code)
    assert kafka.answer_of("alerts", KafkaException(KafkaError(number))) == f"topic alerts: {code} ({number})"


@pytest.mark.parametrize("code", [
    "_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "LEADER_NOT_AVAILABLE", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT",
    "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE", "NOT_COORDINATOR", "KAFKA_STORAGE_ERROR", "_FENCED",
    "THROTTLING_QUOTA_EXCEEDED", "CONCURRENT_TRANSACTIONS", "SASL_AUTHENTICATION_FAILED", "UNKNOWN", "_AUTHENTICATION",
    "UNSUPPORTED_VERSION",
])  # fmt: skip
def test_what_a_broker_is_waited_for(code):
    """No answer, no leader, no room, a coordinator that loads, a login server away, brokers that are upgraded."""
    assert kafka.answer_of("alerts", KafkaException(KafkaError(getattr(KafkaError, code)))) == ""


def test_what_no_broker_has_said():
    """A proof that does not add up has no code."""
    assert kafka.answer_of("alerts", None) == kafka.answer_of("alerts", SystemError("x")) == ""


def do(engine, statements):
    with engine.connect() as connection:
        for each in statements:
            connection.execute(text(each))


def refused(url, *statements):
    engine = create_engine(url, connect_args={"timeout": 0})
    with pytest.raises(DBAPIError) as caught:
        do(engine, statements)
    engine.dispose()
    return caught.value


def test_a_file_that_is_no_database(tmp_path):
    """It would be none at the next start either; it is told by its name."""
    (tmp_path / "bank.db").write_bytes(b"no database" * 1_000)
    error = refused(f"sqlite:///{tmp_path}/bank.db", "select * from payments")
    assert database.answer_of(error) == "SQLITE_NOTADB"
    told = database.translated(error, "sink payments: the database", "try the commit")
    assert isinstance(told, DatabaseUnavailableError)
    assert "did not answer" not in told.what
    assert told.facts["refusal"] == "sink payments: the database (SQLITE_NOTADB)"


def test_a_database_that_is_full_or_locked_is_waited_for(tmp_path):
    """Room comes back, and so does a lock."""
    path = tmp_path / "bank.db"
    full = ["pragma max_page_count=1", "create table payments (key text)"]
    assert database.answer_of(refused(f"sqlite:///{path}", *full)) == ""
    with sqlite3.connect(path) as other:
        other.execute("begin exclusive")
        error = refused(f"sqlite:///{path}", "create table payments (key text)")
        other.rollback()
    assert database.answer_of(error) == ""
    told = database.translated(error, "sink payments: the database", "try the commit")
    assert "did not answer" in told.what
    assert not told.facts.get("refusal")


@pytest.mark.parametrize(
    "error", [OverflowError("date value out of range"), UnicodeDecodeError("utf8", b"x", 0, 1, "")]
)
def test_what_a_lake_tables_library_refuses(error):
    """Of the same rows it would do so again."""
    assert lake.answer_of(error) == type(error).__name__


class CommitFailedError(Exception):
    """As deltalake calls it."""


@pytest.mark.parametrize("error", [
    OSError(errno.ENOSPC, "no space left on device"), ConnectionRefusedError(), TimeoutError(), CommitFailedError(),
    MemoryError(), RuntimeError("anything"),
])  # fmt: skip
def test_what_a_store_is_waited_for(error):
    """No answer, no room, others that were faster, and whatever is not known."""
    assert lake.answer_of(error) == ""


@pytest.mark.parametrize(
    "said", ["No such file: s3://lake/unsupported/_delta_log/0.json", "Table bank.not-supported.x did not answer"]
)
def test_a_table_may_be_called_so(said):
    """Only of what the library is not able to do it is said so."""
    assert not lake.lacks_right(OSError(said))
    assert lake.lacks_right(OSError("Unsupported reader features"))
    assert lake.lacks_right(OSError("<Error><Code>AccessDenied</Code></Error>"))
