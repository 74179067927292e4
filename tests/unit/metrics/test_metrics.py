"""A job's figures and health: what is counted, what is exposed under which names, and when a job is ready."""

import contextlib
import json
import logging
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from onceflow.checkpoint.statistics import EpochStatistics
from onceflow.control.standing import JobStatus
from onceflow.errors import ConfigurationError, SetupError
from onceflow.metrics import endpoint
from onceflow.metrics.catalogue import BUCKETS, METRICS, OTHER, RESULTS
from onceflow.metrics.endpoint import Endpoint
from onceflow.metrics.figures import Durations, Figures
from onceflow.options.checkpointing import Checkpointing
from onceflow.options.job_options import JobOptions, MetricsAddress
from onceflow.options.restarting import NoRestart
from onceflow.twophase.messages import (
    Aborted,
    AbortOwn,
    Append,
    Appended,
    AppendStart,
    AskOutcomes,
    Commit,
    Evidence,
    Outcome,
    Outcomes,
    Ran,
    Replies,
    Reply,
    RunPlan,
    Seal,
    Sealed,
    Started,
    Sweep,
    Unanswered,
)
from onceflow.twophase.participants import Part, Participant
from onceflow.twophase.records import History, Replay
from tests.support.harness import wait_until

ROOT = Path(__file__).parents[3]
FILES = {
    "board": ROOT / "packaging" / "grafana" / "onceflow.json",
    "rules": ROOT / "packaging" / "prometheus" / "onceflow.rules.yml",
}
A, B, C = (Participant("out", name, (Part("out", 0, 1, 7),), {}) for name in "abc")
DONE = EpochStatistics(
    7, 2, "COMPLETED", "2026-01-01T10:00:00.000Z", 250, {"prepare": 200.0, "commit": 20.0}, {"topic t": 5}, {"out": 4},
    2, 30, 4096, "2026-01-01T09:59:00.000Z", 9,
)  # fmt: skip


class Clock:
    """Moved by hand."""

    def __init__(self):
        self.at = 1_000.0

    def __call__(self):
        return self.at


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def standing():
    return JobStatus("orders", "file:/checkpoint", "RUNNING")


@pytest.fixture
def figures(standing, clock):
    return Figures(standing, 1.0, clock, clock)


def told(figures):
    """Series by name and labels."""
    return {(name.removeprefix("onceflow_"), *labels): value for name, labels, value in figures.samples()}


def results(figures):
    found = told(figures)
    return {each: found["participants_total", each] for each in RESULTS if found["participants_total", each]}


# ---- what is counted ----


def test_late_rows_add_up_by_operator(figures):
    """Over all epochs."""
    for rows in (12, 3):
        figures.recorded(replace(DONE, late={"join": rows}), None)
    assert told(figures)["late_rows_total", "join"] == 15


def test_an_epoch_is_in_the_figures(figures, clock):
    """Its number, when, how long, how much, the state, the watermark, and the lag of each partition."""
    figures.recorded(DONE, {("t", "0"): 4, ("t", "1"): 5})
    clock.at = 1_767_261_600.0  # 2026-01-01T10:00:00Z
    found = told(figures)
    assert found["checkpoints_completed_total",] == 1
    assert (found["last_checkpoint_epoch",], found["last_checkpoint_timestamp_seconds",]) == (7, 1_000.0)
    assert (found["records_in_total", "topic t"], found["records_out_total", "out"]) == (5, 4)
    assert (found["state_rows",], found["state_bytes",], found["watermark_delay_seconds",]) == (30, 4096, 60.0)
    assert (found["source_lag_records", "t", "0"], found["source_lag_records", "t", "1"]) == (4, 5)
    assert found["checkpoint_duration_seconds",].total == 0.25
    assert found["checkpoint_phase_duration_seconds", "prepare"].total == 0.2
    assert sum(found["checkpoint_phase_duration_seconds", "commit"].counts) == 1


def test_nothing_to_read_is_no_lag_and_a_lag_that_was_not_looked_up_is_none(figures):
    """Of an epoch that an earlier start has planned the one before stays; a partition that is gone has none."""
    figures.recorded(DONE, {("t", "0"): 4, ("gone", "0"): 5})
    figures.recorded(DONE, {("t", "0"): 3})
    figures.recorded(DONE, None)
    assert {key: value for key, value in told(figures).items() if key[0] == "source_lag_records"} == {
        ("source_lag_records", "t", "0"): 3
    }
    figures.idle()
    assert told(figures)["source_lag_records", "t", "0"] == 0


