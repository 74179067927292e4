"""What the rules cannot see: an abort by partition with Kafka's own tool. The limit is stated, and held here.

``tests/integration/connectors/kafka/test_oracle.py`` holds the same story against the real broker.
"""

from tests.simulation.fake_broker import FakeBroker


def test_an_abort_by_partition_takes_its_rows_and_the_commit_is_answered_with_success():
    """WriteTxnMarkers leaves the coordinator Ongoing: EndTxn answers NONE, and one partition's row is gone."""
    broker = FakeBroker(lambda: 0.0)
    _, pid, epoch = broker.init("t")
    taken, kept = ("topic", 0), ("topic", 1)
    for partition in (taken, kept):
        assert broker.produce("t", pid, epoch, partition, f"row {partition[1]}")[0] == 0
    broker.mark(pid, epoch, taken, commit=False)
    assert broker.transactions["t"].state == "Ongoing"
    assert broker.end("t", pid, epoch, commit=True) == 0
    assert broker.read_committed(taken) == []
    assert broker.read_committed(kept) == ["row 1"]
