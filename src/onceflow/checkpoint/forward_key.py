"""The key that each receipt is sealed with, which is another one for each number and is forgotten behind it.

Must not know: what a receipt says, who checks it. Whoever takes the file, with all else that the job's user has, can
seal receipts from there on, and none of before: the key of number n gives that of n + 1, and nothing gives it back. The
auditor has the file as it was at the beginning, and makes all of them.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import re
import secrets
from pathlib import Path
from typing import Self

from onceflow.errors import ConfigurationError
from onceflow.twophase.forms import OTHER_FORM

FORMAT = 1
_LENGTH = 32
_NEXT = b"onceflow next"
_FARTHEST = 100_000_000
"""So many keys are made one after the other at most, some minutes' work: the trail's numbers are anybody's."""


class ForwardKey:
    """A file with the oldest key that is still there.

    Args:
        path: The file.
        number: Of which receipt that key is.
        key: It.
    """

    def __init__(self, path: Path, number: int, key: bytes) -> None:
        self.path = path
        self.number = number
        self._key = key
        self._ahead = number, key

    @classmethod
    def read(cls, path: Path) -> Self:
        """The key in a file.

        Raises:
            ConfigurationError: The file cannot be read, or is none.
        """
        try:
            if path.is_symlink() or (path.exists() and not path.is_file()):
                raise ValueError("a link, or a pipe that nobody writes to")
            body = json.loads(path.read_bytes())
            number, key = int(body["number"]), bytes.fromhex(body["key"])
            if body["format"] != FORMAT or number < 1 or len(key) != _LENGTH:
                raise ValueError("another form")
        except (OSError, *OTHER_FORM) as error:
            why = error.strerror if isinstance(error, OSError) else "it is no such file, was cut, or is a link"
            raise _unusable(path, why or str(error)) from None
        return cls(path, number, key)

    @property
    def first(self) -> tuple[int, bytes]:
        """The oldest key that is there, behind its number."""
        return self.number, self._key

    def seal(self, number: int, hashed: str) -> str | None:
        """A receipt's seal, over its hash; None where there is no key of its number."""
        key = self.key_of(number)
        return None if key is None else hmac.new(key, hashed.encode(), hashlib.sha256).hexdigest()

    def key_of(self, number: int) -> bytes | None:
        """The key of a number; None for one that is forgotten, or too far ahead to be a receipt's."""
        if not 0 <= number - self.number <= _FARTHEST:
            return None
        at, key = self._ahead if self._ahead[0] <= number else (self.number, self._key)
        while at < number:
            at, key = at + 1, hmac.digest(key, _NEXT, "sha256")
        self._ahead = at, key
        return key

    def forget(self, number: int) -> None:
        """Forget the keys of the receipts up to this one, which are durable and will not be made anew.

        Raises:
            OSError: The file cannot be replaced; the keys are kept.
        """
        following = self.key_of(number + 1)
        if following is None or number < self.number:
            return
        made = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}")
        try:
            file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(file, "w") as to:
                json.dump({"format": FORMAT, "number": number + 1, "key": following.hex()}, to)
                to.flush()
                os.fsync(to.fileno())
            if self._number_in_file() <= number:  # else a newer start has gone on, and this one has slept
                made.replace(self.path)
                with contextlib.suppress(OSError):  # a folder that may not be listed
                    self._clear_leftovers()
        finally:
            with contextlib.suppress(OSError):
                made.unlink()
        self.number, self._key = number + 1, following
        with contextlib.suppress(OSError):  # a folder that may not be read
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _clear_leftovers(self) -> None:
        """What one who died in ``forget`` has left: in time it is an older key. Nothing else that lies there."""
        name = re.compile(re.escape(f".{self.path.name}.") + "[0-9a-f]{8}")
        for left in self.path.parent.iterdir():
            if name.fullmatch(left.name):
                left.unlink(missing_ok=True)

    def _number_in_file(self) -> int:
        try:
            return int(json.loads(self.path.read_bytes())["number"])
        except OTHER_FORM:
            return 0


def _unusable(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the key that seals receipts cannot be used: {why}",
        harmless="always: nothing was started",
        cause=f"ONCEFLOW_AUDIT_FORWARD_KEY_FILE is {str(path)!r}",
        action="make one as docs/audit.md says, in a folder that the job's user may write to",
        setting="audit.forward_key_file",
    )
