"""What Spark's files may look like and what becomes of it: forms, power cuts, starts of two jobs in one journal.

The texts of Spark's files are as Spark 4.2 wrote them.
"""

import json

import pytest

from onceflow.checkpoint.identity import write_identity
from onceflow.checkpoint.spark_files import SparkCheckpoint, positions
from onceflow.errors import CheckpointConflictError, OnceflowError
from onceflow.execution.driver import Driver
from onceflow.execution.means import Surroundings
from onceflow.spark.session import PINNED
from onceflow.storage import posix as store_module
from onceflow.twophase.coordinator import Coordinator
from onceflow.twophase.layout import LayoutSource, folders
from onceflow.twophase.messages import Appended
from onceflow.twophase.records import Decide
from tests.support.reading import Reading, make
from tests.support.starts import ONE, Listed, done, finish, identify, leave, place_of, started, undone_of

# -- Spark's second form of offsets/N (spark.sql.streaming.offsetLog.formatVersion=2) ---------------------------------

# A line for each source as "<number>:<position>", in the order of a hash map: two sources came as 1, 0.
SECOND_FORM = 'v2\n{"batchWatermarkMs":0,"sourceMetadataInfo":{}}\n1:{"u":{"0":7}}\n0:{"t":{"0":5}}'


def test_positions_of_sparks_second_form_are_refused():
    """Who cannot read a form must not take it for a source that stands nowhere."""
    with pytest.raises(CheckpointConflictError, match="offsetLog"):
        positions(SECOND_FORM)


def test_the_form_of_sparks_offsets_is_pinned():
    """Else a session's own setting chooses it, and every look at the sources is blind from then on."""
    assert PINNED.get("spark.sql.streaming.offsetLog.formatVersion") == "1"


# -- where sources begin, behind one that two outputs start from ------------------------------------------------------


def test_where_a_source_begins_behind_one_that_stands_twice(tmp_path):
    """offsets/0 has a line for each place, sources/ a folder for each source: a, a, b has lines 0-2 and folders 0-1.

    So position 2 begins where sources/1 says. Looked for in sources/2, what b has lost before epoch 0 is not seen.
    """
    sources, checkpoint = make(Reading(), 0, Reading()), SparkCheckpoint.at(tmp_path)
    for number, position in enumerate(({"a": {"0": 4}}, {"b": {"0": 7}})):
        (tmp_path / "sources" / str(number)).mkdir(parents=True)
        (tmp_path / "sources" / str(number) / "0").write_bytes(b"\0v1\n" + json.dumps(position).encode())
    (tmp_path / "offsets").mkdir()
    ends = ['{"a":{"0":10}}', '{"a":{"0":10}}', '{"b":{"0":9}}']
    (tmp_path / "offsets" / "0").write_text("\n".join(["v1", "{}", *ends]))
    assert sources.sizes(checkpoint, 0) == [6, 6, 2]


def test_a_source_that_is_joined_with_itself_has_two_readers():
    """The same source twice in one output, and once in another: three lines, two folders."""
    source = LayoutSource(("a",), "c", "topic t", "p", (), 0)
    other = LayoutSource(("b",), "c", "topic t", "p", (), 0)
    assert folders([source, source, other, LayoutSource(("b",), "c", "topic u", "p", (), 3)]) == [0, 1, 0, 2]


# -- power cuts -------------------------------------------------------------------------------------------------------


def spark_files(folder, planned, recorded):
    identify(folder)
    for name, epochs in (("offsets", planned), ("commits", recorded)):
        (folder / name).mkdir()
        for epoch in epochs:
            (folder / name / str(epoch)).write_text(f"v1\n{{}}\n{epoch}")


def take_over(folder):
    identity, place = identify(folder), place_of(folder)
    place.records.make()
    driver = Driver(
        identity, place.journal, place.checkpoint, {}, place.uri, Coordinator(()), Surroundings.of_process(0)
    )
    try:
        driver.take_over()
    finally:
        driver.close()
    return place.checkpoint


def test_a_plan_behind_an_epoch_without_output_whose_record_is_empty_is_taken_back(tmp_path):
    """Epoch 4 of a stateful plan wrote nothing, so nothing of it was synced; 5 is planned, and commits/4 is empty.

    Spark goes on with 5 then and looks for the state of 4 under the id that only commits/4 had: FileNotFoundException
    at each start, told as EpochFailedError, which is to be tried again.
    """
    (tmp_path / "state").mkdir()
    spark_files(tmp_path, range(6), range(5))
    (tmp_path / "commits" / "4").write_text("")
    assert take_over(tmp_path).plans_from(4) == [], "both are planned anew"


