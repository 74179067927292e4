"""Kafka's error codes by their names."""

import kafka.errors as kafka_errors
import pytest

from onceflow.connectors.kafka.client import translated
from onceflow.connectors.kafka.codes import RIGHT_MISSING, Code, named
from onceflow.errors import KafkaRightsError, KafkaUnavailableError


@pytest.mark.parametrize("code", [code for code in Code if code not in (Code.UNKNOWN_SERVER_ERROR, Code.NONE)])
def test_the_names_are_kafkas(code):
    """Each number has the name that Kafka's own clients give it; a missing right is told as one."""
    assert kafka_errors.for_code(code).message == code.name
    error = translated(code, "looking")
    assert isinstance(error, KafkaRightsError if code in RIGHT_MISSING else KafkaUnavailableError)
    assert f"{code.name} ({int(code)})" in error.what


def test_other_codes_have_a_name_too():
    """One that means nothing to us is shown by the name that kafka-python knows, and by its number in any case."""
    assert named(7) == "REQUEST_TIMED_OUT (7)"
    assert named(9999).endswith("(9999)")
