"""From a schema's text to descriptors: by protoc, which ``grpcio-tools`` brings.

Must not know: registries, subjects, what asks.
"""

from __future__ import annotations

import base64
import importlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from onceflow.errors import ConfigurationError, RegistryUnavailableError, SetupError

if TYPE_CHECKING:
    from onceflow.formats.protobuf_schema import ProtobufSchema

MAIN: Final = "onceflow_main.proto"
_WITHIN_S = 20.0
_NAME = re.compile(r"\w(?:[\w +~,()@:./-]*[\w)])?")
_TOKEN = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|//[^\n]*|/\*.*?\*/""", re.DOTALL)
"""A text in quotes, or a comment, which may hold the beginning of the other."""
_MAP_ENTRY = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")
_ENTRY = "onceflow_map_entry"
_IMPORT = re.compile(r"""\bimport\s+(?:(?:public|weak|option)\s+)?["']([^"']+)["']\s*;""")


def is_there() -> bool:
    """Whether it is installed, and Google's library."""
    try:
        return find_spec("google.protobuf") is not None and find_spec("grpc_tools") is not None
    except ModuleNotFoundError:  # there is no package google at all
        return False


def compiled(texts: Mapping[str, str], what: str) -> ProtobufSchema:
    """A schema of texts of which one, ``MAIN``, imports others.

    Args:
        texts: By the name that others import it by: a text of Protobuf's language, or the base64 of a
            ``FileDescriptorProto``, which is what some programs register.
        what: Whose they are, for the message.

    Raises:
        ConfigurationError: One is none, or imports what is not there.
        SetupError: protoc is not installed.
    """
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415 - an extra

    from onceflow.formats.protobuf_schema import ProtobufSchema  # noqa: PLC0415 - needs the extra

    found: dict[str, Any] = {}
    ordered = FileDescriptorSet()

    def add(name: str, inside: tuple[str, ...]) -> None:
        if name in found or name in inside:
            return
        file = _descriptor(texts[name]) if name in texts else _well_known(name)
        if file is None and name in texts:
            for each in _IMPORT.findall(_TOKEN.sub(lambda found: found[1] or " ", texts[name])):
                add(each, (*inside, name))
            file = _by_protoc(name, texts[name], ordered, what)
        if file is None:
            raise _none(what, f"it imports {name}, which is not among what it refers to")
        for each in file.dependency:
            add(each, (*inside, name))
        file.name = name
        found[name] = ordered.file.add()
        found[name].CopyFrom(file)

    add(MAIN, ())
    return ProtobufSchema(ordered.SerializeToString(deterministic=True), dict(texts))


def _descriptor(text: str) -> Any:
    """Of a text that is one already; None of another one."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415 - an extra

    try:
        return FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except Exception:  # noqa: BLE001 - it is another text: binascii's and upb's errors
        return None


def _well_known(name: str) -> Any:
    """Of a file that everybody has; None of another one."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto  # noqa: PLC0415 - an extra

    if re.fullmatch(r"(google/(protobuf|type)|confluent(/types?)?)/[a-z_]+\.proto", name) is None:
        return None
    path = name.removesuffix(".proto").replace("/", ".")
    if path.startswith("confluent."):  # Confluent's serializers never register these
        path = "confluent_kafka.schema_registry." + path.replace("confluent.type.", "confluent.types.")
    try:
        module = importlib.import_module(f"{path}_pb2")
    except ImportError:
        return None
    return FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _by_protoc(name: str, text: str, before: Any, what: str) -> Any:
    """Compile one file behind those that it imports."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet  # noqa: PLC0415 - an extra

    if find_spec("grpc_tools") is None:
        raise SetupError(
            "protoc is not installed, which reads a registry's schemas of Protobuf",
            harmless="always: nothing was started",
            cause="onceflow was installed without its extra protobuf",
            action="pip install 'onceflow[protobuf]'",
        )
    path = PurePosixPath(name)
    if _NAME.fullmatch(name) is None or ".." in path.parts:  # protoc takes options, and files of them, as names
        raise _none(what, f"it refers to a file {name!r}")
    with tempfile.TemporaryDirectory(prefix="onceflow-protoc-") as folder:
        source, imports, out = Path(folder, "source"), Path(folder, "imports"), Path(folder, "out")
        try:
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).touch()
        except OSError:
            raise _none(what, f"it refers to a file {name[:80]!r}, whose name is none") from None
        # Confluent's registries have written maps as their entries, with an option that protoc takes from nobody.
        (source / path).write_text(_MAP_ENTRY.sub(f'reserved "{_ENTRY}";', text), "utf-8")
        imports.write_bytes(before.SerializeToString())
        # No module of the working folder, which may be others'.
        command = [sys.executable, "-P", "-m", "grpc_tools.protoc", f"--proto_path={source}"]
        command += [f"--descriptor_set_in={imports}"] if before.file else []
        command += [f"--descriptor_set_out={out}", name]
        try:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_WITHIN_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _not_asked(what, type(error).__name__) from None
        if done.returncode < 0:
            raise _not_asked(what, f"it was ended by signal {-done.returncode}")
        if done.returncode != 0 or not out.exists():
            lines = [line for line in done.stderr.splitlines() if line.startswith(f"{name}:")]
            said = " ".join(lines or done.stderr.replace(f"{source}/", "").split())[:300]
            raise _none(what, f"protoc says: {said}")
        file = FileDescriptorSet.FromString(out.read_bytes()).file[0]
    _mark_entries(file.message_type)
    return file


def _mark_entries(messages: Any) -> None:
    for each in messages:
        if _ENTRY in each.reserved_name:
            each.reserved_name.remove(_ENTRY)
            each.options.map_entry = True
        _mark_entries(each.nested_type)


def _not_asked(what: str, why: str) -> RegistryUnavailableError:
    """That it is no schema nobody has said."""
    return RegistryUnavailableError(
        f"protoc has not compiled {what}: {why}",
        harmless="it passes: nothing was read or written by what is not known",
        cause=f"the machine has no memory or processes left, or protoc took longer than {_WITHIN_S:g} s",
        action="look at the machine, and start again",
    )


def _none(what: str, trouble: str) -> ConfigurationError:
    return ConfigurationError(
        f"{what} is no schema of Protobuf that can be read here: {trouble}",
        harmless="always: nothing was read or written by it",
        cause="the schema's text, or what it refers to",
        action="look at who has registered it; Raw() hands on the bytes",
    )