def test_no_hole_is_left_in_sparks_plans(tmp_path):
    """offsets/4 and commits/4 are empty, 4 is not decided, 5 is planned: Spark ends with "batch 4 doesn't exist"."""
    spark_files(tmp_path, range(6), range(5))
    (tmp_path / "commits" / "4").write_text("")
    (tmp_path / "offsets" / "4").write_text("")
    assert take_over(tmp_path).plans_from(4) == []


def test_what_a_refusal_says_leads_on_where_the_next_epoch_was_planned(tmp_path):
    """offsets/4 is gone, 4 is not decided, 5 is planned: "remove commits/4 as well" leaves Spark before a hole."""
    spark_files(tmp_path, range(6), range(5))
    (tmp_path / "offsets" / "4").unlink()
    with pytest.raises(OnceflowError, match="where the next one begins"):
        take_over(tmp_path)
    (tmp_path / "commits" / "4").unlink()
    assert take_over(tmp_path).plans_from(4) == []


def test_a_record_of_zero_bytes_only_is_no_record(tmp_path):
    """The length of a file may survive a power cut without its content: Spark says MALFORMED_LOG_FILE at each start."""
    spark_files(tmp_path, range(2), range(2))
    (tmp_path / "commits" / "1").write_bytes(b"\0" * 30)
    assert take_over(tmp_path).newest_commit() == 0
    assert not (tmp_path / "commits" / "1").exists()


def test_the_querys_metadata_are_durable_before_the_first_decision(tmp_path, monkeypatch):
    """Spark writes <checkpoint>/metadata once, unsynced; empty, each start ends with Jackson's "No content to map"."""
    spark_files(tmp_path, [0], [])
    (tmp_path / "metadata").write_text('{"id":"b4e55211-cd9e-405d-ab0c-a95a0a7e7854"}')
    synced = []
    monkeypatch.setattr(store_module, "_sync", synced.append)
    SparkCheckpoint.at(tmp_path).sync(0)
    assert tmp_path / "metadata" in synced


# -- starts and operators ---------------------------------------------------------------------------------------------


def test_a_start_under_the_old_id_does_not_make_the_journal_forget_what_the_new_job_has_decided(tmp_path):
    """It had looked at everything and slept before its append; --as-new took the job over and decided epoch 1.

    The sleeper ends as fenced, but its start stands in the journal as the beginning of another job: the new job's next
    start finds nothing undone. Only its mark in Kafka stops it, and the one command that leads on writes epoch 1 again.
    """
    old, _ = started(tmp_path, 0)
    done(tmp_path, 0)
    sleeper = place_of(tmp_path)
    place = place_of(tmp_path)
    new = leave(place)
    incarnation = place.journal.start(new.job_id, left=new.left).incarnation
    assert place.journal.append(Decide(incarnation, 1, "v1\n1", ("s",), ONE)) == Appended()
    assert place_of(tmp_path).has_undone()
    driver = Driver(
        old, sleeper.journal, sleeper.checkpoint, {}, sleeper.uri, Coordinator(()), Surroundings.of_process(0)
    )
    try:
        with pytest.raises(CheckpointConflictError, match="the newest start"):
            driver.take_over()
    finally:
        driver.close()
    assert place_of(tmp_path).has_undone(), "epoch 1 is decided"


def test_a_claim_goes_on_as_the_journals_job_where_job_json_is_older(tmp_path):
    """An older job.json was put back beside a newer journal: refused, and --claim leads on without forgetting."""
    old, place = started(tmp_path, 0)
    done(tmp_path, 0)
    new = leave(place_of(tmp_path))
    place.journal.start(new.job_id, left=old.job_id)
    write_identity(place.ours, old)
    with pytest.raises(CheckpointConflictError, match='takeover="claim"'):
        place_of(tmp_path).journal.start(identify(tmp_path).job_id)
    assert identify(tmp_path, "claim").job_id == new.job_id


def test_a_claim_with_a_spoiled_job_json_waits_for_the_sinks_of_other_systems(tmp_path):
    """It writes job.json with the listed sink's system alone, ends, and so does every start of this job after it."""
    undone_of(tmp_path, ("a", "one"), ("b", "two"))
    (tmp_path / "onceflow" / "job.json").write_text("{")
    assert not finish(tmp_path, [Listed("a", "one", done_ := [])], "claim"), "launch finishes it with both"
    assert done_ == []
