"""Names of transactions: who wrote, in which incarnation, for which epoch.

Must not know: Kafka. A foreign name is not an error: it parses to None, which means "not ours, do not touch".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from onceflow.twophase.names import SINK_NAME


@dataclass(frozen=True, slots=True)
class TransactionalId:
    """``<prefix>-<job id>-<incarnation>-<sink>-<shard>-<epoch mod 2>-<attempt>``.

    * The full incarnation tells older from newer, so that a sweep can never hit a newer one's transaction.
    * The number of names grows with starts x shards, not with epochs; brokers forget idle names after
      ``transactional.id.expiration.ms`` (7 days by default).
    * The parity of the epoch lets the next epoch begin without waiting for the markers of the one before.
    * The attempt keeps a retried task from fencing the transaction of a winner that it does not know.
    """

    prefix: str
    job_id: str
    incarnation: int
    sink: str
    shard: int
    parity: int
    attempt: int

    def __str__(self) -> str:
        return f"{self.prefix}-{self.job_id}-{self.incarnation}-{self.sink}-{self.shard}-{self.parity}-{self.attempt}"


_NUMBER = "(0|[1-9][0-9]{0,18})"
_PARTS = re.compile(f"{_NUMBER}-(.+)-{_NUMBER}-([01])-{_NUMBER}")


def job_prefix(prefix: str, job_id: str) -> str:
    """What the names of all transactions of one job begin with."""
    return f"{prefix}-{job_id}-"


def name_transaction(
    prefix: str, job_id: str, incarnation: int, sink: str, shard: int, epoch: int, attempt: int
) -> str:
    """The transactional id for one attempt at one shard of one sink in one epoch."""
    return str(TransactionalId(prefix, job_id, incarnation, sink, shard, epoch % 2, attempt))


def parse_transactional_id(text: str, prefix: str, job_id: str) -> TransactionalId | None:
    """The parts of a transactional id of this job, or None when it is not ours. Never raises."""
    head = job_prefix(prefix, job_id)
    if not text.startswith(head):
        return None
    # The sink's name may itself end in "-3-0-1": the three numbers at the end are always ours.
    match = _PARTS.fullmatch(text[len(head) :])
    if match is None or SINK_NAME.fullmatch(match[2]) is None:
        return None
    return TransactionalId(prefix, job_id, int(match[1]), match[2], int(match[3]), int(match[4]), int(match[5]))
