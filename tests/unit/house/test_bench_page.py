"""The page of figures: it invents none."""

import json

import pytest
from bench import page

HEAD = {
    "machine": {"cores": 2, "java": "17", "python": "3.11", "system": "Linux"},
    "versions": {},
    "seed": 1,
    "parts": {},
}


@pytest.fixture
def written(tmp_path, monkeypatch):
    """The page that is made of these results."""

    def make(results):
        (tmp_path / "latest.json").write_text(json.dumps(results))
        monkeypatch.setattr(page, "RESULTS", tmp_path / "latest.json")
        monkeypatch.setattr(page, "DOCS", tmp_path)
        assert page.main() == 0
        return (tmp_path / "benchmarks.md").read_text()

    return make


def test_a_part_that_was_not_measured_says_so(written):
    """Each section stands there, and no goal counts as met or missed."""
    text = written(HEAD)
    assert text.count("Not measured yet; `make bench") == len(page._SECTIONS)
    assert text.count("| not measured yet |") == len(page._GOALS) + 3
    assert "| yes |" not in text
    assert "**no**" not in text


def test_results_from_before_a_figure_was_taken_are_rendered(written):
    """A row lacks what was not measured in its time: the first epoch, processor time, other intervals."""
    old = {"participants": 4, "epochs": 6, "void": None, "whole_ms": 382.0, "whole_max_ms": 400.0}
    old |= {f"{phase}_ms": 5.0 for phase in ("prepare", "decide", "commit")}
    old |= {f"{phase}_max_ms": 7.0 for phase in ("prepare", "decide", "commit")}
    latency = {"system": "flink", "interval_ms": 200, "p50_ms": 1.0, "p90_ms": 2.0, "p99_ms": 3.0, "max_ms": 4.0}
    text = written(HEAD | {"participants": [old], "latency": [latency | {"title": "Flink"}]})
    assert "| 4 | 4 | 4 | 6 | not measured yet | 5 | 5 | 5 | 7 | 382 |" in text
    assert "| Flink | every 200 ms | 1 | 2 | 3 | 4 |" in text
    assert "| every 5,000 ms | not measured yet |" in text


def test_a_void_row_of_partitions_is_not_shown(written):
    """It has no figures."""
    void = {"partitions": 512, "filled": 512, "epochs": 0, "title": "512", "void": "too few epochs"}
    text = written(HEAD | {"participants": [void]})
    assert "| 512 | 512 |" not in text
