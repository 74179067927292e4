"""What a catalog's or a store's error says, without what must not be told.

Must not know: sinks, epochs, any particular format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import unquote, urlsplit

_NO_RIGHT = (
    "access denied",
    "accessdenied",
    "access_denied",
    "permission denied",
    "forbidden",
    "unauthorized",
    "readonly database",
)
_NOT_ABLE = ("unsupported", "not supported", "max catalog version")
"""What pyiceberg and deltalake say of a table that another engine has given what they do not have."""

_NAMES = re.compile(r"\S*/\S*|\S+\.\w\S*")
"""Paths, addresses, and names with dots."""

# What a value or a form is refused by, here or by the catalog; a store that does not answer raises an OSError.
_STAYS = (ValueError, TypeError, ArithmeticError, LookupError, NotImplementedError)
_STAYS_BY_NAME = {
    "BadRequestError",
    "DeltaProtocolError",
    "SchemaMismatchError",
    "ValidationError",
    "ValidationException",
}
_SECRET = ("secret", "token", "password", "credential", "key", "sas", "signature", "auth")


def secrets_of(settings: Mapping[str, str]) -> tuple[str, ...]:
    """What must be told nowhere: values of settings that are named for it, and passwords in addresses."""
    found = set[str]()
    for name, value in settings.items():
        if any(word in name.lower() for word in _SECRET):
            found.update((value, *value.split(":")))
        try:
            parts = urlsplit(value)
            for each in (parts.password or "", parts.query):
                found.update((each, unquote(each)))
        except ValueError:
            continue
    return tuple(sorted((each for each in found if len(each) > 3), key=len, reverse=True))


def lacks_right(error: BaseException) -> bool:
    """Whether a right is missing, or the library is not able to do it: the next try would end the same."""
    text = f"{type(error).__name__} {error}".lower()
    unnamed = _NAMES.sub("", text)  # a table may be called so
    able = not any(word in unnamed for word in _NOT_ABLE)
    return isinstance(error, PermissionError) or not able or any(word in text for word in _NO_RIGHT)


def answer_of(error: BaseException) -> str:
    """The kind of what was refused, and would be again; "" where waiting is right.

    No answer, no room, a commit that others were faster with and whatever is not known to stay are waited for.
    """
    stays = isinstance(error, _STAYS) or type(error).__name__ in _STAYS_BY_NAME
    return type(error).__name__ if stays and not isinstance(error, OSError) else ""


def words(error: BaseException, secrets: Iterable[str]) -> str:
    """An error in one line, each secret left out."""
    text = " ".join(str(error).split())
    for secret in secrets:
        text = text.replace(secret, "***")
    return f"{type(error).__name__}: {text[:500]}" if text else type(error).__name__
