"""The list of a start: the protocol's page says the same, and who only looks takes what he may."""

from pathlib import Path

import pytest

from onceflow.errors import ConfigurationError, KafkaUnavailableError, OnceflowError
from onceflow.launch import steps
from onceflow.launch.request import StartRequest
from onceflow.launch.starting import Starting
from onceflow.launch.steps import STEPS, Step, check, look
from onceflow.options.checkpointing import Checkpointing

PAGE = Path(__file__).parents[3] / "docs" / "protocol.md"


def never(*_):
    raise AssertionError("there is no Spark here")


def starting(folder):
    return Starting(StartRequest("test", Checkpointing(folder)), session=never, stream=never)


def on_the_page():
    """Of each step on the page: its name, and whether a start, ``check`` and ``doctor`` take it."""
    lines = PAGE.read_text().partition("## The start of a job\n")[2].partition("In detail:")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [(name, *(cell == "yes" for cell in told)) for name, _, *told in rows[1:]]


def needing_spark():
    """The steps that cannot be looked at without Spark."""
    found = {"session"}
    for step in STEPS:
        if found.intersection(step.needs):
            found.add(step.name)
    return found


def test_the_page_says_which_steps_there_are_in_their_order_and_who_takes_them():
    """Each line of the table in docs/protocol.md is a step, and each step a line."""
    without = needing_spark()
    told = [(s.name, True, s.look is not None, s.look is not None and s.name not in without) for s in STEPS]
    assert on_the_page() == told


def test_each_step_needs_what_comes_before_it_and_is_looked_at():
    """No look waits for one that comes later, or that nobody makes."""
    for number, step in enumerate(STEPS):
        assert set(step.needs) <= {before.name for before in STEPS[:number] if before.look is not None}


def refusing(error):
    def refuse(_):
        raise error

    return refuse


@pytest.fixture
def listed(monkeypatch):
    """Has other steps looked at: what each does, by its name, and what it needs."""

    def listing(**does):
        seen = []

        def step(name, error, *needs):
            def see(starting):
                seen.append(name)
                if error is not None:
                    raise error

            return Step(name, see, see, needs)

        monkeypatch.setattr(steps, "STEPS", [step(name, *told) for name, told in does.items()])
        return seen

    return listing


def test_a_look_goes_on_behind_what_is_refused_and_tells_all(tmp_path, listed):
    """What needs the refused step is left out, and what needs that; everything else is looked at."""
    one, other = ConfigurationError("one"), ConfigurationError("other")
    seen = listed(a=(one,), b=(None, "a"), c=(None, "b"), d=(other,))
    assert look(starting(tmp_path)) == [one, other]
    assert seen == ["a", "d"]
    with pytest.raises(OnceflowError, match="one") as caught:
        check(starting(tmp_path))
    assert [each.what for each in caught.value.others] == ["other"]


def test_a_look_ends_where_a_system_does_not_answer(tmp_path, listed):
    """It would be waited for once more."""
    silent = KafkaUnavailableError("no answer")
    seen = listed(a=(silent,), b=(None,))
    assert look(starting(tmp_path)) == [silent]
    assert seen == ["a"]


def test_what_is_left_out_takes_along_what_needs_it(tmp_path, listed):
    """``doctor`` leaves out Spark's session."""
    seen = listed(a=(None,), session=(None,), c=(None, "session"), d=(None, "c"))
    assert look(starting(tmp_path), without=("session",)) == []
    assert seen == ["a"]


def test_a_start_ends_at_the_first_step_that_refuses_and_closes_what_it_has_opened(tmp_path):
    """What comes behind is not begun."""
    closed, seen = [], []

    def opens(starting):
        starting.opened.callback(closed.append, "a connection")

    taken = [Step("a", opens), Step("b", refusing(ConfigurationError("no"))), Step("c", seen.append)]
    with pytest.raises(ConfigurationError, match="no"), starting(tmp_path) as begun:
        steps.start(begun, steps=taken)
    assert (closed, seen) == (["a connection"], [])


def test_what_is_opened_is_the_jobs_own_when_it_runs(tmp_path):
    """The start closes nothing of it."""
    closed, job = [], object()

    def opens(starting):
        starting.opened.callback(closed.append, "a connection")

    with starting(tmp_path) as begun:
        steps.start(begun, steps=[Step("a", opens), Step("b", lambda starting: starting.runs(job))])
        assert begun.running is job
    assert closed == []


@pytest.mark.parametrize(("mode", "told"), [(0o700, 0), (0o777, 1)])
def test_a_checkpoint_that_others_may_write_to_is_told_by_a_start_and_by_who_looks(tmp_path, caplog, mode, told):
    """Its positions say what is read; somebody may have made the folder before the job's first start."""
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint").chmod(mode)
    (step,) = (each for each in STEPS if each.name == "checkpoint")
    for take in (step.start, step.look):
        caplog.clear()
        take(starting(tmp_path / "checkpoint"))
        assert caplog.text.count("others may write to") == told
