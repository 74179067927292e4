"""The files and settings of a small Kafka: what a broker's ``server.properties`` and log configuration say.

Must not know: processes, ports that are free, clients. Pure: facts in, text out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

HOST = "127.0.0.1"  # never anything else: this cluster has no passwords
CONTROLLER = "CONTROLLER"
PLAINTEXT = "PLAINTEXT"

FAST_EXPIRY: Mapping[str, str] = {
    # A transaction that timed out is aborted, and the broker forgets an id and a producer, within seconds
    # instead of 10 s, 7 days and 1 day. For tests of what a job does after such a loss.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "transactional.id.expiration.ms": "10000",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "500",
    "producer.id.expiration.ms": "5000",
    "producer.id.expiration.check.interval.ms": "500",
}


@dataclass(frozen=True)
class BrokerNode:
    """One broker (with its controller): its id, its directory, and a port for each listener's name."""

    id: int
    directory: Path
    ports: Mapping[str, int]

    @property
    def properties(self) -> Path:
        """The file that the broker is started with."""
        return self.directory / "server.properties"

    @property
    def log4j(self) -> Path:
        """The configuration of the broker's log."""
        return self.directory / "log4j2.properties"

    @property
    def log4j1(self) -> Path:
        """The same for brokers older than 4.0."""
        return self.directory / "log4j.properties"

    @property
    def log(self) -> Path:
        """The broker's log."""
        return self.directory / "server.log"

    @property
    def console(self) -> Path:
        """What Java itself wrote: crashes, and errors from before the log is open."""
        return self.directory / "console.log"

    @property
    def pid(self) -> Path:
        """The broker's process id, while it is thought to run."""
        return self.directory / "pid"


def server_properties(
    node: BrokerNode, nodes: Sequence[BrokerNode], extra_listeners: Mapping[str, str], settings: Mapping[str, str]
) -> str:
    """The text of ``server.properties``; ``settings`` come last and win.

    Args:
        node: The broker that it is for.
        nodes: All brokers; each is a controller too (a static quorum).
        extra_listeners: Listener name to security protocol, beside ``PLAINTEXT``.
        settings: Broker settings.
    """
    protocols = {PLAINTEXT: PLAINTEXT, **extra_listeners}
    clients = ",".join(f"{name}://{HOST}:{node.ports[name]}" for name in protocols)
    replicas = min(3, len(nodes))
    in_sync = min(2, len(nodes))
    said = {
        "process.roles": "broker,controller",
        "node.id": str(node.id),
        "controller.quorum.voters": ",".join(f"{n.id}@{HOST}:{n.ports[CONTROLLER]}" for n in nodes),
        "listeners": f"{clients},{CONTROLLER}://{HOST}:{node.ports[CONTROLLER]}",
        "advertised.listeners": clients,
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in {CONTROLLER: PLAINTEXT, **protocols}.items()
        ),
        "controller.listener.names": CONTROLLER,
        "inter.broker.listener.name": PLAINTEXT,
        "log.dirs": str(node.directory / "data"),
        # its own place: a second broker on the same metadata is not refused by Kafka in combined mode
        "metadata.log.dir": str(node.directory / "metadata"),
        # a broker that was killed is missed after 1.5 s, not 9 s; its restart waits for that
        "broker.session.timeout.ms": "1500",
        "broker.heartbeat.interval.ms": "300",
        # all brokers stop together: there is no other one that leadership could be handed to
        "controlled.shutdown.enable": "false",
        # a topic that a job misspells must be an error
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.num.partitions": "4",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
        "group.initial.rebalance.delay.ms": "0",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),  # its default is half of our heap
        **settings,
    }
    return "".join(f"{key}={escaped(value)}\n" for key, value in said.items())


def escaped(value: str) -> str:
    """A value as Java's properties format takes it: a PEM has line ends, JAAS has backslashes, a folder any letter."""
    value = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return "".join(c if c.isascii() else _in_utf_16(c) for c in value)


def _in_utf_16(letter: str) -> str:
    code = letter.encode("utf-16-be").hex()
    return "".join(f"\\u{code[i : i + 4]}" for i in range(0, len(code), 4))


def log4j_properties(node: BrokerNode) -> str:
    """The text of the broker's log4j2 configuration: one file, rolled at 20 MB, one old file kept."""
    return f"""status=error
appender.file.type=RollingFile
appender.file.name=file
appender.file.fileName={escaped(str(node.log))}
appender.file.filePattern={escaped(str(node.log))}.%i
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=%d %p %c{{1}}: %m%n
appender.file.policies.type=SizeBasedTriggeringPolicy
appender.file.policies.size=20MB
appender.file.strategy.type=DefaultRolloverStrategy
appender.file.strategy.max=1
rootLogger.level=info
rootLogger.appenderRef.file.ref=file
"""


def log4j1_properties(node: BrokerNode) -> str:
    """The same for brokers older than 4.0, which log by log4j 1."""
    return f"""log4j.rootLogger=INFO, file
log4j.appender.file=org.apache.log4j.RollingFileAppender
log4j.appender.file.File={node.log}
log4j.appender.file.MaxFileSize=20MB
log4j.appender.file.MaxBackupIndex=1
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=%d %p %c{{1}}: %m%n
"""
