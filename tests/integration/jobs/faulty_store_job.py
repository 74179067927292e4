"""The copy job on a disk that fails while the decision of epoch 1 is written: before the file is there, or after."""

import os

from onceflow.errors import CheckpointStoreError
from onceflow.storage.store import Store
from tests.integration.jobs import copy_job


class FaultyStore(Store):
    """Fails once, in the way that FAULT says."""

    failed = False

    def create(self, name: str, data: bytes) -> None:
        if b'"kind": "decide"' not in data or b'"epoch": 1,' not in data or FaultyStore.failed:
            super().create(name, data)
            return
        FaultyStore.failed = True
        if os.environ["FAULT"] == "after":
            super().create(name, data)
        raise CheckpointStoreError(f"injected failure {os.environ['FAULT']} {name} was written")


if __name__ == "__main__":
    from onceflow.checkpoint import place

    place.Store = FaultyStore  # type: ignore[misc]
    copy_job.job.main(until="caught-up")
