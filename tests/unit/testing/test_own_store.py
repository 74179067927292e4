"""The example of a sink to a store without transactions keeps what its guarantee promises."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from examples.own_store import StoreSink

from examples import own_store
from onceflow.testing import World, conformance
from tests.support.broken_stores import BREAKS


class StoreWorld(World):
    """A file of its own."""

    patience_s = 0.2

    def __init__(self, folder: Path, put: str = own_store.PUT) -> None:
        self.path, self.put = str(folder / "pairs.db"), put

    def sink(self) -> StoreSink:
        own_store.PUT = self.put  # also in another process
        return StoreSink(self.path, "id")

    def rows(self, keys):
        return self.rows_saying(keys, "")

    def rows_saying(self, keys, word):
        values = [json.dumps({"word": word})] * len(keys)
        return pa.RecordBatch.from_pydict({"key": list(keys), "value": values})

    def visible(self):
        return [key for key, _ in self._pairs()]

    def says(self):
        return {key: json.loads(value)["word"] for key, value in self._pairs()}

    def _pairs(self):
        with closing(sqlite3.connect(self.path, timeout=30)) as file:
            return file.execute("select key, value from pairs").fetchall()


def test_the_example(tmp_path):
    """Each fact that can be asked of such a sink holds; the rest is skipped, since it takes no part in the decision."""
    report = conformance.run(StoreWorld(tmp_path))
    assert report.broken == ()
    asked = {check.name for check in conformance.CHECKS} - {skipped.name for skipped in report.skipped}
    assert asked == {
        "a_writer_factory_pickles",
        "a_plain_prepare_has_written_all",
        "a_row_written_again_is_there_once",
        "a_newer_row_replaces_the_one_of_its_key",
        "a_late_row_replaces_nothing",
        "of_two_at_once_the_newer_stays",
    }


KEYLESS = "create table if not exists pairs (key text, value text, start int, epoch int)"


@pytest.mark.parametrize(("check", "put"), BREAKS.items(), ids=BREAKS)
def test_a_store_that_puts_otherwise_is_caught(tmp_path, monkeypatch, check, put):
    """A put that adds, one that takes whatever comes last, and one that takes what came first, are found out."""
    monkeypatch.setattr("examples.own_store.PUT", own_store.PUT)  # put back at the end
    if put.startswith("insert into"):
        monkeypatch.setattr("examples.own_store.PAIRS", KEYLESS)
    (its_own,) = (each for each in conformance.CHECKS if each.name == check)
    with pytest.raises(conformance.Broken, match=check):
        its_own(StoreWorld(tmp_path, put))
