"""How a secret or a PEM file may be given, and what pydantic finds wrong, without the values.

Must not know: what they are for.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, SecretStr, ValidationError

from onceflow.errors import ConfigurationError
from onceflow.options.secret_files import tell_of_readers


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
                tell_of_readers(Path(path))
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


GivenSecret = str | SecretStr | Mapping[str, str | Path]
"""A secret as it may be given: itself, ``{"env": NAME}`` or ``{"file": PATH}``."""
Secret = Annotated[SecretStr, BeforeValidator(_secret)]
PemFile = Annotated[str, BeforeValidator(_readable)]


def plain(secret: SecretStr | None) -> str | None:
    """The secret itself, for the client that needs it."""
    return None if secret is None else secret.get_secret_value()


def not_made(name: str, fields: Collection[str], error: ValidationError) -> ConfigurationError:
    """Our four parts from pydantic's findings, without the values that were given.

    Args:
        name: Of what cannot be made.
        fields: What it takes.
        error: The findings.
    """
    findings = error.errors(include_url=False, include_input=False)
    for finding in findings:
        if isinstance(ours := finding.get("ctx", {}).get("error"), ConfigurationError):
            return ours
    names = [".".join(str(part) for part in finding["loc"]) for finding in findings]
    said = "; ".join(
        f"{at}: {finding['msg'].removeprefix('Value error, ')}" for at, finding in zip(names, findings, strict=True)
    )
    return ConfigurationError(
        f"{name} cannot be made: {said}",
        cause=f"the setting {', '.join(names)}",
        action=f"correct it; settings are: {', '.join(fields)}",
        settings=names,
    )
