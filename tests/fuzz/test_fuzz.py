"""The fuzzer can find: each planted fault within its number of executions, and nothing where none is planted.

Executions are counted, and inputs follow from a seed: no result hangs on time, but for a reader that goes on for ever.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.__main__ import LIBRARY, run
from tests.fuzz.blind import fuzz
from tests.fuzz.mutations import Mutator
from tests.fuzz.plants import PLANTS
from tests.fuzz.targets import TARGETS
from tests.fuzz.watch import LONGEST, Watch

SEED = 1


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.faults] if name == "hanging" else [])  # it waits for a time limit
        for name, plant in PLANTS.items()
        if not plant.is_guided
    ],
)
def test_a_planted_fault_is_found(name):
    """By mutations alone."""
    plant = PLANTS[name]
    with plant.planted():
        found = fuzz(plant.target, plant.within, SEED, until=plant.is_found)
    assert any(map(plant.is_found, found))


@pytest.mark.faults
@pytest.mark.skipif(not LIBRARY.exists(), reason="atheris is not there: make .fuzz/.ready")
@pytest.mark.parametrize("name", [name for name, plant in PLANTS.items() if plant.is_guided])
def test_a_fault_behind_several_steps_is_found_by_coverage(name):
    """One word behind another one: mutations alone come there by chance, who sees coverage goes there step by step."""
    plant = PLANTS[name]
    told = run(plant.target.name, 0, SEED, "--plant", name, executions=plant.within)
    assert [find for find in told["finds"] if find["kind"] == plant.kind and plant.says in find["what"]]
    assert fuzz(plant.target, 5_000, SEED) == []


@pytest.mark.parametrize("name", TARGETS)
def test_without_a_fault_nothing_is_found(name):
    """Each target on its seeds, and on a few inputs more."""
    assert fuzz(TARGETS[name], 40, SEED) == []


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_good(name):
    """A target whose seeds are refused would look at little: some are read to their end."""
    target, taken = TARGETS[name], 0
    for seed in target.seeds():
        taken += _is_taken(target, seed)
    assert taken


def _is_taken(target, seed):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        try:
            target.read(seed, Path(folder))
        except target.promised:
            return target.name == "messages"  # there an error is what is read
        return True


def test_inputs_follow_from_their_seed():
    """So a find is found again."""
    seeds = TARGETS["journal"].seeds()
    made = [Mutator(seeds, LONGEST).mutated(seeds[0], n) for n in range(300)]
    assert made == [Mutator(seeds, LONGEST).mutated(seeds[0], n) for n in range(300)]
    assert len(set(made)) > 200
    assert max(map(len, made)) <= LONGEST


CODE = compile("1", "x", "exec")


def _write(path):
    Path(path).write_text("x")


@pytest.mark.parametrize(
    ("what", "act"),
    [
        ("open", lambda folder: Path("/etc/passwd").read_bytes()),
        ("open", lambda folder: _write(folder.parent / "beside")),
        ("os.listdir", lambda folder: os.listdir("/etc")),  # noqa: PTH208 - its event
        ("os.remove", lambda folder: (folder.parent / "beside").unlink()),
        ("os.mkdir", lambda folder: (folder.parent / "made").mkdir()),
        ("os.rename", lambda folder: (_write(folder / "a"), (folder / "a").rename(folder.parent / "b"))),
        ("subprocess.Popen", lambda folder: subprocess.run(["true"], check=False)),
        ("os.system", lambda folder: os.system("true")),  # noqa: S605 - likewise
        ("socket.connect", lambda folder: socket.socket().connect(("127.0.0.1", 1))),
        ("socket.getaddrinfo", lambda folder: socket.create_connection(("localhost", 1))),
        ("exec", lambda folder: exec(CODE)),  # noqa: S102
        ("compile", lambda folder: eval("1")),  # noqa: S307
    ],
)
def test_what_a_reader_must_not_do_is_seen_and_not_done(what, act, tmp_path):
    """Also where the reader takes what comes of it for an error of its own."""
    (tmp_path / "beside").write_text("somebody's")

    def read(_, folder):
        try:
            act(folder)
        except Exception:
            return

    find = Watch("reader", read, (), tmp_path).find(b"")
    assert (find.kind, find.what.partition(":")[0]) == ("reach", what)
    assert (tmp_path / "beside").read_text() == "somebody's"
    assert sorted(path.name for path in tmp_path.iterdir()) in (["beside"], ["beside", "reader"])


def test_a_reader_may_do_in_its_folder_what_it_likes(tmp_path):
    """And may not through a link that leads out of it."""
    (tmp_path / "beside").write_text("somebody's")

    def read(data, folder):
        _write(folder / "a")
        (folder / "b").mkdir()
        (folder / "a").rename(folder / "b" / "c")
        if data:
            (folder / "d").symlink_to(tmp_path / "beside")
            (folder / "d").read_text()

    watch = Watch("reader", read, (), tmp_path)
    assert watch.find(b"") is None
    assert watch.find(b"link").kind == "reach"
    assert watch.find(b"") is None


def test_an_error_that_moves_a_terminal_is_found(tmp_path):
    """Who shows it would let the input's writer do so."""
    from onceflow.errors import ConfigurationError

    def read(data, folder):
        error = ConfigurationError("x")
        error.args = (data.decode(),)
        raise error

    watch = Watch("reader", read, (ConfigurationError,), tmp_path)
    assert watch.find(b"two\nlines") is None
    assert watch.find(b"\x1b[2J").kind == "text"


def test_a_find_is_told_and_kept_in_few_words():
    """The page of the results has no inputs: they may be large."""
    from tests.fuzz.watch import Find

    find = Find("t", "error", "KeyError: 'x'", "a.py:f:1", b"\xff")
    assert json.loads(json.dumps(find.told()))["data"] == "/w=="
    assert find.key == ("t", "error", "KeyError", "a.py:f:1")


def test_each_target_is_of_one_name():
    """Two of one name would be one."""
    from tests.fuzz import durable, kafka, talking, words

    assert len(TARGETS) == sum(len(each.TARGETS) for each in (durable, kafka, talking, words))
    assert sys.getrecursionlimit() == 1_000
