"""One start at a time on a checkpoint of this process, however its path is spelt."""

import threading
from dataclasses import dataclass

import pytest

from onceflow.errors import ConfigurationError
from onceflow.launch.active import alone
from onceflow.launch.request import StartRequest, place_of
from onceflow.options.checkpointing import Checkpointing


def uri_of(location):
    return place_of(StartRequest("test", Checkpointing(location))).uri


@dataclass
class Query:
    """Only what is asked of a query: whether it runs; None where Java is gone."""

    running: bool | None = True

    @property
    def isActive(self):  # noqa: N802 - Spark's name
        if self.running is None:
            raise ConnectionRefusedError
        return self.running


def running(uri, name="first"):
    """A job that was started here and runs."""
    with alone(uri, name) as active:
        active.query = Query()
    return active.query


@pytest.mark.parametrize("spelling", ["{0}", "{0}/", "{0}/../checkpoint", "file://{0}", "file:{0}/", "link", "./link/"])
def test_a_checkpoint_is_one_by_whatever_spelling(tmp_path, monkeypatch, spelling):
    """Relative, by a link, with a slash, as a URI: a job runs there, and the second start is refused with a way out."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "checkpoint")
    query = running(uri_of(tmp_path / "checkpoint"))
    uri = uri_of(spelling.format(tmp_path / "checkpoint"))
    with pytest.raises(ConfigurationError, match="job first runs in this process on the same checkpoint") as caught, \
            alone(uri, "second"):  # fmt: skip
        pass
    assert "stop()" in caught.value.action
    assert not caught.value.retriable
    query.running = False
    running(uri, "second")


@pytest.mark.parametrize("ended", [False, None])
def test_a_query_that_has_ended_is_in_nobodys_way(tmp_path, ended):
    """Stopped, failed, or gone with its Java: the job is started again, and then it is the one that runs."""
    uri = uri_of(tmp_path)
    running(uri).running = ended
    running(uri, "second")
    with pytest.raises(ConfigurationError, match="job second runs"), alone(uri, "third"):
        pass


def test_a_start_that_failed_is_in_nobodys_way(tmp_path):
    """It left no query."""
    with pytest.raises(KeyboardInterrupt), alone(uri_of(tmp_path), "first"):
        raise KeyboardInterrupt
    running(uri_of(tmp_path))


def test_another_checkpoint_is_no_matter(tmp_path):
    """Also one of the same job's name: whether a session has two queries of a name is Spark's to say."""
    running(uri_of(tmp_path / "a"))
    running(uri_of(tmp_path / "b"))


def test_of_starts_at_the_same_moment_one_goes_on(tmp_path):
    """Eight threads, fifty times over: one is being started while the others are refused."""
    for number in range(50):
        uri, gate, told, refused = uri_of(tmp_path / str(number)), threading.Barrier(8), [], threading.Event()

        def start(uri=uri, gate=gate, told=told, refused=refused):
            gate.wait()
            try:
                with alone(uri, "job"):
                    assert refused.wait(30)
                    told.append("started")
            except ConfigurationError as error:
                told.append(error.what)
                if len(told) == 7:
                    refused.set()

        threads = [threading.Thread(target=start) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert told.count("started") == 1
        assert sum("is being started in this process" in each for each in told) == 7