def test_a_watermark_before_any_event_is_none(figures):
    """Spark tells it as 1970."""
    figures.recorded(EpochStatistics(0, 1, "COMPLETED", "", watermark="1970-01-01T00:00:00.000Z"), None)
    assert ("watermark_delay_seconds",) not in told(figures)


@pytest.mark.parametrize(("failure", "label"), [
    ("FencedError", "FencedError"), ("Py4JJavaError", OTHER), ("Any", OTHER), ("annotations", OTHER), ("", OTHER),
])  # fmt: skip
def test_errors_of_failures_are_a_bounded_number(figures, failure, label):
    """The classes of onceflow's errors, and one more for all others."""
    figures.failed(EpochStatistics(7, 2, "FAILED", "", failure=failure, reason="expired"))
    assert told(figures)["checkpoints_failed_total", "expired", label] == 1


@pytest.mark.parametrize(("reason", "label"), [
    ("declined", "declined"), ("timed out", "timed_out"), ("expired", "expired"), ("", "declined"), ("new", "declined"),
])  # fmt: skip
def test_reasons_of_failures_are_three(figures, reason, label):
    """Those of the checkpoint's history; an entry of another version's may have none."""
    figures.failed(EpochStatistics(7, 2, "FAILED", "", reason=reason))
    assert told(figures)["checkpoints_failed_total", label, OTHER] == 1


def test_participants_are_counted_by_what_became_of_them(figures):
    """Committed, sent again, refused; found committed, once however often it is asked; written again; aborted."""
    asked = AskOutcomes((A, B))
    found = Outcomes({A.id: Evidence(Outcome.COMMITTED, ""), B.id: Evidence(Outcome.UNKNOWN, "")})
    figures.performed(asked, found)
    figures.performed(asked, found)
    figures.performed(Append(Replay(2, 7, 1, "parts", (B,))), Unanswered("?"))
    figures.performed(Append(Replay(2, 7, 1, "parts", (B,))), Appended())
    figures.performed(RunPlan(8), Ran((), (), 0, ()))
    figures.performed(Commit((A, B, C)), Replies({A.id: Reply.COMMITTED, B.id: Reply.RETRY, C.id: Reply.SUSPECT}))
    figures.performed(Commit((B, C), 1), Replies({B.id: Reply.COMMITTED, C.id: Reply.REFUSED}))
    figures.performed(AskOutcomes((C,)), Outcomes({C.id: Evidence(Outcome.COMMITTED, "")}))
    figures.performed(AbortOwn(9, (A, B)), Aborted())
    figures.performed(Sweep({"out": (C,)}), Aborted())
    assert results(figures) == {
        "committed": 2, "retried": 1, "refused": 1, "already_committed": 2, "replayed": 1, "aborted": 3,
    }  # fmt: skip


def test_what_is_prepared_is_open_until_it_is_committed_or_aborted(figures, clock):
    """And as old as its epoch, at most; the epoch's age is told as a part of the time-out."""

    def now():
        found = told(figures)
        return [found[name,] for name in ("transactions_open", "oldest_open_transaction_seconds", "epoch_age_ratio")]

    figures.began(7, 60.0)
    clock.at += 30
    assert now() == [0, 0, 0.5]
    figures.performed(Seal(()), Sealed((A, B)))
    assert now() == [2, 30, 0.5]
    figures.performed(Commit((A, B)), Replies({A.id: Reply.COMMITTED, B.id: Reply.RETRY}))
    assert now() == [1, 30, 0.5]
    figures.performed(AskOutcomes((B,)), Outcomes({B.id: Evidence(Outcome.COMMITTED, "")}))
    assert now() == [0, 0, 0.5]
    figures.performed(Seal(()), Sealed((A, B)))
    figures.ended()
    assert now() == [0, 0, 0]


def test_what_a_start_finishes_is_open_from_its_first_commit_on(figures, clock):
    """No epoch is in work then; how old the transaction itself is only its broker knows."""
    figures.performed(Commit((A,)), Replies({A.id: Reply.RETRY}))
    clock.at += 5
    figures.performed(Commit((A,), 1), Replies({A.id: Reply.RETRY}))
    found = told(figures)
    assert (found["transactions_open",], found["oldest_open_transaction_seconds",]) == (1, 5)
    figures.performed(Commit((A,), 2), Replies({A.id: Reply.COMMITTED}))
    assert told(figures)["oldest_open_transaction_seconds",] == 0


