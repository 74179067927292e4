"""After an epoch: what each consumer group is told, and how far behind the job is."""

import pytest

from onceflow.checkpoint.spark_files import lag
from onceflow.connectors.formats import Raw
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.source import KafkaSource
from onceflow.execution.progress import to_publish

ONE, OTHER = KafkaCluster("one:9092"), KafkaCluster("other:9092")


def source(group, cluster=ONE, topics="t"):
    return KafkaSource(cluster, topics, value=Raw(), group=group)


def told(sources, positions):
    return {key: at for key, (_, at) in to_publish(sources, positions).items()}


def test_sources_that_share_a_group_are_told_of_together():
    """Which of them is behind is the connector's to say."""
    assert told([source("g"), source("g")], ["one", "two"]) == {(ONE, "g"): ["one", "two"]}


def test_two_groups_and_two_clusters_are_kept_apart():
    """The same group's name on another cluster, and the same topic in another group, are others."""
    sources = [source("g"), source("g", OTHER), source("h")]
    assert told(sources, ["5", "4", "3"]) == {(ONE, "g"): ["5"], (OTHER, "g"): ["4"], (ONE, "h"): ["3"]}


def test_who_names_no_group_is_told_nothing():
    """A source without a group, and one that is not ours."""
    assert told([source(None), None], ["5", "5"]) == {}


def test_nothing_is_told_where_positions_cannot_be_told_apart():
    """Spark lists another number of sources than the plan has: a wrong offset is worse than an old one."""
    assert told([source("g")], ["5", "6"]) == {}


@pytest.mark.parametrize(
    ("at", "latest", "behind"),
    [
        ({"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, 4),
        ({"t": {"0": 5}}, {"t": {"0": 5, "1": 3}}, 3),  # a new partition is read from its beginning
        ({"t": {"0": 5}}, {"t": {"0": 2}}, 0),
        (17, 20, 0),  # not a Kafka source
        (None, None, 0),
    ],
)
def test_lag_is_what_was_there_and_not_read(at, latest, behind):
    """Between the end of the epoch and what the source held when it was planned."""
    assert lag({"endOffset": at, "latestOffset": latest}) == behind
    assert lag({}) == 0
