"""A driver that slept inside Spark's exists-check and rename writes over a newer one's ``offsets/N``, at any moment."""

import json

import pytest

from onceflow.checkpoint.journal import Journal
from onceflow.errors import EpochFailedError
from onceflow.storage.store import Store
from tests.support.advice import parts_of
from tests.support.choices import choose
from tests.support.shop import Shop


@pytest.fixture
def shop(tmp_path):
    """A job with three orders."""
    shop = Shop(tmp_path)
    yield shop
    shop.close()


def offsets(shop, epoch=0):
    """Where an epoch ends, as Spark's file says."""
    return json.loads((shop.folder / "offsets" / str(epoch)).read_text().splitlines()[2])["orders"]["0"]


def sleeper(shop, end, epoch=0):
    """Writes its plan of an epoch over what is there."""
    path = shop.folder / "offsets" / str(epoch)
    return lambda: path.write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps({"orders": {"0": end}})}')


def ended_by(shop, driver):
    """The error with which a driver's first epoch ends."""
    try:
        with pytest.raises(EpochFailedError) as caught:
            shop.work(driver)
    finally:
        shop.close()
    return caught.value


@pytest.mark.parametrize("end", [1, 9])
def test_before_the_return_it_is_put_back(shop, end):
    """Once the epoch is decided, and before Spark records it: the next epoch begins where this one ended."""
    shop.meanwhile["commit"] = sleeper(shop, end)
    assert shop.run() is None
    assert offsets(shop) == 3
    shop.orders.end = 5
    assert shop.run() is None
    assert shop.written() == shop.all_orders()


@pytest.mark.parametrize("end", [1, 9])
@pytest.mark.parametrize("stateful", [False, True])
@pytest.mark.parametrize("expired", [False, True])
def test_a_start_before_it_is_put_back_restores_it_from_the_decision(tmp_path, end, stateful, expired):
    """The driver that has decided is dead, or sleeps: its decision says what the epoch reads, also if it is lost."""
    shop = Shop(tmp_path, stateful=stateful)
    try:
        shop.dies_at("commit")
        if expired:
            shop.somebody("update ledger set state='aborted'")
        sleeper(shop, end)()
        shop.orders.end = 5
        assert shop.run() is None
        assert offsets(shop) == 3
        assert shop.written() == shop.all_orders()
    finally:
        shop.close()


@pytest.mark.parametrize("end", [1, 9])
def test_between_the_start_and_its_epoch_the_next_start_restores_it(shop, end):
    """Spark has read the other plan by then: what it would run is not what was decided. That passes."""
    shop.dies_at("commit")
    driver = shop.start()
    sleeper(shop, end)()
    assert parts_of(ended_by(shop, driver), EpochFailedError, "offsets/0", "epoch 0").retriable
    assert shop.run() is None
    assert offsets(shop) == 3
    assert shop.written() == shop.all_orders()


@pytest.mark.parametrize("end", [1, 9])
def test_of_an_epoch_that_is_done_it_is_put_right_by_the_next_one(shop, end):
    """The driver that ran it remembers what it had read, and Spark plans on from its own memory."""

    def both():
        sleeper(shop, end)()
        shop.orders.end = 5
        sleeper(shop, 5, epoch=1)()

    shop.meanwhile["record"] = both
    assert shop.run() is None
    assert (offsets(shop), offsets(shop, 1)) == (3, 5)
    assert shop.written() == shop.all_orders()


@pytest.mark.parametrize("end", [1, 9])
def test_of_an_epoch_that_is_done_it_is_put_right_by_the_next_start(shop, end):
    """Its decision says what it had read, though ``commits/N`` exists."""
    assert shop.run() is None
    sleeper(shop, end)()
    shop.orders.end = 5
    assert shop.run() is None
    assert offsets(shop) == 3
    assert shop.written() == shop.all_orders()


@pytest.mark.parametrize("end", [1, 9])
def test_of_an_epoch_that_is_done_it_ends_a_start_that_has_looked_before(shop, end):
    """Spark has begun at the other place by then, and would read records once more, or leave some out. That passes."""
    assert shop.run() is None
    shop.orders.end = 10
    driver = shop.start()
    sleeper(shop, end)()
    assert parts_of(ended_by(shop, driver), EpochFailedError, "offsets/0").retriable
    assert offsets(shop) == 3
    assert shop.run() is None
    assert shop.written() == shop.all_orders()


@pytest.mark.parametrize("died", [0, 2])
def test_of_an_epoch_without_a_decision_it_is_put_right_too(shop, died):
    """Nothing was written, so nothing is in the journal but what the start had noted.

    Starts that died before they ran anything have noted nothing, so what was noted before them holds still.
    """
    shop.orders.end = 0
    assert shop.run() is None
    driver = shop.start()
    try:
        shop.orders.end = 3
        (shop.folder / "sources" / "0").mkdir(parents=True, exist_ok=True)
        driver._journal.passed.note(0, (text := 'v1\n{"batchWatermarkMs":0}\n{"orders": {"0": 2}}'))
    finally:
        shop.close()
    for _ in range(died):
        Journal(Store(shop.folder / "onceflow" / "journal")).start(driver._identity.job_id)
    (shop.folder / "offsets" / "0").write_text(text.replace("2}", "1}"))
    (shop.folder / "commits" / "0").write_text("v1\n{}")
    assert shop.run() is None
    assert offsets(shop) == 2
    assert shop.written() == ["order 2"]


def test_a_range_that_the_file_does_not_name_is_not_decided(shop):
    """Written over before the epoch began: what Spark read, and what would be decided, are two ranges."""
    shop.ends = frozenset(['{"orders": {"0": 1}}'])
    error = parts_of(shop.run(), EpochFailedError, "another range")
    assert error.retriable
    assert shop.written() == []
    shop.ends = frozenset(['{"orders":{"0":3}}'])  # as Spark spells what stands there otherwise
    assert shop.run() is None
    assert shop.written() == shop.all_orders()


@pytest.mark.parametrize("expired", [False, True])
@pytest.mark.parametrize("stateful", [False, True])
def test_what_an_operator_has_moved_is_not_put_right(tmp_path, stateful, expired):
    """Rows that were lost at the source are given up, and the next epoch begins behind them, also after its death."""
    shop = Shop(tmp_path, stateful=stateful)
    try:
        assert shop.run() is None
        shop.orders.end, shop.orders.first = 9, 5
        choose(shop, shop.run().action, "give-up-rows")
        shop.dies_at("commit")
        if expired:
            shop.somebody("update ledger set state='aborted' where state!='committed'")
        assert shop.run() is None
        assert offsets(shop) == 5
        assert shop.written() == sorted(map(shop.row, [0, 1, 2, 5, 6, 7, 8]))
    finally:
        shop.close()
