"""The examples' inputs and pages: what a run of them rests on."""

import json
import random
from pathlib import Path

import pytest

from tests.examples import expected, inputs, page
from tests.examples.stateful import CASES, found_in

ROOT = Path(__file__).parents[3]


def values(case, seed=1):
    made = case.make(800, random.Random(seed))
    return {topic: [json.loads(json.dumps(r.value)) for r in records] for topic, records in made.items()}


@pytest.mark.parametrize("name", CASES)
def test_an_input_gives_every_output_something(name):
    """No output is expected to be empty; the same seed gives the same, and another one something else."""
    case = CASES[name]
    read = values(case)
    assert all(output.expected(read).total() > 5 for output in case.outputs.values())
    assert read == values(case)
    assert read != values(case, seed=2)


@pytest.mark.parametrize("name", CASES)
def test_an_example_has_at_most_sixty_lines(name):
    """One screen."""
    assert len((ROOT / "examples" / f"{name}.py").read_text().splitlines()) <= 60


def test_what_comes_late_stands_in_the_last_quarter():
    """By then every epoch but the last has moved the watermark by hours."""
    (records,) = inputs.sales(1_000, random.Random(1)).values()
    late = [number for number, record in enumerate(records) if "late" in record.value]
    assert len(late) == 20
    assert min(late) >= len(records) * 0.7


def test_the_recomputation_notices_a_sale_more():
    """A verifier that cannot fail proves nothing."""
    sale = {"category": "a", "amount": 1, "sold_at": "2026-01-01T00:10:00.000Z"}
    one, two = (expected.by_window([sale] * n, "category", "sold_at", expected.HOUR) for n in (1, 2))
    assert one != two
    assert [row[2] for row in two] == [2]


def test_the_page_of_deaths_is_generated_from_its_run():
    """docs/faults-state.md is what `python -m tests.examples.page` writes."""
    assert page.PAGE.read_text() == page.page(json.loads(page.RESULTS.read_text()))


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("", "nothing undone"),
        ("sink a: aborting 3 transactions that older", "3 transactions aborted, the epoch run again"),
        (
            "epoch 1 is decided and not done: it is committed\nepoch 1 is committed: its plan runs once more",
            "committed; the plan ran once more for its state",
        ),
        ("epoch 1 is decided and not done: it is committed", "decided: committed by the start"),
        (
            "epoch 1 is decided and not done\na decided transaction is proven lost: its records",
            "expired: written again",
        ),
    ],
)
def test_what_a_start_found_is_told_by_its_log(log, words):
    """The most that it says: a roll forward before what led to it."""
    assert found_in(log) == words


def test_the_page_tells_what_each_death_left():
    """A cell for each point; the second D7 has a column of its own, and a point that was not reached a dash."""
    rebuilt = "committed; the plan ran once more for its state"
    starts = [
        {"point": "D1@1", "died": True, "found": "nothing undone"},
        {"point": "D5@1", "died": False, "found": "nothing undone"},
        {"point": "D7@1", "died": True, "found": "nothing undone"},
        {"point": "D7@1", "died": True, "found": rebuilt},
        {"point": "", "died": False, "found": rebuilt},
    ]
    run = dict.fromkeys(("records", "rows", "lost", "wrong", "left", "seed"), 0)
    run |= {"starts": starts, "date": "", "verdict": "PASS"}
    machine = {"cores": 2, "system": "", "python": "", "java": ""}
    told = page.page({"runs": {"sessions": {"second epoch": run}}, "machine": machine, "versions": {}})
    assert "| sessions | second epoch | free |  |  |  | - |  |  | rebuilt | rebuilt |  |\n" in told
