"""The example of a sink of one's own, which the guide shows, keeps the contract."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from examples.own_sink import FileCommitter, FileSink

from examples import own_sink
from onceflow.errors import ConfigurationError
from onceflow.sinks import OpenShard
from onceflow.testing import World, conformance
from onceflow.testing.trial import Trial
from onceflow.twophase.messages import Outcome

EXAMPLES = Path(__file__).parents[3] / "examples"


class FileWorld(World):
    """A file of its own."""

    patience_s = 0.2

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "rows.db")

    def sink(self) -> FileSink:
        return FileSink(self.path)

    def second_sink(self) -> FileSink:
        return FileSink(self.path, "second")

    def rows(self, keys):
        return pa.RecordBatch.from_pydict({"key": list(keys)})

    def visible(self):
        with closing(sqlite3.connect(self.path, timeout=30)) as file:
            return [key for (key,) in file.execute("select key from shown")]

    def open_transactions(self, job_id):
        with closing(sqlite3.connect(self.path, timeout=30)) as file:
            query = "select count(*) from shards where job = ? and state = 'open'"
            return file.execute(query, [job_id]).fetchone()[0]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return FileWorld(tmp_path_factory.mktemp("own"))


@pytest.mark.parametrize("check", conformance.CHECKS, ids=str)
def test_the_example(check, world):
    """Each fact of the contract holds."""
    check(world)


class GuessingCommitter(FileCommitter):
    """Takes what is not there for aborted: a folder that is not mounted would have its rows written twice."""

    def state(self, handle):
        found = super().state(handle)
        return Outcome.ABORTED if found is Outcome.UNKNOWN else found


def test_what_is_not_there_is_not_aborted(tmp_path, monkeypatch):
    """The one guess that doubles rows is noticed, and told."""
    monkeypatch.setattr(own_sink, "FileCommitter", GuessingCommitter)
    check = next(each for each in conformance.CHECKS if each.name == "what_never_was_is_never_committed")
    with pytest.raises(conformance.Broken, match="`state` must answer UNKNOWN"):
        check(FileWorld(tmp_path))


def test_a_guarantee_that_is_none_passes_no_check(tmp_path, monkeypatch):
    """A sink that forgot to name one would have every check passed over."""
    monkeypatch.setattr(FileSink, "guarantee", None)
    report = conformance.run(FileWorld(tmp_path))
    assert not report.skipped
    assert all("must be one of onceflow.Guarantee" in str(broken) for broken in report.broken)


@pytest.mark.parametrize("name", ["own_sink.py", "own_store.py"])
def test_an_example_is_short(name):
    """A whole sink of one's own is at most sixty lines of code."""
    assert sum(bool(line.strip()) for line in (EXAMPLES / name).read_text().splitlines()) <= 60


WRONG = {
    "state": ("open", r"state gave str, and must give onceflow\.sinks\.Outcome"),
    "open_shards": ([("a", "file", 1, 0)], r"open_shards gave tuple, and must give onceflow\.sinks\.OpenShard"),
    "open_shards of texts": (
        [OpenShard("a", "file", "1", 0)],
        "str, and must give int as each shard's incarnation",
    ),
    "open_shards of nothing": (None, "open_shards gave None, and must give a list"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_a_committer_must_not_give(what, world, monkeypatch):
    """A committer of one's own is told in a sentence which of its methods gave what, and what it must give."""
    given, why = WRONG[what]
    monkeypatch.setattr(FileCommitter, what.split()[0], lambda *_: given)
    with Trial(world) as t:
        start = t.start()
        with pytest.raises(ConfigurationError, match=why) as told:
            start.committer.check(start.prepare(t.keys()), start.run(), 0.0)
    assert not told.value.retriable


@pytest.mark.parametrize(
    ("given", "why"),
    [({}, r'prepare gave dict, and must give \{"handle": ...\}'), ({"handle": 7}, "prepare gave dict")],
)
def test_what_a_writer_must_not_give(given, why, world):
    """Likewise what the writer has prepared."""
    with Trial(world) as t:
        start = t.start()
        with pytest.raises(ConfigurationError, match=why):
            start.seal([start.report(given, t.keys())])
        with pytest.raises(AssertionError, match="prepare gives str; it must give a dict"):
            start.report("a handle", t.keys())
