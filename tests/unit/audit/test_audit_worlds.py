"""Honest histories of a job, drawn, and what somebody does to one of them: no tampering is ever good.

A history has starts that die before or behind a receipt, a driver that is replaced and writes late, lines that a power
cut tears, and anchors; its rows are in a table of SQLite. The tamperer does not have the keys, or has all of them and
cannot change what is anchored.

Must not know: how the audit finds anything.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from onceflow.audit.anchors import InFile
from onceflow.audit.verify import Asked, audit
from onceflow.checkpoint.forward_key import ForwardKey
from onceflow.checkpoint.journal import Journal
from onceflow.checkpoint.trail import Trail, seal
from onceflow.execution.anchoring import Anchoring, place_for
from onceflow.options.auditing import Auditing
from onceflow.storage.store import Store
from onceflow.testing.trial import Start
from onceflow.twophase.layout import Layout
from onceflow.twophase.messages import Appended, Reply
from onceflow.twophase.records import Decide, LayoutRecord
from tests.support.audited_table import FIELDS, JOB, Payments, signed
from tests.support.keyed_rows import KEY, kept, of_rows
from tests.support.xx64 import xx64

FIRST = {"format": 1, "number": 1, "key": "ab" * 32}
ABOUT = json.dumps({"name": "bank", "sinks": {"payments": {"destination": "p", "columns": [], "fields": FIELDS}}})


class Driver:
    """A start of the job, on whatever is there."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.journal = Journal(Store(world.folder / "onceflow" / "journal"))
        self.incarnation = self.journal.start(JOB).incarnation
        forward = ForwardKey.read(world.forward)
        trail = Trail(Store(world.folder / "onceflow" / "audit"), key=KEY, forward=forward, begins=lambda _: "{}")
        self.journal.audited(trail, ABOUT)
        assert self.journal.append(LayoutRecord(self.incarnation, Layout())) == Appended()
        told = Auditing.from_environment({"ONCEFLOW_AUDIT_ANCHOR": str(world.anchors)})
        self.anchoring = Anchoring(self.journal, place_for(told, []), "bank")
        self.journal.keep_receipts()
        self.anchoring.begin()

    def epoch(self, number: int, keys: list[str]) -> None:
        """Decided and committed; its receipt is not there yet."""
        held = [_with_digest(p, keys) for p in self.world.start.prepare(keys, epoch=number)]
        offsets = f'v1\n{{}}\n{{"in":{{"0":{number}}}}}'
        assert self.journal.append(Decide(self.incarnation, number, offsets, ("payments",), tuple(held))) == Appended()
        assert set(self.world.start.committer.commit(held).values()) == {Reply.COMMITTED}


def _with_digest(participant, keys):
    told = [[key.encode(), b"%d" % signed(xx64(len(key).to_bytes(4, "little"), 42))] for key in keys]
    (part,) = participant.parts
    return replace(participant, parts=(replace(part, keyed=kept(KEY, JOB, of_rows(KEY, JOB, told))),))


