"""The thread beside the epochs: what ends it, and what does not. When the mark is due is in test_mark.py."""

import threading

import pytest

from onceflow.errors import KafkaUnavailableError
from onceflow.execution import sweeper
from onceflow.execution.sweeper import Sweeper

WITHIN_S = 30.0


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(sweeper, "EVERY_S", 0.0)


@pytest.mark.parametrize("error", [KafkaUnavailableError("no broker"), ValueError("a bug")])
def test_a_sweep_that_fails_is_followed_by_the_next(error, caplog):
    """The job runs on, and what lingers must not linger for as long as it does; the log says what was wrong."""
    turns, told = iter([error, None, error, None]), threading.Event()

    def sweep():
        what = next(turns, "replaced")
        if isinstance(what, Exception):
            raise what
        return what is None

    made = Sweeper(sweep, lambda: None, lambda: None, told.set)
    assert told.wait(WITHIN_S)
    made.close()
    assert sum("could not look for lingering" in record.message for record in caplog.records) == 2


def test_a_replaced_driver_is_told_of_once_and_sweeps_no_more():
    """From then on what is there is the newer start's business."""
    swept, told = [], []
    made = Sweeper(
        lambda: swept.append(1),
        lambda: told.append("anchor"),
        lambda: told.append("mark"),
        lambda: told.append("replaced"),
    )
    made._thread.join(WITHIN_S)
    assert not made._thread.is_alive()
    assert (len(swept), told) == (1, ["anchor", "replaced"])


def test_closing_waits_for_the_sweep_that_is_under_way(monkeypatch):
    """Who closes it lets go of the connections next; no other sweep begins, and the last receipt gets its anchor."""
    under_way, go_on, swept, anchored = threading.Event(), threading.Event(), [], []

    def sweep():
        under_way.set()
        assert go_on.wait(WITHIN_S)
        swept.append(1)
        return True

    made = Sweeper(sweep, lambda: anchored.append(len(swept)), lambda: None, lambda: None)
    assert under_way.wait(WITHIN_S)
    monkeypatch.setattr(sweeper, "_ENDS_WITHIN_S", WITHIN_S)
    closing = threading.Thread(target=made.close)
    closing.start()
    assert made._ended.wait(WITHIN_S)
    go_on.set()
    closing.join(WITHIN_S)
    assert not closing.is_alive()
    assert not made._thread.is_alive()
    assert swept == [1]
    assert anchored[-1:] == [1]


def test_an_error_at_the_end_is_the_end(caplog):
    """The last anchor fails by what nobody has foreseen: the thread ends all the same, and says it once."""
    anchored = []

    def anchor():
        anchored.append(1)
        raise ValueError("a bug")

    made = Sweeper(lambda: True, anchor, lambda: None, lambda: None)
    made.close()
    assert not made._thread.is_alive()
    count = len(anchored)
    assert count == sum("could not look" in record.message for record in caplog.records)


def test_a_sweep_that_fails_leaves_the_anchors_alone():
    """They need nothing of the systems that a sweep asks."""
    anchored = threading.Event()

    def sweep():
        raise KafkaUnavailableError("no broker")

    made = Sweeper(sweep, anchored.set, lambda: None, lambda: None)
    assert anchored.wait(WITHIN_S)
    made.close()
