"""Which values are secret, by the name that they stand under and by their shape, and how what others wrote is shown.

Must not know: who shows it, or where it comes from.
"""

from __future__ import annotations

import re

MASKED = "******"
"""What is shown in the place of a secret."""

NAMES = (
    r"(?i)password|passwd|passphrase|secret|token|credential|user[._-]?info|jaas|signature|bearer|(?<!security\.)authorization"
    r"|(access|account|private|keystore|storage)[._-]?key|key[._-]pem"
    r"|(api|encryption|sse|signing|hmac|master)[._-]?keys?($|[._-])"
    r"|(^|[._-])(pass|pwd|pw|sas)($|[._-])"
)
"""Names of what is secret, as a regular expression that Java reads alike."""
_NAME = re.compile(NAMES)
_LOGIN = re.compile(
    r"(?<=//)(?:[^/\s'\"]+|[^/\s'\"@:]*:(?!\d+[/?#])[^\s'\"]*)(?=@)"  # a password may have a slash, a port has none
    r"|(?:(?<=:thin:)|(?<=:oci:))[^@\s'\"]+(?=@)"  # as Oracle's addresses have them
)
_PARAMETER = re.compile(r"((?:^|[?&;])\s*)([\w.-]+)=(\{[^}]*\}|[^&;\s'\"]+)")
_MOVING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that a terminal acts on or that turn a text's direction; all but tabs and ends of lines."""


def printable(text: str) -> str:
    """A text of others with each character that moves a terminal as an escape; lines stay lines.

    Args:
        text: A name, a message, a row.
    """
    return _MOVING.sub(_escaped, text)


def in_one_line(text: str) -> str:
    """The same with the ends of lines as escapes, too: nobody forges a line of ours."""
    return printable(text).replace("\n", "\\n")


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def is_secret(name: str) -> bool:
    """Whether what stands under a name is not to be shown.

    Args:
        name: Of a setting, an option or a variable.
    """
    return _NAME.search(name) is not None


def shown(name: str, value: str) -> str:
    """A value as it may be shown: masked where its name says that it is a secret, else without those in its addresses.

    Args:
        name: As of ``is_secret``.
        value: What stands there.
    """
    return MASKED if is_secret(name) else in_text(value)


def in_text(text: str) -> str:
    """A text without the logins and the secret parameters of the addresses in it."""

    def parameter(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}={MASKED if is_secret(found[2]) else found[3]}"

    return _PARAMETER.sub(parameter, _LOGIN.sub(MASKED, text))