class World:
    """Where all of it is: a checkpoint, a database, the place of the anchors, and the forward key."""

    def __init__(self, top: Path) -> None:
        self.top, self.folder = top, top / "checkpoint"
        self.database, self.anchors, self.forward = top / "bank.db", top / "anchors", top / "forward"
        self.forward.write_text(json.dumps(FIRST))
        Store(self.folder / "onceflow" / "journal").make()
        self.start = Start(Payments(f"sqlite:///{self.database}"), JOB)

    @property
    def trail(self) -> list[Path]:
        """The files of receipts, in order."""
        return sorted((self.folder / "onceflow" / "audit").iterdir())

    def bodies(self) -> list[dict]:
        """The receipts that count, in order: the last one of each number."""
        found = {}
        for file in self.trail:
            for line in file.read_text().splitlines():
                if line.startswith("{") and line.endswith("}"):
                    found[json.loads(line)["number"]] = json.loads(line)
        return [found[number] for number in sorted(found)]

    def write(self, bodies: list[dict], *, key=KEY, forward=None) -> None:
        """A trail of these receipts alone, each naming the one before, with their hashes, signatures and seals."""
        for file in self.trail:
            file.unlink()
        before, lines = "", []
        for body in bodies:
            told = {name: value for name, value in body.items() if name not in ("hash", "signature", "seal")}
            lines.append(seal(told | {"before": before}, key, forward))
            before = json.loads(lines[-1])["hash"]
        (self.folder / "onceflow" / "audit" / "0000000001-00000000-000001.jsonl").write_text("\n".join([*lines, ""]))

    def forget(self) -> None:
        """The journal, as one who can write to the checkpoint leaves it."""
        for path in (self.folder / "onceflow" / "journal").glob("*.json"):
            path.unlink()

    def does(self, *statements: str) -> int:
        """In the database, by hand; how many rows were touched."""
        with sqlite3.connect(self.database) as connection:
            return sum(connection.execute(each).rowcount for each in statements)

    def audit(self, **asked):
        sink = {"name": "payments", "kind": "database", "url": f"sqlite:///{self.database}", "schema": None}
        sink |= {"table": "payments", "table_schema": None, "key": []}
        asked = {"key": KEY, "anchors": InFile(self.anchors), "job": "bank", "retention": timedelta(days=7)} | asked
        return audit(Asked(self.folder, [sink], forward=(1, bytes.fromhex(FIRST["key"])), **asked)).report(shared=False)


EXAMPLES = 10
"""Of each test, in `make test`; 150 of each have been run."""
PHASES = [Phase.generate]  # to shrink one takes minutes; a failing test says what was drawn

KEYS = st.lists(st.text("abcdé", max_size=3), min_size=1, max_size=3)
EVENTS = st.sampled_from(["epoch", "epoch", "epoch", "no receipt", "die", "late", "torn", "anchor", "power"])


@contextmanager
def history(data, *, anchored: bool = False):
    """A world in which a job has run.

    Args:
        data: Hypothesis's.
        anchored: Its newest receipt has its anchor at the end.
    """
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        driver, number = Driver(world), 0
        late: list[Driver] = []
        for event in ["epoch", *data.draw(st.lists(EVENTS, max_size=8)), "epoch"]:
            if event in ("epoch", "no receipt"):
                driver.epoch(number, data.draw(KEYS))
                number += 1
                if event == "epoch":
                    driver.journal.keep_receipts()
            elif event == "anchor":
                driver.anchoring.go_on()
            else:
                if event == "torn" and world.trail:
                    with world.trail[-1].open("a") as file:
                        file.write('{"format":1,"num')
                if event == "power" and world.trail and not driver_is_synced(world):
                    lose_the_end(world)
                if event == "late":
                    late.append(driver)
                driver = Driver(world)
                for old in late:
                    old.journal.keep_receipts()
                    old.anchoring.go_on()
        if anchored:
            driver.anchoring.go_on()
        world.start.close()
        yield world


def driver_is_synced(world: World) -> bool:
    """Whether the newest line of the trail has its anchor: it was synced before that."""
    newest = json.loads(world.trail[-1].read_text().splitlines()[-1])["hash"] if whole_end(world) else ""
    return newest in world.anchors.read_text() if world.anchors.exists() else False


def whole_end(world: World) -> bool:
    return world.trail[-1].read_text().endswith("}\n")


def lose_the_end(world: World) -> None:
    """A power cut takes the last line, which was not synced; the journal has its records still."""
    lines = world.trail[-1].read_text().splitlines(keepends=True)
    world.trail[-1].write_text("".join(lines[:-1]))


def worlds(test):
    """A test over drawn worlds."""
    quiet = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)
    return quiet(given(data=st.data())(test))


@worlds
def test_an_honest_history_is_good(data):
    """Whoever died, was replaced or wrote late, whatever was torn: no difference, and the key proves each row."""
    with history(data) as world:
        report = world.audit()
        said = (each["what"] for each in report["findings"])
        told = [each for each in said if " is torn: " not in each and not each.startswith("no anchor at ")]
        assert (report["good"], told) == (True, [])
        assert report["keyed"] == report["rows"] > 0