def test_without_a_time_out_there_is_no_part_of_it(figures):
    """A plain sink's epochs expire never."""
    figures.began(7, float("inf"))
    assert ("epoch_age_ratio",) not in told(figures)


def test_failures_of_publishing_and_restarts_are_counted(figures, standing):
    """The first by what progress tells, the second by how the job stands."""
    figures.published(taken=True)
    figures.published(taken=False)
    standing.failed("a broker fell silent")
    found = told(figures)
    assert (found["offset_publishing_failures_total",], found["restarts_total",]) == (1, 1)
    assert (found["job_state", "RESTARTING"], found["job_state", "RUNNING"]) == (1, 0)


# ---- ready ----


def test_a_job_is_ready_while_epochs_succeed_or_there_is_nothing_to_read(figures, standing, clock):
    """From its first one on, and not behind a failure or a start until the next one."""
    (reason,) = figures.not_ready()
    assert "no epoch has succeeded" in reason
    for succeeds in (lambda: figures.recorded(DONE, None), figures.idle):
        succeeds()
        assert figures.not_ready() == []
        assert told(figures)["ready",] == 1
        figures.failed(EpochStatistics(8, 2, "FAILED", ""))
        assert figures.not_ready() == [reason]
        succeeds()
        figures.performed(AppendStart(), Started(History(), None))
        assert figures.not_ready() == [reason]
    assert told(figures)["ready",] == 0


def test_a_job_that_does_not_run_says_what_it_does(figures, standing):
    """And not what the newest failure said, which may quote a row: anybody may ask."""
    figures.idle()
    standing.failed("ValueError: no number: 'IBAN DE00 CUSTOMER'")
    (why,) = figures.not_ready()
    assert why.startswith("the job is RESTARTING; its log")
    assert "CUSTOMER" not in why


@pytest.mark.parametrize(("expires", "age", "ready"), [(100.0, 79, True), (100.0, 81, False), (float("inf"), 599, True),
                                                       (float("inf"), 601, False)])  # fmt: skip
def test_an_epoch_that_takes_too_long_is_not_ready(figures, clock, expires, age, ready):
    """From 0.8 of the time-out on it cannot be decided; where nothing expires it is ten minutes."""
    figures.recorded(DONE, None)
    figures.began(8, expires)
    clock.at += age
    assert (figures.not_ready() == []) is ready
    figures.ended()
    figures.recorded(DONE, None)
    assert figures.not_ready() == []


def test_a_query_that_is_silent_is_not_ready(figures, clock):
    """Neither an epoch nor that there is none, for a minute and the interval: it waits for something."""
    figures.idle()
    clock.at += 61
    assert figures.not_ready() == []
    clock.at += 1
    (reason,) = figures.not_ready()
    assert reason.startswith("for 62 s Spark has told of no epoch")


# ---- over HTTP ----


def get(port, path):
    """Status, type and text of an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def test_the_three_paths(figures, standing):
    """Alive, ready or why not, and all metrics, each with its type and in a form that Prometheus's own parser reads."""
    figures.began(7, 60.0)
    figures.recorded(replace(DONE, late={"join": 1}), {("t", "0"): 4})
    figures.failed(EpochStatistics(8, 2, "FAILED", "", failure="EpochFailedError"))
    figures.performed(AppendStart(), Started(History(incarnation=3), None))
    with Endpoint(MetricsAddress(port=0), figures.samples, figures.not_ready) as at:
        assert get(at.port, "/livez")[::2] == (200, '{"alive": true}\n')
        status, kind, text = get(at.port, "/ready")
        assert (status, kind) == (503, "application/json; charset=utf-8")
        assert json.loads(text) == {"ready": False, "reasons": figures.not_ready()}
        figures.recorded(DONE, {("t", "0"): 4})
        assert get(at.port, "/ready")[::2] == (200, '{"ready": true, "reasons": []}\n')
        status, kind, text = get(at.port, "/metrics?x=1")
    assert (status, kind.partition(";")[0]) == (200, "text/plain")
    families = {each.name: each for each in text_string_to_metric_families(text)}
    assert {name: each.type for name, each in families.items()} == {
        each.name.removesuffix("_total"): each.kind for each in METRICS
    }
    for each in METRICS:
        labels = {frozenset(s.labels) - {"le"} for s in families[each.name.removesuffix("_total")].samples}
        assert labels == {frozenset(each.labels)}, each.name
    (incarnation,) = families["onceflow_incarnation"].samples
    assert incarnation.value == 3
    buckets = [s for s in families["onceflow_checkpoint_duration_seconds"].samples if s.name.endswith("_bucket")]
    assert [s.labels["le"] for s in buckets] == [*map(str, BUCKETS), "+Inf"]
    assert [s.value for s in buckets][-2:] == [2, 2]


