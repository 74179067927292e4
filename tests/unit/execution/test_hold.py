"""A job is held at an epoch's boundary: what is decided is recorded, nothing is in work, and nothing begins."""

import threading

import pytest

from onceflow.errors import CheckpointStoreError, EpochFailedError
from tests.support.shop import Shop


@pytest.fixture
def shop(tmp_path):
    """A job with three orders."""
    shop = Shop(tmp_path)
    yield shop
    shop.close()


def working(shop, driver):
    """The job's epochs, in a thread of their own."""
    thread = threading.Thread(target=shop.work, args=(driver,))
    thread.start()
    return thread


def test_no_epoch_begins_while_the_job_is_held(shop):
    """It is planned and waits; released, it runs."""
    driver = shop.start()
    assert driver.hold(30)
    thread = working(shop, driver)
    assert driver.wait_outside(0)
    assert shop.written() == []
    driver.release()
    thread.join()
    assert shop.written() == shop.all_orders()


def test_an_epoch_in_work_is_recorded_first(shop):
    """Who holds meanwhile waits for its commit and for Spark's record of it."""
    driver, in_work, go_on = shop.start(), threading.Event(), threading.Event()

    def slow():
        in_work.set()
        assert go_on.wait(30)

    shop.meanwhile["commit"] = slow
    thread = working(shop, driver)
    assert in_work.wait(30)
    assert not driver.hold(0.2)  # in time it does not come to a boundary, and then it is not held
    go_on.set()
    assert driver.hold(30)
    assert (shop.folder / "commits" / "0").exists()
    driver.release()
    thread.join()


def test_what_is_decided_and_not_finished_is_not_held(shop):
    """An epoch that a start has found decided is finished first: a savepoint in between would write it again."""
    shop.dies_at("commit")
    driver = shop.start()
    thread = working(shop, driver)
    assert driver.hold(30)
    assert (shop.folder / "commits" / "0").exists()
    driver.release()
    thread.join()
    assert shop.written() == shop.all_orders()


def test_a_job_that_has_failed_or_ends_is_not_held(shop):
    """There is no boundary to wait for."""
    driver = shop.start()
    shop.row = lambda _: 1 / 0
    with pytest.raises(EpochFailedError):
        shop.work(driver)
    assert driver.failure is not None
    assert not driver.hold(30)
    shop.row = "order {}".format
    other = shop.start()
    other.stop.request(lambda: None)
    assert not other.hold(30)


def test_a_hold_that_fails_is_none(shop, monkeypatch):
    """The checkpoint's disk does not answer for a moment: who asked is told, and the job goes on."""
    driver = shop.start()

    def fails(_):
        raise CheckpointStoreError("the disk did not answer")

    with monkeypatch.context() as patched:
        patched.setattr(driver, "wait_outside", fails)
        with pytest.raises(CheckpointStoreError):
            driver.hold(30)
    thread = working(shop, driver)
    thread.join(30)
    assert shop.written() == shop.all_orders()