# -- what somebody does ---------------------------------------------------------------------------


def harms(data, world: World, bodies: list[dict]) -> str:
    """Rows are not those that were decided any more; perhaps with what the ledger says of them."""
    epochs = {body["epoch"]: body["participants"][0]["rows"] for body in bodies}
    epoch = data.draw(st.sampled_from(sorted(epochs)))
    table, ledger = "rowid in (select rowid from payments limit 1)", f"epoch = {epoch}"
    kind = data.draw(
        st.sampled_from(
            ["edited", "deleted", "doubled", "added", "emptied", "an epoch", "an epoch more", "in the ledger"]
        )
    )
    match kind:
        case "edited":
            done = world.does(f"update payments set amount = amount + 1 where {table}")
        case "deleted":
            done = world.does(f"delete from payments where {table}")
        case "doubled":
            done = world.does(f"insert into payments select * from payments where {table}")
        case "added":
            done = world.does("insert into payments values ('thief', 5)")
        case "emptied":
            done = world.does("delete from payments", "delete from onceflow_ledger")
        case "an epoch":  # whose rows they are, only the order in which they came tells
            first = sum(rows for other, rows in epochs.items() if other < epoch)
            which = f"select rowid from payments order by rowid limit {epochs[epoch]} offset {first}"
            done = world.does(f"delete from payments where rowid in ({which})")
            done += world.does(f"delete from onceflow_ledger where {ledger}")
        case "an epoch more":
            entry = f"('{JOB}', 'payments', {max(epochs) + 1}, 1, 'made up', 1, 5)"
            done = world.does("insert into payments values ('thief', 5)", f"insert into onceflow_ledger values {entry}")
        case _:
            done = world.does(f"update onceflow_ledger set rows = rows + 1 where {ledger}")
    assert done > 0
    return kind


def lines_of(world: World) -> list[tuple[Path, int]]:
    """Each line of the trail."""
    return [(file, n) for file in world.trail for n in range(len(file.read_bytes().splitlines()))]


def covers_up(data, world: World) -> str:
    """Something is done to the checkpoint's files, by one who has no key."""
    lines = lines_of(world)
    if not lines:
        return "nothing left"
    file, at = data.draw(st.sampled_from(lines))
    held = file.read_bytes().splitlines(keepends=True)
    kind = data.draw(
        st.sampled_from(
            [
                "a byte",
                "a value",
                "line gone",
                "cut",
                "swapped",
                "copied later",
                "file gone",
                "journal",
                "a record",
                "format",
            ]
        )
    )
    match kind:
        case "a byte":
            whole = bytearray(file.read_bytes())
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
            file.write_bytes(bytes(whole))
        case "a value" | "format":
            with_hash = changed(data, held[at], kind)
            file.write_bytes(b"".join([*held[:at], with_hash, *held[at + 1 :]]))
        case "line gone":
            file.write_bytes(b"".join([*held[:at], *held[at + 1 :]]))
        case "cut":
            file.write_bytes(b"".join(held[:at]))
        case "swapped":
            other = data.draw(st.integers(0, len(held) - 1))
            held[at], held[other] = held[other], held[at]
            file.write_bytes(b"".join(held))
        case "copied later":
            count = data.draw(st.integers(1, 3))
            file.with_name(f"0000000099-{data.draw(st.sampled_from('ab'))}-000001.jsonl").write_bytes(
                b"".join(held[at : at + count])
            )
        case "file gone":
            file.unlink()
        case "journal":
            world.forget()
        case _:
            records = sorted((world.folder / "onceflow" / "journal").glob("*.json"))
            if records:
                data.draw(st.sampled_from(records)).unlink()
    return kind