def test_the_root_says_what_is_served(figures):
    """Whoever opens the address in a browser reads each path, what it is for, and the page that says more."""
    with Endpoint(MetricsAddress(port=0), figures.samples, figures.not_ready) as at:
        status, kind, text = get(at.port, "/")
        assert get(at.port, "/no-such-path") == (404, kind, text)
    assert (status, kind) == (200, "text/plain; charset=utf-8")
    told = {line.partition(" ")[0] for line in text.splitlines() if line.startswith("/")}
    assert told == {"/livez", "/ready", "/metrics"}
    (page,) = re.findall(r"docs/\S+\.md", text)
    assert (Path(__file__).parents[3] / page).is_file()


def test_who_hangs_up_writes_nothing_into_the_log(figures, caplog, capfd):
    """Else any user of the machine could wash it away, a traceback a time."""

    def answer(_):
        raise BrokenPipeError

    with Endpoint(MetricsAddress(port=0), figures.samples, figures.not_ready) as at:
        at._server.answer = answer
        with caplog.at_level(logging.DEBUG, "onceflow.metrics.endpoint"), pytest.raises(OSError, match="Remote end"):
            get(at.port, "/livez")
        wait_until(lambda: "BrokenPipeError" in caplog.text, what="the line")
    (line,) = (record for record in caplog.records if "BrokenPipeError" in record.getMessage())
    assert (line.levelname, line.exc_info) == ("DEBUG", None)
    assert "Traceback" not in capfd.readouterr().err  # other tests' clients may say something


def test_who_holds_connections_takes_no_descriptors_from_the_job(figures):
    """And keeps nobody else from being answered: the oldest are hung up."""
    with Endpoint(MetricsAddress(port=0), figures.samples, figures.not_ready) as at, contextlib.ExitStack() as held:
        for _ in range(3 * endpoint._AT_ONCE):
            one = held.enter_context(socket.create_connection(("127.0.0.1", at.port), timeout=10))
            one.sendall(b"GET /livez HTT")
        assert get(at.port, "/livez")[0] == 200
        assert len(at._server._open) <= endpoint._AT_ONCE


def test_a_port_that_is_taken_is_tried_again(figures, monkeypatch, caplog):
    """The job runs without meanwhile, and one warning says why; the port's end is waited for."""
    monkeypatch.setattr(endpoint, "_AGAIN_AFTER_S", 0.02)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with Endpoint(MetricsAddress(port=port), figures.samples, figures.not_ready) as at:
            assert at.port is None
            taken.close()
            wait_until(lambda: at.port == port, what="the port")
            assert get(port, "/livez")[0] == 200
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 1
    assert f"no metrics at 127.0.0.1:{port}: Address already in use" in warnings[0]
    with socket.create_server(("127.0.0.1", port)):
        pass  # it is free again


