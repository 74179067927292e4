"""How many tasks take an epoch's partitions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.execution.groups import groups


@pytest.mark.parametrize(
    ("partitions", "slots", "records", "expected"),
    [
        (128, 2, 1_280, 2),  # small: a task for each slot
        (128, 2, 149_999, 2),  # a third would have less than it costs
        (128, 2, 150_000, 3),
        (128, 2, 10_000_000, 8),  # large: four for each slot, and no more
        (128, 2, 0, 8),  # it cannot be told, so it may be large
        (4, 2, 100, 2),
        (4, 2, 10_000_000, 4),  # never more than partitions
        (1, 16, 0, 1),
        (0, 2, 100, 0),
        (5, 0, 10, 1),  # executors that are not there yet
    ],
)
def test_tasks_are_as_many_as_slots_and_more_for_a_large_epoch(partitions, slots, records, expected):
    """The rule, at its edges."""
    assert groups(partitions, slots, records) == expected


@given(st.integers(0, 5_000), st.integers(0, 2_000), st.integers(0, 10**9))
def test_no_task_is_without_a_partition_and_no_slot_without_a_task(partitions, slots, records):
    """Never more tasks than partitions; never fewer than slots while there are partitions for them."""
    assert min(partitions, max(slots, 1)) <= groups(partitions, slots, records) <= partitions
