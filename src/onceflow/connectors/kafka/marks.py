"""What Kafka keeps of a job: marks as metadata of groups' offsets in the sink's topic, and topics that only grow.

Must not know: transactions, what stands in a mark, who asks.
"""

from __future__ import annotations

import logging

from onceflow.connectors.kafka import anchor, group_offsets
from onceflow.connectors.kafka.client import KafkaClient
from onceflow.connectors.kafka.transactional_id import job_prefix
from onceflow.connectors.marks import Marks
from onceflow.errors import KafkaError

log = logging.getLogger(__name__)


class KafkaMarks(Marks):
    """Those of one job, with one sink's topic.

    Args:
        client: The committer's connection.
        topic: The sink's topic.
        prefix: First part of the transactional ids.
        job_id: The job's id.
    """

    def __init__(self, client: KafkaClient, topic: str, prefix: str, job_id: str) -> None:
        self._client = client
        self._topic = topic
        self._prefix = prefix
        self._job_id = job_id
        self._group = f"{job_prefix(prefix, job_id)}fence"

    def require_rights(self) -> None:
        """As ``group_offsets.require_rights``, of the group of the job's mark."""
        group_offsets.require_rights(self._client, self._group, self._topic, f"{self._prefix}-")

    def read(self) -> str | None:
        """The mark, as metadata of a group of the job's own."""
        return self._read(self._group)

    def write(self, mark: str) -> None:
        """Keep the mark; a mark that could not be written makes a rewound checkpoint harder to notice, no more."""
        self._write(self._group, mark)

    def read_name(self, name: str) -> str | None:
        """The mark of the name, as metadata of a group of that name."""
        return self._read(group_offsets.name_group(self._prefix, name))

    def write_name(self, name: str, mark: str) -> None:
        """Keep the mark of the name; without it a lost checkpoint is harder to notice."""
        self._write(group_offsets.name_group(self._prefix, name), mark)

    @property
    def has_logs(self) -> bool:
        """Its topics."""
        return True

    def append(self, to: str, line: str) -> None:
        """Append to a topic that is there."""
        anchor.append(self._client, to, line, key=self._job_id)

    def _read(self, group: str) -> str | None:
        return group_offsets.read_mark(self._client, group, self._topic, f"{self._prefix}-")

    def _write(self, group: str, mark: str) -> None:
        try:
            if group_offsets.write_mark(self._client, group, self._topic, mark):
                return
            reason = "no answer"
        except KafkaError as error:
            reason = error.what
        log.warning("the job's mark in group %s was not written: %s", group, reason)
