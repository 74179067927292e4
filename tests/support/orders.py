"""A source and a sink that only say what they are."""

from onceflow.connectors.contract import Guarantee
from onceflow.connectors.source_contract import Source, SourceConnection
from onceflow.errors import ConfigurationError
from tests.support.starts import Attached, Committing, Listed


class Open(SourceConnection):
    """A source's connection that keeps what it is asked."""

    system_id = "one"

    def __init__(self, source):
        self.source, self.closed = source, 0

    def look(self, source, needed, end, known):
        self.source.asked.append((source, needed, end, [topic.name for topic in known.topics]))
        if source.missing:
            raise ConfigurationError("there is no topic oders", action="create it")

    def topics(self, _):
        raise AssertionError("nothing is read")

    publish = topics

    def close(self):
        self.closed += 1


class Orders(Source):
    """A source that is there, or is not."""

    group, system = None, "one"

    def __init__(self, missing=False):
        self.missing, self.asked, self.made = missing, [], []

    def connect(self):
        self.made.append(Open(self))
        return self.made[-1]

    def describe(self):
        return "topic orders"


class Checked(Attached):
    """A sink's connection whose committer flies a canary."""

    def __init__(self, sink):
        super().__init__(sink)
        self.closed, self.is_there = 0, sink.is_there

    def committer(self, prefix, job_id):
        sink = self.sink

        class Canary(Committing):
            def preflight(self):
                sink.canaries.append((prefix, job_id))
                if sink.refused is not None:
                    raise sink.refused

        return Canary(sink.system, sink.done)

    def close(self):
        self.closed += 1


class Alerts(Listed):
    """A sink that may write, or may not."""

    def __init__(self, name="alerts", refused=None, guarantee=Guarantee.EXACTLY_ONCE):
        super().__init__(name, "one", [], guarantee)
        self.refused, self.canaries, self.connected = refused, [], []
        self.is_there = True

    def connect(self):
        self.connected.append(Checked(self))
        return self.connected[-1]

    def attach(self):
        return Checked(self)

    def describe(self):
        return "Kafka topic alerts"
