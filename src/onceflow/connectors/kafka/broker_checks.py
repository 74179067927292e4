"""What a cluster's, a topic's and a sink's settings mean for a job: pure rules, from facts to findings.

Must not know: how facts are read, sinks, sources. Every rule is silent where it does not know the setting's value: a
user without DESCRIBE_CONFIGS sees none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from onceflow.connectors.contract import TOO_OLD
from onceflow.connectors.examination import Expected
from onceflow.errors import ConfigurationError
from onceflow.findings import Finding, Level
from onceflow.twophase.names import DEFAULT_PREFIX

BROKER_DEFAULT_MAX_TIMEOUT_MS = 900_000
"""``transaction.max.timeout.ms`` of a broker that says nothing else."""
CLOCKS_MAY_DIFFER_S = 5.0
_NEWEST_TRANSACTIONS = 2
_KEPT_FOR_MS = 7 * 24 * 3_600_000  # what a broker keeps of a group that is gone, by default: no less is expected here


def weak(name: str, copies: int, settings: Mapping[str, str], lost: str) -> Iterator[Finding]:
    """Settings by which a broken broker of several takes away what was acknowledged.

    Args:
        name: The topic.
        copies: Of the partition that has fewest.
        settings: The topic's.
        lost: What would be lost, in words.
    """
    if copies == 1:
        yield Finding(
            Level.WARNING,
            f"topic {name} has replication factor 1 on a cluster of several brokers",
            f"a broker that is lost with its disk takes {lost} with it",
            "replication factor 1",
            "make the topic with replication factor 3",
        )
        return  # the other two settings ask for more than one copy
    if settings.get("min.insync.replicas") == "1":
        yield Finding(
            Level.WARNING,
            f"topic {name} has min.insync.replicas=1 with replication factor {copies}",
            f"a write is acknowledged when a single broker has it, and {lost} can be lost with that one",
            "min.insync.replicas=1",
            "set it to 2",
        )
    if settings.get("unclean.leader.election.enable") == "true":
        yield Finding(
            Level.WARNING,
            f"topic {name} has unclean.leader.election.enable=true",
            f"a broker that lags behind may become the leader, and {lost} can be cut off and their offsets given to "
            "others",
            "unclean.leader.election.enable=true",
            "set it to false",
        )


def require_copies(name: str, copies: int, settings: Mapping[str, str]) -> None:
    """Refuse a topic that asks for more copies than it has: no write to it is ever acknowledged.

    Raises:
        ConfigurationError: With both numbers.
    """
    wanted = _number(settings, "min.insync.replicas")
    if wanted is not None and wanted > copies:
        raise ConfigurationError(
            f"topic {name} acknowledges no write: it asks for {wanted} copies and has {copies}",
            harmless="always: nothing was started",
            cause=f"min.insync.replicas={wanted} of the topic, replication factor {copies}",
            action=f"set the topic's min.insync.replicas to at most {copies}, or give it more copies "
            "(kafka-reassign-partitions.sh)",
            topic=name,
        )


def compacted_sink(topic: str, sink: str, settings: Mapping[str, str]) -> Iterator[Finding]:
    """Compaction of what a sink writes takes away evidence."""
    policy, lag = settings.get("cleanup.policy", ""), settings.get("min.compaction.lag.ms", "0")
    if "compact" in policy and not (lag.isdigit() and int(lag) >= _KEPT_FOR_MS):
        yield Finding(
            Level.WARNING,
            f"topic {topic} of sink {sink} has cleanup.policy={policy}, and min.compaction.lag.ms={lag}",
            "compaction may remove the record by which a lost transaction is told from a committed one; then recovery "
            "stops and asks",
            f"cleanup.policy={policy}, min.compaction.lag.ms={lag}",
            "raise min.compaction.lag.ms above the longest time that the job may be down, and to a week at least",
        )


def open_transactions(
    sink: str, timeout_s: float, settings: Mapping[str, str], expected: Expected
) -> Iterator[Finding]:
    """Whether a sink's transactions live as long as an epoch and a downtime, and the names of them after that.

    Args:
        sink: The sink.
        timeout_s: Its transactions' time-out.
        settings: The broker's.
        expected: What they have to bear.
    """
    said = f"transaction_timeout of sink {sink} is {timeout_s:g} s"
    if expected.longest_s > TOO_OLD * timeout_s:
        yield Finding(
            Level.ERROR,
            f"epochs of up to {expected.longest_s:.0f} s are too long for the transactions of sink {sink}",
            f"an epoch that takes more than {TOO_OLD * timeout_s:.0f} s is given up before its decision, and run again",
            said,
            "raise transaction_timeout (and transaction.max.timeout.ms on the brokers), or lower max_records_per_epoch",
        )
    elif expected.open_s > timeout_s:
        yield Finding(
            Level.WARNING,
            f"a decided transaction of sink {sink} may expire: an epoch ({expected.timeout_s + expected.longest_s:.0f} "
            f"s) and a downtime ({expected.downtime_s:.0f} s) are longer than its time-out",
            "what expires is written again by the next start, which takes longer, and needs the source's records of "
            "that epoch",
            said,
            f"raise transaction_timeout to {expected.open_s:.0f} s (transaction.max.timeout.ms on the brokers is "
            f"{settings.get('transaction.max.timeout.ms', 'not known')})",
        )
    forgotten = _number(settings, "transactional.id.expiration.ms")
    if forgotten is not None and forgotten / 1000 < timeout_s + expected.downtime_s:
        yield Finding(
            Level.WARNING,
            f"the brokers forget a transactional id after {forgotten / 1000:g} s without use",
            "its coordinator cannot tell any more what became of a transaction; the log of the topic must, and where "
            "that is gone, a start stops and asks",
            f"transactional.id.expiration.ms={forgotten} on the brokers",
            f"raise it above {timeout_s + expected.downtime_s:.0f} s; 604800000 (7 days) is the default",
        )
    kept = _number(settings, "offsets.retention.minutes")
    if kept is not None and kept * 60 < expected.downtime_s:
        yield Finding(
            Level.WARNING,
            f"the job's mark is kept for {kept} min after the job last ran, less than a downtime of "
            f"{expected.downtime_s:.0f} s",
            "without it a start cannot tell whether its checkpoint is the newest copy, and is refused",
            f"offsets.retention.minutes={kept} on the brokers",
            "raise it; 10080 (7 days) is the default",
        )


def read_topic(topic: str, partitions: int, settings: Mapping[str, str], expected: Expected) -> Iterator[Finding]:
    """Whether a topic that is read keeps its records for as long as they are needed, and for whom it is made.

    Args:
        topic: Its name.
        partitions: How many it has.
        settings: Its settings.
        expected: What its retention has to bear.
    """
    kept_ms = _number(settings, "retention.ms")
    policy = settings.get("cleanup.policy", "")
    if "delete" in policy and kept_ms is not None and 0 <= kept_ms < expected.open_s * 1000:  # -1 is for ever
        yield Finding(
            Level.ERROR if kept_ms < expected.downtime_s * 1000 else Level.WARNING,
            f"topic {topic} deletes records after {kept_ms / 1000:g} s; an epoch and a downtime take up to "
            f"{expected.open_s:.0f} s",
            "records that are deleted before they are read, or before an epoch has to be read again, are lost, and the "
            "start is refused",
            f"retention.ms={kept_ms} of the topic",
            f"kafka-configs.sh --alter --topic {topic} --add-config retention.ms=604800000",
        )
    if "compact" in policy:
        yield Finding(
            Level.WARNING,
            f"topic {topic}, which is read, has cleanup.policy={policy}",
            "an epoch that is read again may find fewer records than when it was decided: a stateful job then stops "
            "with NotDeterministicError",
            f"cleanup.policy={policy} of the topic",
            "raise min.compaction.lag.ms above the longest downtime, or read a topic that is not compacted",
        )
    if partitions == 1:
        yield Finding(
            Level.NOTE,
            f"topic {topic}, which is read, has one partition",
            "one task reads it, however many cores there are",
            "1 partition",
            f"kafka-topics.sh --alter --topic {topic} --partitions N (records of one key may change their partition)",
        )


def transaction_version(brokers: str, finalized: int | None) -> Iterator[Finding]:
    """Whether the cluster's transactions are of the newest kind.

    Args:
        brokers: The brokers' version, in words.
        finalized: What the cluster has finalized of ``transaction.version``; None where it has no such feature.
    """
    if finalized is None or finalized < _NEWEST_TRANSACTIONS:
        yield Finding(
            Level.NOTE,
            f"the cluster's transactions are of version {finalized or 0} (brokers: Kafka {brokers})",
            "onceflow is tested with it; from version 2 on the brokers themselves refuse a late request of a "
            "transaction that is over",
            f"transaction.version={finalized or 0}",
            "brokers of Kafka 4.0 or newer, then: kafka-features.sh upgrade --feature transaction.version=2",
        )


def silent_brokers(silent: Sequence[str]) -> Iterator[Finding]:
    """Brokers that the cluster names and that do not answer at their advertised address."""
    for address in silent:
        yield Finding(
            Level.ERROR,
            f"broker {address} does not answer, though another one names it",
            "partitions that it leads can be neither read nor written from here",
            "advertised.listeners on that broker",
            "start the broker, or let its advertised address be one that this machine reaches",
        )


def clocks(ahead_s: float) -> Iterator[Finding]:
    """How far the brokers' clock is ahead of this machine's."""
    if abs(ahead_s) > CLOCKS_MAY_DIFFER_S:
        yield Finding(
            Level.WARNING,
            f"the brokers' clock is {abs(ahead_s):.0f} s {'ahead of' if ahead_s > 0 else 'behind'} this machine's",
            "ages of transactions are told wrongly, a record's time may be refused by the topic, and a time may be "
            "taken for one in the future",
            "the clocks of brokers and driver",
            "let both follow one time server (chronyc tracking, timedatectl)",
        )


def unreached(client: str, servers: str, said: str) -> Finding:
    """A client that does not reach the cluster, though another one does.

    Args:
        client: Which.
        servers: The cluster's address.
        said: The client's own words.
    """
    return Finding(
        Level.ERROR,
        f"{client} does not reach Kafka at {servers}: {said}",
        "the job uses three clients: Spark's Java client reads, librdkafka writes, kafka-python commits",
        f"bootstrap_servers={servers}",
        "compare the KafkaCluster's login and certificates with docs/security.md: each client reads them by itself",
    )


def own_prefix(prefix: str, principal: str) -> Iterator[Finding]:
    """Whether a job that logs in has kept the prefix that every job begins with.

    Args:
        prefix: First part of its transactional ids.
        principal: Whom the brokers know it as.
    """
    if prefix == DEFAULT_PREFIX:
        yield Finding(
            Level.WARNING,
            f"the job's transactional ids begin with {prefix}-, as those of every job do that names no prefix",
            f"a login with the rights on {prefix}- may fence and abort the transactions of each of these jobs: an ACL "
            "cannot keep them apart",
            f"transactional_id_prefix={prefix}, which is the default; it logs in as {principal}",
            "give each job a prefix and a principal of its own: Job(transactional_id_prefix=...), at best before its "
            "first start, since a checkpoint keeps the prefix that it was made with; see 'Kafka rights' in "
            "docs/security.md",
        )


def lag_unseen(group: str, cause: str, give: str) -> Finding:
    """A group that does not take the offsets by which a job's lag is seen.

    Args:
        group: The group.
        cause: Which right is missing.
        give: The command that gives it.
    """
    return Finding(
        Level.WARNING,
        f"group {group} does not take the offsets by which the job's lag is seen",
        "no epoch fails by it, and each tool that shows lag shows none; the job warns of it as long as it runs",
        cause,
        f"{give}; or set commit.offsets.on.checkpoint=false",
    )


def may_not_read(topic: str, said: str, principal: str, give: str) -> Finding:
    """A topic whose records this user may not read.

    Args:
        topic: The topic.
        said: The client's own words.
        principal: Whom the brokers know this login as.
        give: The command that gives the right.
    """
    return Finding(
        Level.ERROR,
        f"topic {topic} cannot be read: {said}",
        "the job fails with its first epoch",
        f"no ACL allows READ on Topic {topic} to {principal}",
        f"{give}; see 'Kafka rights' in docs/security.md for all that a job needs",
    )


def _number(settings: Mapping[str, str], name: str) -> int | None:
    try:
        return int(settings.get(name, ""))
    except ValueError:
        return None
