"""A lost checkpoint is told from a new job's: which jobs of a name have written, as kept with their sinks."""

import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onceflow.checkpoint.identity import LONGEST_MARK, JobIdentity, NameMark, create_identity
from onceflow.connectors.kafka.group_offsets import name_group
from onceflow.errors import CheckpointConflictError, KafkaUnavailableError
from onceflow.execution.marks import write_name_mark
from onceflow.launch.marked import forget_name, require_not_lost
from onceflow.launch.request import StartRequest, place_of
from onceflow.options.checkpointing import Checkpointing

JOB = JobIdentity("a" * 12, "file:///where/it/was", "cluster", "onceflow")
IDS = st.text("abcdef0123456789", min_size=8, max_size=32)


@dataclass
class Outside:
    """Only what is looked at of a connection and of a committer: the marks of names."""

    names: dict = field(default_factory=dict)
    meanwhile: object = None
    fails: bool = False

    def read_name_mark(self, *told):
        if self.fails:
            raise KafkaUnavailableError("no broker")
        found = self.names.get(told[-1])
        if self.meanwhile:
            self.meanwhile()
        return found

    def marks(self):
        return self

    read_name = read_name_mark

    def write_name(self, name, mark):
        self.names[name] = mark


def place_at(folder):
    return place_of(StartRequest("test", Checkpointing(folder)))


def refuse(folder, *outside):
    require_not_lost(place_at(folder), outside, "onceflow", "hourly")


def marked(*jobs):
    return NameMark({job: f"file:///{job}" for job in jobs}).dumps()


# -- the mark ---------------------------------------------------------------------------------------------------------


@given(st.dictionaries(IDS, st.text(max_size=60), max_size=6))
def test_a_name_mark_comes_back(jobs):
    """Loads takes back whatever dumps writes, on one line; without a job there is nothing to write."""
    mark = NameMark(jobs)
    assert NameMark.loads(mark.dumps()) == mark
    assert "\n" not in mark.dumps()
    assert bool(mark.dumps()) is bool(jobs)


@given(st.text(max_size=30) | st.sampled_from(["{}", "[]", "null", '{"jobs":1}', '{"jobs":[1]}', '{"jobs":[["a"]]}']))
def test_another_text_names_no_job(text):
    """Whatever else stands there is no mark, and no error."""
    assert NameMark.loads(text) == NameMark()


@given(st.dictionaries(IDS, st.text(max_size=9_000), min_size=1, max_size=40))
def test_a_name_mark_fits_beside_an_offset_and_keeps_the_newest(jobs):
    """However many jobs, and however long their checkpoints' names: at most 4,000 letters, and the newest is in it."""
    text = NameMark(jobs).dumps()
    assert len(text) <= LONGEST_MARK < 4_096
    kept = list(NameMark.loads(text).jobs)
    assert kept == list(jobs)[-len(kept) :] != []


def test_a_job_comes_to_the_others_as_the_newest():
    """Once, with where its checkpoint is now; the one that it has left goes."""
    mark = NameMark({"b" * 12: "x", JOB.job_id: "an older place", "c" * 12: "y"})
    assert list(mark.and_of(JOB).jobs.items()) == [("b" * 12, "x"), ("c" * 12, "y"), (JOB.job_id, JOB.checkpoint)]
    new = JobIdentity("d" * 12, "file:///z", "cluster", "onceflow", left="c" * 12)
    assert list(mark.and_of(new).jobs) == ["b" * 12, JOB.job_id, "d" * 12]


@pytest.mark.parametrize("name", ["hourly", "hourly sales", "ü/%\n", "a" * 12, "x-fence"])
def test_the_group_of_a_name_is_of_the_prefix_and_of_no_job(name):
    """One right is for all, and no job's own mark can stand in it: a job's id has eight letters or more."""
    group = name_group("onceflow", name)
    assert group.startswith("onceflow-name-")
    assert group.isprintable()
    assert group.isascii()
    assert len({name_group("onceflow", n) for n in (name, name + " ", name.upper(), name + "%20")}) == 4


# -- a start in an empty place ----------------------------------------------------------------------------------------


def test_an_empty_place_is_refused_where_a_job_of_the_name_has_written(tmp_path):
    """One sink's mark is enough; the message says where the checkpoint was, and nothing is made in the place."""
    folder = tmp_path / "gone"
    with pytest.raises(CheckpointConflictError, match="file:///bbbbbbbb") as caught:
        refuse(folder, Outside(), Outside({"hourly": marked("bbbbbbbb", "cccccccc")}))
    assert str(folder) in caught.value.what
    assert "job cccccccc, whose checkpoint was file:///cccccccc and job bbbbbbbb" in caught.value.what
    assert 'takeover="as-new"' in caught.value.action
    assert not caught.value.retriable
    assert not folder.exists()


def test_a_first_start_is_a_first_start(tmp_path):
    """No sink knows the name, keeps marks, or keeps one that can be read."""
    refuse(tmp_path, Outside(), Outside({"another": marked("bbbbbbbb")}), Outside({"hourly": "?"}))
    refuse(tmp_path)


@pytest.mark.parametrize("left", ["offsets/3", "commits/3", "onceflow/job.json", "onceflow/journal/000000000001.json"])
def test_where_something_is_left_nobody_is_asked(tmp_path, left):
    """What is there is judged by its own checks: a moved, copied or half deleted checkpoint is none of this."""
    (tmp_path / left).parent.mkdir(parents=True)
    (tmp_path / left).touch()
    refuse(tmp_path, Outside(fails=True))


def test_another_first_start_at_this_moment_is_this_very_job(tmp_path):
    """It began here, decided and left its mark while we looked: the place is not empty any more."""
    place = place_at(tmp_path)

    def begins():
        place.ours.make()
        create_identity(place.ours, JOB)

    refuse(tmp_path, Outside({"hourly": marked(JOB.job_id)}, meanwhile=begins))


def test_a_system_that_does_not_answer_ends_the_start(tmp_path):
    """Whether all would be written again is not known then; it is asked again at the next start."""
    with pytest.raises(KafkaUnavailableError):
        refuse(tmp_path, Outside(fails=True))


# -- writing and removing ---------------------------------------------------------------------------------------------


def test_a_job_is_written_beside_the_others():
    """Those of another environment stay; what was no mark is replaced; and what cannot be read is left alone."""
    outside = Outside({"hourly": marked("bbbbbbbb"), "odd": "?"})
    for name in ("hourly", "odd"):
        write_name_mark(outside, name, JOB)
    assert list(NameMark.loads(outside.names["hourly"]).jobs) == ["bbbbbbbb", JOB.job_id]
    assert json.loads(outside.names["odd"]) == {"jobs": [[JOB.job_id, JOB.checkpoint]]}
    before, outside.fails = dict(outside.names), True
    write_name_mark(outside, "hourly", JOB)
    assert outside.names == before


def test_a_job_that_is_deleted_is_forgotten_and_no_other(tmp_path):
    """The next job of the name begins unasked where no other of the name has written."""
    one, two = Outside({"hourly": marked("bbbbbbbb")}), Outside({"hourly": marked("bbbbbbbb", "cccccccc")})
    forget_name([one, two], "hourly", "bbbbbbbb")
    refuse(tmp_path, one)
    with pytest.raises(CheckpointConflictError, match="cccccccc"):
        refuse(tmp_path, two)
    forget_name([one, two], "hourly", "cccccccc")
    refuse(tmp_path, one, two)
