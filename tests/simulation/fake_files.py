"""A folder in memory that loses what was not synced, raises before or after writing, and writes late.

Must not know: what the files hold, except that it hands every creation to whoever watches.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from onceflow.errors import CheckpointStoreError
from onceflow.storage.store import Store

Carry = Callable[[str, Callable[[], Any]], Any]


class Files:
    """What is on the disk: content by name, and which names a power cut may take."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.bytes_unsynced: set[str] = set()
        self.name_unsynced: set[str] = set()
        self._below: dict[str, Files] = {}

    def below(self, name: str) -> Files:
        """A folder in this one."""
        return self._below.setdefault(name, Files())

    @property
    def unsynced(self) -> list[str]:
        """What a power cut may take, the newest first."""
        return sorted(self.bytes_unsynced | self.name_unsynced, key=_number, reverse=True)

    def later_stays(self, name: str) -> bool:
        """Whether a file that was written later, and that nobody has synced, is there: a disk writes in order."""
        return any(n in self.content and _number(n) > _number(name) for n in self.unsynced)

    def put(self, name: str, data: bytes) -> None:
        """Write a file as Spark does: whole, and not synced."""
        self.content[name] = data
        self.bytes_unsynced.add(name)
        self.name_unsynced.add(name)

    def lose(self, name: str) -> None:
        """The power cut took it."""
        self.content.pop(name, None)

    def settle(self) -> None:
        """After a power cut: what is there has come from the disk."""
        self.bytes_unsynced.clear()
        self.name_unsynced.clear()

    def copy(self) -> dict[str, bytes]:
        """What is there now."""
        return dict(self.content)

    def put_back(self, content: dict[str, bytes]) -> None:
        """Another folder takes this one's place."""
        self.content = dict(content)
        self.settle()

    def numbers(self) -> list[int]:
        """Files that are called by a number, as Spark's are."""
        return sorted(int(n) for n in self.content if n.isdigit())


def _number(name: str) -> int:
    return int(name.removesuffix(".json").rpartition("-")[2])


class FakeStore(Store):
    """One process's access to a folder. Stands in the place of ``Store``.

    Args:
        folder: The folder's name, for messages.
        files: What is in it.
        carry: Carries a call: gives its result, or None when there was no answer.
        created: Told of every file that was created.
    """

    def __init__(
        self, folder: str, files: Files, carry: Carry, created: Callable[[str, bytes], None] = lambda _, __: None
    ) -> None:
        super().__init__(Path(folder))
        self._disk = files
        self._carry = carry
        self._created = created

    def below(self, name: str) -> FakeStore:
        return FakeStore(f"{self.folder}/{name}", self._disk.below(name), self._carry)

    def make(self) -> None:
        """It is there."""

    def create(self, name: str, data: bytes) -> None:
        def effect() -> bool:
            if name in self._disk.content:
                return False
            self._disk.content[name] = data
            self._disk.name_unsynced.add(name)
            self._created(name, data)
            return True

        made = self._carry(f"create {self.folder}/{name}", effect)
        if made is None:
            raise CheckpointStoreError(f"no answer while creating {name}")
        if not made:
            raise FileExistsError(name)
        self._disk.name_unsynced.clear()  # creating ends with a sync of the folder

    def replace(self, name: str, data: bytes) -> None:
        def effect() -> bool:
            self._disk.content[name] = data
            return True

        if self._carry(f"replace {self.folder}/{name}", effect) is None:
            raise CheckpointStoreError(f"no answer while replacing {name}")
        self._disk.bytes_unsynced.discard(name)
        self._disk.name_unsynced.clear()

    def put(self, name: str, data: bytes) -> None:
        def effect() -> bool:
            self._disk.put(name, data)
            return True

        if self._carry(f"put {self.folder}/{name}", effect) is None:
            raise CheckpointStoreError(f"no answer while writing {name}")

    def read(self, name: str) -> bytes:
        found = self._carry(f"read {self.folder}/{name}", lambda: self._disk.content.get(name, False))
        if found is None:
            raise CheckpointStoreError(f"no answer while reading {name}")
        if found is False:
            raise FileNotFoundError(name)
        return bytes(found)

    def names(self) -> list[str]:
        found = self._carry(f"list {self.folder}", lambda: list(self._disk.content))
        if found is None:
            raise CheckpointStoreError(f"no answer while listing {self.folder}")
        return list(found)

    def remove(self, name: str) -> None:
        if self._carry(f"remove {self.folder}/{name}", lambda: bool(self._disk.content.pop(name, True))) is None:
            raise CheckpointStoreError(f"no answer while removing {name}")

    def sync(self, name: str | None = None) -> None:
        if self._carry(f"sync {self.folder}/{name or ''}", lambda: True) is None:
            raise CheckpointStoreError(f"no answer while syncing {name}")
        # A file's sync makes its bytes durable, the folder's sync makes all names in it durable.
        if name is None:
            self._disk.name_unsynced.clear()
        else:
            self._disk.bytes_unsynced.discard(name)
