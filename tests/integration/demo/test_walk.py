"""`onceflow walk --auto` on a real broker: what it shows at each step is so, and its page shows the same steps."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.faults]

PAGE = Path(__file__).parents[3] / "docs" / "walk.md"


def test_the_walk_shows_what_each_step_leaves():
    """Prepared: seen uncommitted only. Decided: still. Committed: by all. Killed and started: each count once."""
    told = subprocess.run(
        [sys.executable, "-m", "onceflow", "walk", "--auto", "--output", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=290,
    )
    assert told.returncode == 0, told.stdout + told.stderr
    walk = json.loads(told.stdout.splitlines()[-1])
    assert walk["verdict"] == "PASS"
    seen = {step["title"].partition(":")[0] + str(number): step["seen"] for number, step in enumerate(walk["steps"], 1)}
    prepared, decided, committed, recorded = seen["Prepare4"], seen["Decision5"], seen["Commit6"], seen["Checkpoint7"]
    both = "consonants=2, vowels=2"
    for step in (prepared, decided):
        assert (step["read_committed sees"], step["read_uncommitted sees"]) == ("nothing", both)
        assert int(step["open transactions"]) > 0
    assert "decide epoch 0" not in prepared["journal"]
    assert "decide epoch 0" in decided["journal"]
    assert (committed["read_committed sees"], committed["open transactions"]) == (both, "0")
    assert (committed["Spark's record"], recorded["Spark's record"]) == ("none", "commits/0")
    killed, recovered = seen["Kill9"], seen["Recovery11"]
    assert killed["read_committed sees"] == both
    assert int(killed["open transactions"]) > 0
    assert (recovered["open transactions"], recovered["Spark's record"]) == ("0", "commits/0")
    assert "consonants=6" in recovered["read_committed sees"]
    headings = re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)
    assert headings == [f"{number}. {step['title']}" for number, step in enumerate(walk["steps"], 1)]