def changed(data, line: bytes, kind: str) -> bytes:
    """A receipt with another value somewhere, hashed anew; what it was where it is none."""
    try:
        body = json.loads(line)
    except ValueError:
        return line
    if kind == "format":
        body["format"] = 2
    else:
        name = data.draw(st.sampled_from(sorted(body)))
        after = body["number"] + 1 if isinstance(body["number"], int) else 2  # likewise
        body[name] = data.draw(st.sampled_from([None, 0, 1, "", "0" * 64, [], {}, after, body["before"]]))
        if data.draw(st.booleans()):
            body["choices"] = [choice(body)]
    return seal(body, None).encode() + b"\n"


def choice(body: dict) -> dict:
    # An earlier change of the same receipt may have spoiled them.
    held = body["participants"] if isinstance(body["participants"], list) else []
    named = [[p["sink"], p["handle"]] for p in held if isinstance(p, dict) and {"sink", "handle"} <= p.keys()]
    return {"choice": "give-up-rows", "participants": named, "who": "ops", "why": "x", "epoch": body["epoch"]}


@worlds
def test_rows_that_are_not_those_that_were_decided_are_never_good(data):
    """Whatever else he does who has no key: to receipts, to the journal, and to what the ledger says."""
    with history(data, anchored=True) as world:
        before = world.audit()
        done = [harms(data, world, world.bodies())]
        done += [covers_up(data, world) for _ in range(data.draw(st.integers(0, 3)))]
        for asked in ({}, {"anchors": None, "after": noted(before)}):
            report = world.audit(**asked)
            assert not report["good"], (done, asked, report["findings"])


def noted(report) -> tuple[int, str]:
    """What an auditor keeps of an audit."""
    number, _, hashed = report["head"].partition(":")
    return int(number), hashed


@worlds
def test_what_is_done_to_the_checkpoint_alone_is_told_or_changes_nothing(data):
    """Receipts that count are the same ones, or it is said."""
    with history(data, anchored=True) as world:
        before = world.audit()
        done = [covers_up(data, world) for _ in range(data.draw(st.integers(1, 3)))]
        report = world.audit()
        same = [report[name] == before[name] for name in ("epochs", "rows", "keyed", "head", "anchored")]
        assert not report["good"] or all(same), (done, report["findings"])


@worlds
def test_who_has_all_keys_writes_nothing_anew_that_is_anchored_or_sealed(data):
    """He has the job's login, and so what it signs and seals with from now on; its anchors he can only add to."""
    with history(data, anchored=True) as world:
        bodies = world.bodies()
        kept_ones = data.draw(st.integers(0, len(bodies) - 1))
        gone, rest = bodies[kept_ones], bodies[kept_ones + 1 :]
        first = sum(body["participants"][0]["rows"] for body in bodies[:kept_ones])
        which = f"select rowid from payments order by rowid limit {gone['participants'][0]['rows']} offset {first}"
        world.does(
            f"delete from payments where rowid in ({which})",
            f"delete from onceflow_ledger where epoch = {gone['epoch']}",
        )
        numbers = data.draw(st.sampled_from(["as they were", "counted anew"]))
        if numbers == "counted anew":
            rest = [body | {"number": body["number"] - 1} for body in rest]
        if data.draw(st.booleans()):
            rest = []
        job, anchors_again = data.draw(st.sampled_from([(JOB, False), (JOB, True), ("c" * 12, False)]))
        told = [{**body, "job": job} for body in [*bodies[:kept_ones], *rest]]
        for body in told:  # a table is compared with what the newest one tells of all
            body["sinks"]["payments"].pop("total", None)
        world.forget()
        forward = ForwardKey.read(world.forward) if data.draw(st.booleans()) else None
        world.write(told, forward=forward)
        if anchors_again and told:
            line = Trail(Store(world.folder / "onceflow" / "audit"), key=KEY).anchor()
            world.anchors.write_text(world.anchors.read_text() + line + "\n")
        anchored = world.audit()
        assert not anchored["good"], (numbers, job, anchored["findings"])
        sealed = world.audit(anchors=None)  # an end that was cut off no seal tells of
        assert not sealed["good"] or not rest, (numbers, job, sealed["findings"])