def test_without_the_library_a_port_is_refused(figures, monkeypatch):
    """Before anything else of the job is started, with the extra's name."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with (
        pytest.raises(SetupError, match="not installed") as refused,
        Endpoint(MetricsAddress(port=0), figures.samples, figures.not_ready),
    ):
        pass
    assert "[metrics]" in refused.value.cause


@pytest.mark.parametrize(("flags", "address"), [
    ({}, MetricsAddress("127.0.0.1", None)),
    ({"metrics.port": "0"}, MetricsAddress("127.0.0.1", 0)),
    ({"metrics.port": "9249", "metrics.bind-host": "::1"}, MetricsAddress("::1", 9249)),
])  # fmt: skip
def test_an_operator_names_the_port(flags, address):
    """By default nothing listens, and what listens is of this machine alone."""
    assert JobOptions(Checkpointing("somewhere"), NoRestart()).under(flags).metrics == address


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_what_is_no_port_is_refused(port):
    """With who said it."""
    with pytest.raises(ConfigurationError, match=r"metrics\.port: -?\d+ is no port") as refused:
        JobOptions(Checkpointing("somewhere"), NoRestart()).under({"metrics.port": port})
    assert "-D says" in refused.value.cause


# ---- the page, the board and the alerts ----

UNITS = ("seconds", "records", "rows", "bytes", "ratio")


def test_names_tell_units():
    """The unit stands last; what is counted in pieces says of what, and only a count that grows ends in ``_total``."""
    assert len({each.name for each in METRICS}) == len(METRICS)
    for each in METRICS:
        assert re.fullmatch(r"onceflow_[a-z_]+", each.name)
        assert each.name.endswith("_total") == (each.kind == "counter"), each.name
        if each.kind == "histogram" or re.search("duration|delay|age|timestamp|lag", each.name):
            assert each.name.endswith(UNITS), each.name


def test_each_metric_is_on_the_page():
    """With its kind, its labels and what it tells, as the catalogue has them; and no other."""
    lines = (ROOT / "docs" / "metrics.md").read_text().splitlines()
    written = [line for line in lines if line.startswith("| `onceflow_")]
    expected = []
    for each in METRICS:
        labels = f", by {', '.join(f'`{label}`' for label in each.labels)}" if each.labels else ""
        expected.append(f"| `{each.name}` | {each.kind}{labels} | {each.doc} |")
    assert written == expected


def expressions(which):
    """The queries of a file, each with the labels that its texts name."""
    text = FILES[which].read_text()
    if which == "rules":
        return re.findall(r"^ +expr: (.*)$", text, re.MULTILINE), text
    return [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]], text


SERIES = {
    each.name + suffix: each
    for each in METRICS
    for suffix in (("_bucket", "_sum", "_count") if each.kind == "histogram" else ("",))
}
SCRAPE = {"instance", "job", "le"}


@pytest.mark.parametrize("which", FILES)
def test_the_board_and_the_alerts_ask_for_what_is_there(which):
    """Each series, each label by which they select or sum, and each result that they name."""
    asked, _ = expressions(which)
    assert len(asked) >= 10
    for each in asked:
        series = re.findall(r"onceflow_[a-z_]+", each)
        assert series or each.startswith("up{"), each
        assert not set(series) - SERIES.keys(), each
        known = SCRAPE | {label for name in series for label in SERIES[name].labels}
        used = re.findall(r"[{,] *(\w+)=~?\"", each) + re.findall(r"\w+", ",".join(re.findall(r"by \(([^)]*)\)", each)))
        assert set(used) <= known, each
        assert set(re.findall(r'result="(\w+)"', each)) <= set(RESULTS)


def test_the_board_shows_every_metric_and_each_panel_lies_apart():
    """Nothing is collected that nobody sees, and no panel hides another one."""
    asked, text = expressions("board")
    seen = {SERIES[name].name for each in asked for name in re.findall(r"onceflow_[a-z_]+", each)}
    assert {each.name for each in METRICS} - seen == {"onceflow_epoch_age_seconds"}  # its part of the time-out is there
    board = json.loads(text)
    places = [panel["gridPos"] for panel in board["panels"]]
    cells = [(p["x"] + dx, p["y"] + dy) for p in places for dx in range(p["w"]) for dy in range(p["h"])]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24


def test_prometheus_takes_the_alerts():
    """Its own ``promtool`` reads them, where it is installed (Debian: prometheus)."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([promtool, "check", "rules", FILES["rules"]], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_finds_the_names_good(figures):
    """``promtool check metrics`` has nothing to say of what a job exposes."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    figures.recorded(DONE, {("t", "0"): 4})
    with Endpoint(MetricsAddress(port=0), figures.samples, figures.not_ready) as at:
        text = get(at.port, "/metrics")[2]
    done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_duration_lies_in_the_first_bucket_that_holds_it():
    """A bound belongs to its own bucket; what is longer than all lies behind the last."""
    of = Durations()
    for seconds in (0.05, 0.051, 700):
        of.add(seconds)
    assert (of.counts[0], of.counts[1], of.counts[-1]) == (1, 1, 1)
