"""How single values of a cluster's setting may be given: servers, secrets by where they are, PEM files.

Must not know: which values go together.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, SecretStr


def _servers(value: Any) -> Any:
    """``["a:1", "b:2"]`` and ``" a:1 , b:2 "`` both become ``"a:1,b:2"``."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(server, str) for server in value):
        raise ValueError('must be "host:port" or several of them, with commas between or as a list')
    servers = [server.strip() for server in value]
    for server in servers:
        host, _, port = server.rpartition(":")
        if not host or not port.isdecimal():
            raise ValueError(f'"{server}" is not host:port')
    return ",".join(servers)


def _secret(value: Any) -> Any:
    """A secret given by where it is (``{"env": NAME}``, ``{"file": PATH}``) becomes the secret itself."""
    match value:
        case {"env": str(name)} if len(value) == 1:
            if not os.environ.get(name):
                raise ValueError(f"the environment variable {name} is not set or is empty")
            return SecretStr(os.environ[name])
        case {"file": str() | Path() as path} if len(value) == 1:
            try:
                text = Path(path).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise ValueError(f"cannot read the file {path}: {type(error).__name__}") from None
            return SecretStr(text.rstrip("\r\n"))
        case dict():
            raise ValueError('must be the secret itself, {"env": NAME} or {"file": PATH}')
        case _:
            return value


def _readable(value: Any) -> Any:
    """The path of a PEM file, made absolute; it must be there now."""
    if not isinstance(value, str | Path):
        return value
    path = Path(value).expanduser().absolute()
    if "-----BEGIN " not in read_pem(path):
        raise ValueError(f"{path} is not a PEM file (no line -----BEGIN …)")
    return str(path)


def read_pem(path: str | Path) -> str:
    """The text of a PEM file."""
    try:
        return Path(path).read_text(encoding="latin-1")
    except OSError as error:
        raise ValueError(f"cannot read the file {path}: {type(error).__name__}") from None


Servers = Annotated[str, BeforeValidator(_servers)]
GivenSecret = str | SecretStr | Mapping[str, str | Path]
"""A secret as it may be given: itself, ``{"env": NAME}`` or ``{"file": PATH}``."""
Secret = Annotated[SecretStr, BeforeValidator(_secret)]
PemFile = Annotated[str, BeforeValidator(_readable)]


def plain(secret: SecretStr | None) -> str | None:
    """The secret itself, for the client that needs it."""
    return None if secret is None else secret.get_secret_value()
