"""The same refusal of the same epoch at three starts in a row is one for a person; what passes passes for ever."""

import json

import pytest

from onceflow.checkpoint.refusals import Refusals
from onceflow.errors import (
    DatabaseUnavailableError,
    EpochFailedError,
    EpochRefusedError,
    FencedError,
    KafkaUnavailableError,
    OnceflowError,
    PreCommitError,
    RowRefusedError,
)
from onceflow.execution.patience import Patience
from onceflow.program import exit_code
from onceflow.storage.store import Store
from tests.support.advice import parts_of
from tests.support.shop import Shop

RANGE = 'v1\n{"batchTimestampMs":%d}\n{"orders": {"0": %d}}'


def refused(answer="sink s (57014)", kind=DatabaseUnavailableError):
    parts = {"harmless": "always", "cause": "a limit", "action": "raise it"}
    return kind("sink s broke off", **parts, refusal=answer)


@pytest.fixture
def start(tmp_path):
    """Of one job, again and again."""
    return lambda: Patience(Refusals(Store(tmp_path / "refused")))


def failed(start, *errors, epoch=4, end=9, planned=1):
    return [start().failed(error, epoch, RANGE % (planned, end)) for error in errors]


def codes(errors):
    return [exit_code(error) for error in errors]


def test_the_third_in_a_row_is_for_a_person(start):
    """And each one behind it; it says what was refused, since when, and what the first ones said to do."""
    told = failed(start, *[refused() for _ in range(5)])
    assert codes(told) == [75, 75, 1, 1, 1]
    error = parts_of(told[2], EpochRefusedError, "epoch 4 was refused at 3 starts", "sink s (57014)", "raise it")
    assert error.facts["epoch"] == 4
    assert "4 starts in a row" in told[3].what


def test_a_plan_made_anew_over_the_same_range_is_the_same(start):
    """Only its time is another one."""
    told = [failed(start, refused(), planned=n)[0] for n in range(3)]
    assert codes(told) == [75, 75, 1]


@pytest.mark.parametrize("between", [
    lambda start: failed(start, refused("sink s (53400)")),
    lambda start: failed(start, refused(kind=PreCommitError)),
    lambda start: failed(start, refused(), end=8),
    lambda start: failed(start, refused(), epoch=5),
    lambda start: failed(start, EpochFailedError("the plan failed")),
    lambda start: failed(start, KafkaUnavailableError("no broker answers")),
    lambda start: failed(start, RowRefusedError("a row")),
    lambda start: start().done(),
])  # fmt: skip
def test_anything_in_between_begins_anew(start, between):
    """Another answer, class, range or epoch, another failure, a success."""
    failed(start, refused(), refused())
    between(start)
    assert codes(failed(start, refused(), refused(), refused())) == [75, 75, 1]


def test_a_start_that_was_replaced_counts_nothing(start):
    """Its count is the newer one's."""
    failed(start, refused(), refused(), FencedError("a newer start"))
    assert codes(failed(start, refused())) == [1]


@pytest.mark.parametrize("error", [
    KafkaUnavailableError("no broker answers"),
    DatabaseUnavailableError("the database did not answer", refusal=""),
    PreCommitError("it is not proven"),
    EpochFailedError("the plan failed"),
])  # fmt: skip
def test_what_does_not_answer_passes_for_ever(start, error):
    """No count is kept of it."""
    assert set(codes(failed(start, *[error] * 20))) == {75}


@pytest.mark.parametrize("content", [b"", b"torn", json.dumps({"format": 1}).encode()])
def test_a_count_that_cannot_be_read_is_none(start, tmp_path, content):
    """It is for people; the job goes on."""
    failed(start, refused(), refused())
    (tmp_path / "refused" / "newest.json").write_bytes(content)
    assert codes(failed(start, refused(), refused(), refused())) == [75, 75, 1]


def test_a_count_that_cannot_be_kept_is_none(tmp_path):
    """The failure is told as it is."""
    (tmp_path / "refused").write_text("no folder")
    patience = Patience(Refusals(Store(tmp_path / "refused")))
    assert codes([patience.failed(refused(), 4, RANGE % (1, 9)) for _ in range(4)]) == [75] * 4
    patience.done()


@pytest.fixture
def shop(tmp_path):
    shop = Shop(tmp_path)
    yield shop
    shop.close()


def starts(shop, times, error):
    """So many starts, at each of which the sink's system says this of the epoch's check."""

    def say():
        raise error

    for _ in range(times):
        shop.meanwhile["check"] = say
        yield exit_code(ended) if isinstance(ended := shop.run(), OnceflowError) else 0


def test_a_job_ends_at_the_third_start_and_goes_on_when_the_cause_is_gone(shop):
    """Through the driver: the epoch is run as it is, and the count begins anew."""
    assert list(starts(shop, 4, refused())) == [75, 75, 1, 1]
    assert shop.written() == []
    assert shop.run() is None
    assert shop.written() == shop.all_orders()
    shop.orders.end += 2
    assert list(starts(shop, 3, refused())) == [75, 75, 1]


def test_a_job_whose_system_is_away_is_started_again_for_ever(shop):
    """Twenty starts, and no end of it."""
    assert list(starts(shop, 20, DatabaseUnavailableError("the database did not answer"))) == [75] * 20
    assert shop.run() is None
    assert shop.written() == shop.all_orders()
