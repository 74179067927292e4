"""A source that reads what it is told."""

import json

from onceflow.connectors.source_contract import Connector
from onceflow.execution.source_check import Sources
from onceflow.spark.plan import Leaf
from onceflow.twophase.layout import Topic


class Reading:
    """A source without a system behind it: it says what topics there are, and notes what it was asked.

    Args:
        system: Which system it is of.
        asked: Is told which positions were asked for, by system.
        topics: What there is.
    """

    group = None

    def __init__(self, system="one", asked=None, topics=()):
        self.system, self.asked, self.there = system, [] if asked is None else asked, topics

    def connect(self):
        return self

    def topics(self, positions):
        self.asked.append((self.system, [sorted(json.loads(p)) for p in positions]))
        there = {topic.name: topic for topic in self.there}
        return [{name: there[name] for name in json.loads(p) if name in there} for p in positions]


def make(*given):
    """Sources of a plan: one, the number of one before it, or None for one that no connector knows."""
    made = [given[each] if isinstance(each, int) else each for each in given]
    leaves = [Leaf((f"s{n}",), str(n), {}, "path") for n in range(len(given))]
    return Sources(leaves, (), (), [Connector(lambda kind, _: made[int(kind)], lambda _: None)])


def topic(name, number=1, partitions=1):
    return Topic(name, f"{name}-{number}", partitions)
