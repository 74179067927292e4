"""What a fault test waits for: that a job has transactions open, so that a kill hits it in the middle of an epoch.

Must not know: jobs, checkpoints. It sees what a broker tells everybody who may describe the transactions.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.transactions import list_ids

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


class OpenTransactions:
    """Counts the open transactions whose names begin with a prefix. A context manager: it holds a connection.

    Args:
        cluster: Where.
        prefix: What their names begin with: the job's ``transactional_id_prefix`` and a dash.
    """

    def __init__(self, cluster: KafkaCluster, prefix: str = "onceflow-") -> None:
        self._client = KafkaClient(cluster)
        self._prefix = prefix

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def count(self) -> int:
        """How many are open now.

        Raises:
            KafkaUnavailableError: A broker gave no answer.
        """
        return len(list_ids(self._client, self._prefix, OPEN_STATES))
