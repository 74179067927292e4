"""docs/offsets.md is true: each way to keep offsets loses or doubles what the page says, killed on a real broker."""

import re
from pathlib import Path

import pytest

from tests.examples.offsets import RECORDS, WAYS, Run

pytestmark = pytest.mark.kafka

PAGE = (Path(__file__).parents[3] / "docs" / "offsets.md").read_text()
SPARK = [pytest.mark.spark, pytest.mark.faults]
CASES = [pytest.param(way, id=way.name, marks=SPARK if way.name == "in a checkpoint" else []) for way in WAYS]


def none(way):
    """Whether the page has a 0 for a way's lost, and for its doubled."""
    (line,) = re.findall(rf"^\| {re.escape(way.name)} \|.*$", PAGE, re.MULTILINE)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert f"/{way.program})" in cells[1]
    assert cells[2] == f"{len(way.kills)} times"
    return [cell == "0" for cell in cells[3:]]


@pytest.mark.parametrize("way", CASES)
def test_what_a_way_loses_and_doubles_is_what_the_page_says(way, cluster, tmp_path):
    """Where the page has 0 there is none; where it has a number there is one, which differs from run to run."""
    counted = Run(way, cluster, tmp_path).count()
    assert [counted.lost == 0, counted.doubled == 0] == none(way)
    assert counted.lost < RECORDS
