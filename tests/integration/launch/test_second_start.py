"""A job that is started beside itself in one process: a notebook's cell that runs again does no harm."""

import contextlib
import threading
from collections import Counter

import pytest

import onceflow as of
from onceflow.errors import ConfigurationError, OnceflowError
from tests.support.harness import read_topic, wait_until

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


@pytest.fixture
def cell(spark, cluster, new_topic, tmp_path):
    """What a notebook's cell does: everything anew, each time."""
    source, sink = new_topic(1), new_topic(1)

    def run(name="cell", checkpoint=tmp_path / "checkpoint", session=spark):
        return of.start(
            of.KafkaSource(cluster, source, value=of.Text()).load(session),
            sinks=[of.KafkaSink(cluster, sink, value=of.Text())],
            name=name,
            checkpointing=of.Checkpointing(checkpoint, interval="100 ms"),
        )

    run.source, run.sink, run.checkpoint = source, sink, tmp_path / "checkpoint"
    yield run
    for query in spark.streams.active:
        with contextlib.suppress(Exception):
            query.stop()


CELLS = (
    'job = of.Job("cells", checkpointing=of.Checkpointing(FOLDER))',
    """
@job.stream(sinks=[of.KafkaSink(KAFKA, OUT, value=of.Text())])
def texts(spark):
    return of.KafkaSource(KAFKA, IN, value=of.Text()).load(spark).where("value <> 'a'")
""",
    'job.run(until="caught-up")',
)


def test_the_cells_of_a_job_run_again(spark, cluster, new_topic, produce, tmp_path):
    """As a notebook runs them: the last one, the function's after an edit or with a mistake in it, and all of them."""
    names = {
        "of": of,
        "KAFKA": cluster,
        "IN": new_topic(1),
        "OUT": new_topic(1),
        "FOLDER": str(tmp_path / "checkpoint"),
    }
    makes, streams, runs = CELLS

    def run(*cells):
        for cell in cells:
            exec(compile(cell, f"<cell {hash(cell)}>", "exec"), names)  # noqa: S102 - so does a notebook

    produce(names["IN"], ["a", "b"])
    run(makes, streams, runs, runs)
    produce(names["IN"], ["c"])
    run(streams.replace("<> 'a'", "<> 'd'"), runs)
    with pytest.raises(ConfigurationError, match=r"cell -?\d+>:4, in texts: there is no column `vlaue`") as refused:
        run(streams.replace("value <> 'a'", "vlaue <> 'a'"), runs)
    assert "`value`" in refused.value.cause
    assert refused.value.__suppress_context__, "and no plan of Spark's above it"
    produce(names["IN"], ["d", "e"])
    run(makes, streams, runs)
    assert sorted(value for _, value in read_topic(cluster, names["OUT"])) == [b"b", b"c", b"d", b"e"]


def written(cluster, cell) -> Counter:
    return Counter(value for _, value in read_topic(cluster, cell.sink))


def files(folder) -> dict[str, bytes]:
    """What onceflow keeps in a checkpoint; temporary files come and go."""
    return {str(p): p.read_bytes() for p in (folder / "onceflow").rglob("*.json")}


def test_a_cell_that_runs_again_is_refused_and_the_query_goes_on(spark, cluster, cell, produce, tmp_path, monkeypatch):
    """Same name, another name, another path to the same place, another session: nothing is written, nobody is fenced.

    After stop() the same cell starts the job again, and every record is there once.
    """
    first = cell()
    produce(cell.source, ["a"])
    wait_until(lambda: written(cluster, cell), what="a")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(cell.checkpoint)
    before = files(cell.checkpoint)
    again = [
        {},
        {"name": "renamed"},
        {"checkpoint": tmp_path / "link"},
        {"checkpoint": "checkpoint/"},
        {"checkpoint": f"file://{cell.checkpoint}", "name": "renamed"},
        {"session": spark.newSession()},
    ]
    for each in again:
        with pytest.raises(ConfigurationError, match="is not started") as caught:
            cell(**each)
        assert "stop() it first" in caught.value.action
    with pytest.raises(ConfigurationError, match="a query of this name runs in this SparkSession"):
        cell(checkpoint=tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()
    assert files(cell.checkpoint) == before
    assert first.isActive
    produce(cell.source, ["b"])
    wait_until(lambda: len(written(cluster, cell)) == 2, what="b, by the query that was there first")
    first.stop()
    second = cell()
    produce(cell.source, ["c"])
    wait_until(lambda: not second.isActive or len(written(cluster, cell)) == 3, what="c")
    assert written(cluster, cell) == Counter([b"a", b"b", b"c"])


def test_a_query_that_failed_is_started_again_by_the_same_cell(spark, cluster, cell, produce):
    """It ended by itself; nobody has to stop it."""
    produce(cell.source, ["a"])
    first = cell()
    wait_until(lambda: written(cluster, cell), what="a")
    spark.sparkContext.cancelAllJobs()
    produce(cell.source, [b"\xff"])  # no UTF-8: its format fails on it
    with pytest.raises(Exception, match="onceflow"):
        first.awaitTermination(60)
    second = cell()
    with pytest.raises(Exception, match="onceflow"):
        second.awaitTermination(60)
    assert written(cluster, cell) == Counter([b"a"])


def test_a_plain_query_on_the_checkpoint_is_not_ended(spark, cluster, cell, tmp_path):
    """Spark's own query of the existing program still runs: it is told, and not ended by a start on its checkpoint."""
    frame = of.KafkaSource(cluster, cell.source, value=of.Text()).load(spark)
    plain = frame.writeStream.format("noop").option("checkpointLocation", str(cell.checkpoint)).start()
    wait_until(lambda: (cell.checkpoint / "offsets" / "0").exists() or plain.lastProgress, what="the plain query")
    with pytest.raises(ConfigurationError, match="a query runs in this SparkSession on its checkpoint"):
        cell()
    assert plain.isActive
    assert not (cell.checkpoint / "onceflow").exists()


def test_a_job_that_runs_in_a_thread_is_not_run_beside_itself(spark, cluster, cell, produce):
    """``Job.run`` on the same checkpoint: refused while the first runs, also for ``start``, and not afterwards."""
    job = of.Job("in a thread", checkpointing=of.Checkpointing(cell.checkpoint, interval="100 ms"))

    @job.stream(sinks=[of.KafkaSink(cluster, cell.sink, value=of.Text())])
    def stream(session):
        return of.KafkaSource(cluster, cell.source, value=of.Text()).load(session)

    def run():
        with contextlib.suppress(OnceflowError):
            job.run()

    produce(cell.source, ["a"])
    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: written(cluster, cell), what="a")
    before = files(cell.checkpoint)
    for again in (lambda: job.run(until="caught-up"), cell):
        with pytest.raises(ConfigurationError, match="job in a thread runs in this process"):
            again()
    assert files(cell.checkpoint) == before
    for query in spark.streams.active:
        query.stop()
    thread.join(60)
    assert not thread.is_alive()
    produce(cell.source, ["b"])
    job.run(until="caught-up")
    assert written(cluster, cell) == Counter([b"a", b"b"])
