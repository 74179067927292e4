"""Protobuf as other programs have it: classes of messages from a text, and Confluent's wire form."""

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from onceflow.connectors.registry import protoc


def schema_from(text, **imports):
    """What protoc makes of a text, and of those that it imports by ``<name>.proto``."""
    return protoc.compiled({protoc.MAIN: text, **{f"{name}.proto": each for name, each in imports.items()}}, "a test's")


def class_of(schema, name):
    """The class of a message, as Google's library makes it of descriptors."""
    pool = DescriptorPool()
    for each in FileDescriptorSet.FromString(schema.compiled).file:
        pool.Add(each)
    return GetMessageClass(pool.FindMessageTypeByName(name))


def framed(schema_id, record, place=b"\0"):
    """Behind the id of its schema, and the place of its message."""
    return b"\0" + schema_id.to_bytes(4, "big") + place + record
