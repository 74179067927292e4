"""What Spark keeps in the checkpoint: ``offsets/<epoch>`` and ``commits/<epoch>``.

Must not know: the journal, Kafka. It reads Spark's files as bytes and numbers; only ``restore_offsets`` writes.

Spark (4.2) writes ``offsets/N`` before epoch N runs and ``commits/N`` after its ``foreachBatch`` returned; numbers
may jump and old files are purged, so "epoch N is done" means "the newest commit is at least N".
"""

from __future__ import annotations

from pathlib import Path

from onceflow.checkpoint.store import LocalStore
from onceflow.errors import CheckpointCorruptError


class SparkCheckpoint:
    """Spark's side of one checkpoint folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._offsets = LocalStore(folder / "offsets")
        self._commits = LocalStore(folder / "commits")

    def has_run(self) -> bool:
        """Whether Spark has ever planned an epoch here."""
        return bool(_epochs(self._offsets))

    def is_stateful(self) -> bool:
        """Whether the query keeps state. Spark makes ``state/`` when it plans the first epoch of one that does."""
        return (self.folder / "state").is_dir()

    def newest_commit(self) -> int | None:
        """The newest epoch that Spark has recorded as done."""
        return max(_epochs(self._commits), default=None)

    def is_done(self, epoch: int) -> bool:
        """Whether Spark has recorded the epoch as done; of a negative one there is nothing to record."""
        newest = self.newest_commit()
        return epoch < 0 or (newest is not None and newest >= epoch)

    def newest_offsets(self) -> int | None:
        """The newest epoch that Spark has planned."""
        return max(_epochs(self._offsets), default=None)

    def offsets(self, epoch: int) -> str:
        """``offsets/<epoch>``, byte for byte.

        Raises:
            CheckpointCorruptError: It is missing, empty or no text; Spark writes it before the epoch runs.
        """
        try:
            text = self._offsets.read(str(epoch)).decode("utf-8")
        except (FileNotFoundError, UnicodeDecodeError) as error:
            raise self._corrupt(
                epoch, "it is missing" if isinstance(error, FileNotFoundError) else "no text"
            ) from error
        if not text.strip():
            raise self._corrupt(epoch, "it is empty")
        return text

    def restore_offsets(self, epoch: int, decided: str) -> bool:
        """Make ``offsets/<epoch>`` hold what was decided; False when it holds something else.

        A power cut may take the file, which Spark does not sync, while the decision, which is synced, stays. Spark
        would then plan another range under the same number, and the rows between the two would be lost.
        """
        try:
            present = self._offsets.read(str(epoch))
        except FileNotFoundError:
            present = b""
        if present.strip():
            return present == decided.encode("utf-8")
        self._offsets.make()
        self._offsets.replace(str(epoch), decided.encode("utf-8"))
        # Spark's checksum of a file that is not there any more would make it refuse the new one.
        self._offsets.remove(f".{epoch}.crc")
        return True

    def sync(self, epoch: int) -> None:
        """Make ``offsets/<epoch>`` and ``commits/<epoch - 1>`` durable before the epoch is decided."""
        self._offsets.sync(str(epoch))
        self._offsets.sync()
        self._commits.sync(str(epoch - 1))
        self._commits.sync()

    def _corrupt(self, epoch: int, why: str) -> CheckpointCorruptError:
        path = self._offsets.path(str(epoch))
        return CheckpointCorruptError(
            f"Spark's {path} cannot be used: {why}",
            harmless=f"never: it says which records epoch {epoch} consists of",
            cause="the file was edited or cut, or the disk lost it",
            action="put the file back from a copy of the checkpoint",
            file=str(path),
            epoch=epoch,
        )


def _epochs(store: LocalStore) -> list[int]:
    return [int(name) for name in store.names() if name.isdigit()]
