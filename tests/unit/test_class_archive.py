"""Which class archive is found, and which is not."""

import os

import pytest

from onceflow import class_archive


@pytest.fixture
def jars(tmp_path, monkeypatch):
    """An empty cache, and a class path of one jar."""
    monkeypatch.setenv("ONCEFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(class_archive, "java_build", lambda: "Java 17.0.1")
    monkeypatch.setattr(class_archive, "spark_home_jars", list)
    jar = tmp_path / "connector.jar"
    jar.write_bytes(b"classes")
    return [jar]


def made(jars, content=b"an archive"):
    """An archive, taken in."""
    file = class_archive.folder() / "new"
    file.write_bytes(content)
    return class_archive.keep(file, jars)


def test_what_was_taken_in_is_found(jars):
    """Nothing is there at first, and looking makes nothing."""
    assert class_archive.find(jars) is None
    assert not (jars[0].parent / "cache").exists()
    archive = made(jars)
    assert class_archive.find(jars) == archive


def test_one_that_is_cut_off_is_not_found(jars):
    """Java 17 dies of SIGBUS when it maps such a file."""
    archive = made(jars)
    archive.write_bytes(b"an arch")
    assert class_archive.find(jars) is None
    assert made(jars, b"made again") == class_archive.find(jars)


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
    assert sorted(class_archive.folder().iterdir()) == sorted([archives[0], *archives[2:], newest])
