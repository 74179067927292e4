"""After an epoch: what each consumer group is told."""

from onceflow.connectors.formats import Raw
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.source import KafkaSource
from onceflow.execution.progress import to_publish

ONE, OTHER = KafkaCluster("one:9092"), KafkaCluster("other:9092")
T0, T1, U0 = Partition("t", 0), Partition("t", 1), Partition("u", 0)


def source(group, cluster=ONE, topics="t"):
    return KafkaSource(cluster, topics, value=Raw(), group=group)


def test_of_sources_that_share_a_group_the_one_behind_counts():
    """Whoever goes on from the group's offsets must miss nothing, whichever source is listed first."""
    sources = [source("g"), source("g")]
    told = {(ONE, "g"): {"t": {0: 5, 1: 3}, "u": {0: 9}}}
    first, second = {T0: 5, T1: 7}, {T0: 6, T1: 3, U0: 9}
    assert to_publish(sources, [first, second]) == told
    assert to_publish(sources, [second, first]) == told


def test_two_groups_and_two_clusters_are_kept_apart():
    """The same group's name on another cluster, and the same topic in another group, are others."""
    sources = [source("g"), source("g", OTHER), source("h")]
    assert to_publish(sources, [{T0: 5}, {T0: 4}, {T0: 3}]) == {
        (ONE, "g"): {"t": {0: 5}},
        (OTHER, "g"): {"t": {0: 4}},
        (ONE, "h"): {"t": {0: 3}},
    }


def test_who_names_no_group_is_told_nothing():
    """A source without a group, one that is not ours, and one that stands nowhere yet."""
    assert to_publish([source(None), None, source("g")], [{T0: 5}, {T1: 5}, {}]) == {}


def test_nothing_is_told_where_positions_cannot_be_told_apart():
    """Spark lists another number of sources than the plan has: a wrong offset is worse than an old one."""
    assert to_publish([source("g")], [{T0: 5}, {T0: 6}]) == {}
