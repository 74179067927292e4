"""Which class archive is found, and which is not."""

import os

import pytest

from onceflow.local import class_archive


@pytest.fixture
def jars(tmp_path, monkeypatch):
    """An empty cache, and a class path of one jar."""
    monkeypatch.setenv("ONCEFLOW_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    monkeypatch.setattr(class_archive, "java_build", lambda: "Java 17.0.1")
    monkeypatch.setattr(class_archive, "spark_home_jars", list)
    jar = tmp_path / "connector.jar"
    jar.write_bytes(b"classes")
    return [jar]


def made(jars, content=b"an archive"):
    """An archive, taken in."""
    file = jars[0].parent / "new"
    file.write_bytes(content)
    return class_archive.keep(file, jars)


def test_what_was_taken_in_is_found(jars):
    """Nothing is there at first, and looking makes nothing."""
    assert class_archive.find(jars) is None
    assert not class_archive.folder().exists()
    archive = made(jars)
    assert class_archive.find(jars) == archive


def test_one_that_is_cut_off_is_not_found(jars):
    """Java 17 dies of SIGBUS when it maps such a file."""
    archive = made(jars)
    archive.write_bytes(b"an arch")
    assert class_archive.find(jars) is None
    assert made(jars, b"made again") == class_archive.find(jars)


@pytest.mark.parametrize("mode", [0o602, 0o666])
def test_one_that_another_user_may_write_is_not_found(jars, mode):
    """Java runs what is in it."""
    made(jars).chmod(mode)
    assert class_archive.find(jars) is None


def test_another_java_or_jar_needs_another_one(jars, monkeypatch):
    """Java would leave it aside with a warning."""
    archive = made(jars)
    monkeypatch.setattr(class_archive, "java_build", lambda: "Java 17.0.2")
    assert class_archive.find(jars) is None
    monkeypatch.setattr(class_archive, "java_build", lambda: "Java 17.0.1")
    assert class_archive.find(jars) == archive
    os.utime(jars[0], (1, 1))
    assert class_archive.find(jars) is None


def test_those_unused_for_longest_go(jars):
    """Every environment leaves one behind; three stay beside a new one, and use counts, not age."""
    archives = []
    for age in range(4):
        os.utime(jars[0], (age, age))
        archives.append(made(jars))
        os.utime(archives[-1], (age, age))
    os.utime(jars[0], (0, 0))
    assert class_archive.find(jars) == archives[0]
    os.utime(jars[0], (9, 9))
    newest = made(jars)
    class_archive.forget_old(newest)
    assert sorted(class_archive.folder().iterdir()) == sorted([archives[0], *archives[2:], newest])


def test_what_cannot_be_looked_for_is_not_there(jars, monkeypatch):
    """A job runs without one: a cache that is not to be read, a jar that is gone, a user without a home."""
    made(jars)
    jars[0].unlink()
    assert class_archive.find(jars) is None
    monkeypatch.delenv("ONCEFLOW_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr("pathlib.Path.home", failing)
    assert class_archive.find([]) is None


def failing():
    raise RuntimeError("Could not determine home directory.")


def test_a_file_of_another_user_is_not_used(jars, monkeypatch):
    """Java would run what is in it."""
    archive = made(jars)
    assert class_archive.find(jars) == archive
    if os.getuid() == 0:
        os.chown(archive, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert class_archive.find(jars) is None
