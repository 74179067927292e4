"""S3: which location is a place there, what Spark is told of it, and that no error tells what a client has sent."""

import pytest

from onceflow.errors import CheckpointStoreError, ConfigurationError
from onceflow.spark import s3a
from onceflow.storage.files import translating
from onceflow.storage.locations import is_elsewhere, local_path, s3_uri
from onceflow.storage.posix import POSIX
from onceflow.storage.s3 import Service, service
from tests.support.advice import parts_of


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("s3://bucket/checkpoints/a", "s3a://bucket/checkpoints/a"),
        ("s3a://bucket/checkpoints/a", "s3a://bucket/checkpoints/a"),
        ("S3://my.bucket-1//checkpoints/a_b/", "s3a://my.bucket-1/checkpoints/a_b"),
        ("/s3:/x", None),
        ("s3", None),
        ("file:///x", None),
        ("hdfs://nn/x", None),
        ("gs://b/x", None),
    ],
)
def test_places_in_s3(text, uri):
    """A folder in S3 has one name, whichever of the two schemes it was given by; all else is another's business."""
    assert s3_uri(text) == uri
    assert is_elsewhere(text) == (uri is not None or text.startswith("hdfs:"))


@pytest.mark.parametrize(
    "text", ["s3:///x", "s3:/x", "s3://bucket", "s3://bucket/", "s3://b/a/../b", "s3://bucket/a b", "s3a://Bucket/a",
             "s3://bucket/a%20b", "s3://key:secret@bucket/a", "s3://bucket/a#b", "s3://bucket/a?b", "s3://b_c/a"]
)  # fmt: skip
def test_what_is_no_place_in_s3_is_refused(text):
    """Without a bucket, or with a path that one of the two clients would read otherwise, it is refused."""
    with pytest.raises(ConfigurationError, match="is refused") as caught:
        s3_uri(text)
    assert "s3://bucket/" in (caught.value.action or "")


@pytest.mark.parametrize("text", ["s3://bucket/x", "s3a://bucket/x"])
def test_what_works_on_files_alone_refuses_s3(text):
    """A checkpoint in S3 is refused by what takes its files as paths, by where it is."""
    with pytest.raises(ConfigurationError, match="it is in S3") as caught:
        local_path(text)
    assert "docs/stores.md" in parts_of(caught.value, ConfigurationError, text).action


def test_where_s3_is(monkeypatch):
    """The variables of AWS's own tools say it, the one for S3 alone first."""
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    told = {"AWS_ENDPOINT_URL": "http://all:9000", "AWS_REGION": "eu-west-1"}
    assert service(told) == Service("http://all:9000", "eu-west-1")
    assert service(told | {"AWS_ENDPOINT_URL_S3": "https://s3.example/"}).endpoint == "https://s3.example"
    assert service({"AWS_REGION": "eu-west-1"}) == Service("", "eu-west-1")


def test_spark_is_told_the_same(monkeypatch):
    """The session of a job there begins with endpoint and region as our own client has them, and with no credential."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9000")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "this-is-secret")
    told = s3a.settings("s3://bucket/x")
    assert told["spark.hadoop.fs.s3a.endpoint"] == "http://127.0.0.1:9000"
    assert told["spark.hadoop.fs.s3a.endpoint.region"] == "eu-west-1"
    assert told["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert told["spark.hadoop.fs.s3a.optimized.copy.from.local.enabled"] == "false"
    assert told["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert "this-is-secret" not in str(told)
    assert s3a.settings("/data/x") == {}


def test_an_error_tells_the_reason_and_not_what_was_sent():
    """Of a refusal its code and its sentence are told, without the answer's XML, ids of keys, and the client's dump."""
    from obstore.exceptions import GenericError

    from onceflow.storage.objects import as_os_error

    text = (
        "Generic S3 error: Error performing PUT http://h/b/x in 1ms - Server returned non-2xx status code: 403 "
        "Forbidden: <?xml version='1.0'?>\n<Error><Code>SignatureDoesNotMatch</Code><Message>It does not match AKIA"
        "IOSFODNN7EXAMPLE</Message><StringToSign>s3cret</StringToSign></Error>\n\nDebug source:\nGeneric { s3cret }"
    )
    path = "s3a://b/x"
    with pytest.raises(CheckpointStoreError) as caught, translating(POSIX, path, "create the file"), as_os_error(path):
        raise GenericError(text)
    assert "403 Forbidden: SignatureDoesNotMatch: It does not match …" in caught.value.what
    assert caught.value.__cause__ is None
    for secret in ("s3cret", "AKIA", "StringToSign"):
        assert secret not in str(caught.value)
