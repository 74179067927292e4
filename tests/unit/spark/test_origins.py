"""What each task reads, from Spark's physical plan. The nodes here stand for Spark's, in what is asked of them."""

import pytest

from onceflow.spark.origins import origins


class Seq(list):
    """Scala's, as py4j shows it."""

    def size(self):
        return len(self)

    def apply(self, i):
        return self[i]

    def toString(self):  # noqa: N802 - Java's name
        return f"List({', '.join(self)})"


class Text:
    """A Java object of which only its text counts."""

    def __init__(self, text):
        self._text = text

    def getSimpleName(self):  # noqa: N802
        return self._text

    def toString(self):  # noqa: N802
        return self._text


class Node:
    """One node of a plan."""

    def __init__(self, kind, *children, reads=(), partitioning="", tasks=0):
        self._kind, self._children = kind, Seq(children)
        self._reads, self._partitioning, self._tasks = Seq(reads), partitioning, tasks

    def getClass(self):  # noqa: N802
        return Text(self._kind)

    def children(self):
        return self._children

    def inputPartitions(self):  # noqa: N802
        return self._reads

    def outputPartitioning(self):  # noqa: N802
        text, tasks = self._partitioning, self._tasks

        class Partitioning(Text):
            def numPartitions(self):  # noqa: N802
                return tasks

        return Partitioning(text)


def scan(*ranges, topic="pay-ments.v1"):
    reads = [f"KafkaBatchInputPartition(KafkaOffsetRange({topic}-{n},{a},{b},None),{{}})" for n, a, b in ranges]
    return Node("MicroBatchScanExec", reads=reads)


def shuffle(child, tasks=2, partitioning="hashpartitioning(key#1, 2)"):
    return Node("ShuffleExchangeExec", child, partitioning=partitioning, tasks=tasks)


def told(plan, tasks, *, keys_repeat=True):
    return origins(lambda: plan, tasks, keys_repeat=keys_repeat)


READ = scan((1, 0, 5), (0, 3, 9))
TWO = ["0:pay-ments.v1-1[0,5)", "0:pay-ments.v1-0[3,9)"]


def test_a_task_of_a_scan_reads_its_range():
    """Through filters and projections, in the order of the tasks."""
    assert told(Node("ProjectExec", Node("FilterExec", READ)), 2) == TWO


def test_several_outputs_are_joined_in_their_order():
    """The same range read for two outputs is two tasks, told apart by their scan."""
    union = Node("UnionExec", scan((0, 0, 5)), Node("FilterExec", scan((0, 0, 5))))
    assert told(union, 2) == ["0:pay-ments.v1-0[0,5)", "1:pay-ments.v1-0[0,5)"]


def test_behind_a_shuffle_the_partition_tells():
    """A key goes to the same one of so many partitions in every run."""
    assert told(Node("HashAggregateExec", shuffle(READ, 3)), 3) == ["shuffle 0:0/3", "shuffle 0:1/3", "shuffle 0:2/3"]


def test_two_sides_of_a_join_are_one_task():
    """Both are shuffled by the join's key."""
    join = Node("StreamingSymmetricHashJoinExec", shuffle(READ), shuffle(READ))
    assert told(join, 2) == ["shuffle 0:0/2 shuffle 1:0/2", "shuffle 0:1/2 shuffle 1:1/2"]


def test_a_table_that_is_sent_to_every_task_does_not_count():
    """A join with a small table: a task reads what its stream's partition holds."""
    table = Node("BroadcastExchangeExec", Node("FileSourceScanExec"))
    assert told(Node("BroadcastHashJoinExec", READ, table), 2) == TWO


@pytest.mark.parametrize(
    ("plan", "tasks"),
    [
        (READ, 3),  # another number of tasks than ranges
        (scan((0, 0, 5), (0, 0, 5)), 2),  # two tasks that cannot be told apart
        (Node("CoalesceExec", READ), 2),  # several partitions in one task
        (Node("StreamingSymmetricHashJoinExec", READ, READ), 2),
        (shuffle(READ, partitioning="RoundRobinPartitioning(2)"), 2),
        (shuffle(READ, partitioning="SinglePartition"), 2),
        (Node("LocalTableScanExec"), 2),
        (Node("UnionExec", READ, Node("LocalTableScanExec")), 2),
        (Node("MicroBatchScanExec", reads=["RateStreamPartition(0,5)", "RateStreamPartition(5,9)"]), 2),
        (Node("MicroBatchScanExec", reads=["KafkaOffsetRange(t-0,0,5,None)", "another kind"]), 2),
        (Node("SomethingOfANewerSpark", READ, READ, READ), 2),
        (None, 2),  # the plan cannot be had at all
    ],
)
def test_what_cannot_be_told_is_not_guessed(plan, tasks):
    """No task has an origin then, rather than a wrong one."""
    assert told(plan, tasks) == [""] * tasks


def test_keys_that_may_not_come_again_tell_nothing_behind_a_shuffle():
    """A key made by rand() sends its row to another partition in the next run; before the shuffle it is no matter."""
    assert told(shuffle(READ), 2, keys_repeat=False) == ["", ""]
    assert told(READ, 2, keys_repeat=False) == TWO


def test_a_plan_that_raises_costs_no_epoch():
    """These are Spark's private classes: what cannot be told is not needed to write the epoch."""

    def raising():
        raise RuntimeError("no such method")

    assert origins(raising, 2, keys_repeat=True) == ["", ""]
