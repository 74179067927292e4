"""The local store: a name has one winner, a file is whole, and an error says which file."""

import os
import re
import stat
import threading
import time
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from onceflow.errors import CheckpointStoreError, ConfigurationError
from onceflow.storage import posix as store_module
from onceflow.storage.locations import file_uri, hdfs_uri, local_path
from onceflow.storage.store import Store, local_folder
from tests.support.advice import parts_of


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "a" / "b")
    made.make()
    return made


def test_created_once(store):
    """The second creation of a name is refused, and the first one's content stays."""
    store.create("x", b"first")
    with pytest.raises(FileExistsError):
        store.create("x", b"second")
    assert store.read("x") == b"first"
    assert store.names() == ["x"]


def test_one_of_many_wins(store):
    """Of eight threads that create the same name, 100 times over, exactly one wins, and its content is what is read."""
    for number in range(100):
        won, gate = [], threading.Barrier(8)

        def contend(who, name=str(number), won=won, gate=gate):
            gate.wait()
            try:
                store.create(name, who)
            except FileExistsError:
                return
            won.append(who)

        threads = [threading.Thread(target=contend, args=(bytes([65 + n]) * 100,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert won == [store.read(str(number))]
    assert len(store.names()) == 100


def test_replace_is_whole(store):
    """Replacing gives the new content, whether the name was taken or not, and leaves nothing beside it."""
    store.replace("x", b"old")
    store.replace("x", b"new")
    assert store.read("x") == b"new"
    assert os.listdir(store.folder) == ["x"]  # noqa: PTH208 - the hidden files, too


def test_a_missing_file_is_told_as_such(store):
    """Reading what is not there is FileNotFoundError; removing it twice is nothing."""
    with pytest.raises(FileNotFoundError):
        store.read("x")
    store.remove("x")
    store.sync("x")


@pytest.mark.parametrize("made", ["a/b", "a/b/c", "a/b/.probe"])
def test_what_is_made_in_untouched_is_taken_away_wherever_it_was(store, made):
    """In the folder itself, beside it, or only above it; a file that somebody has put there stays, with its folders."""
    below = store.below("a").below("b").below("c")
    with below.untouched():
        (store.folder / made).mkdir(parents=True)
        if made.endswith(".probe"):
            (store.folder / made).rmdir()
    assert store.names() == []
    with below.untouched():
        Store(store.folder / "a").make()
        Store(store.folder / "a").create("theirs", b"")
    assert store.names() == ["a"]


def test_a_leftover_is_not_listed_and_cleared_when_it_is_old(store):
    """A temporary file that a killed writer left is no file of the journal, and a start removes it after an hour."""
    leftover = store.folder / ".tmp-x-dead"
    leftover.write_bytes(b"half")
    assert store.names() == []
    hour_ago = time.time() - 3601
    os.utime(leftover, (hour_ago, hour_ago))
    store.make()
    assert os.listdir(store.folder) == []  # noqa: PTH208


@pytest.mark.parametrize("write", [Store.create, Store.replace])
def test_a_start_does_not_disturb_a_writer(store, write, monkeypatch):
    """Another start makes the same folder while a driver writes, before and after its file is whole: it is written."""
    link, rename, fsync = os.link, os.rename, os.fsync
    others = []

    def disturbed(real):
        return lambda *given: (others.append(Store(store.folder).make()), real(*given))

    monkeypatch.setattr(os, "link", disturbed(link))
    monkeypatch.setattr(os, "rename", disturbed(rename))
    monkeypatch.setattr(os, "fsync", disturbed(fsync))
    write(store, "x", b"mine")
    assert store.read("x") == b"mine"
    assert len(others) == 3


def test_a_writer_whose_temporary_file_is_gone_fails_cleanly(store, monkeypatch):
    """Somebody removes the temporary file between write and link: the creation fails, and no file is there."""
    link = os.link
    monkeypatch.setattr(os, "link", lambda a, b: (os.unlink(a), link(a, b)))  # noqa: PTH108 - as a path or not
    with pytest.raises(CheckpointStoreError, match="x"):
        store.create("x", b"mine")
    assert store.names() == []


def test_a_failure_after_the_link_says_so_and_the_file_is_there(store, monkeypatch):
    """An error while syncing the folder does not mean that the file was not written: the caller must look."""
    real = store_module._sync

    def failing(path):
        if path == store.folder:
            raise OSError(5, "Input/output error")
        real(path)

    monkeypatch.setattr(store_module, "_sync", failing)
    with pytest.raises(CheckpointStoreError, match="Input/output error"):
        store.create("x", b"there")
    assert store.read("x") == b"there"


def test_content_is_synced_before_the_name_and_the_folder_after(store, monkeypatch):
    """The order that survives a power cut: the file's bytes, then its name, then the folder."""
    order = []
    fsync, link = os.fsync, os.link

    def fsynced(handle):
        order.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", fsynced)
    monkeypatch.setattr(os, "link", lambda a, b: (order.append("link"), link(a, b)))
    store.create("x", b"1")
    assert order == ["file", "link", "folder"]


def test_no_place_for_a_file(tmp_path):
    """A store on something that is no folder fails with the name of the file that was to be written."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointStoreError, match="file/x"):
        Store(tmp_path / "file").create("x", b"")


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}", "file:///{}"])
def test_local_places(tmp_path, form):
    """A path and every form of file: URI mean the same place, blanks and links resolved."""
    real = tmp_path / "a place"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    text = form.format(tmp_path / "link")
    assert local_path(text) == real.resolve()
    assert local_path(f"file://{tmp_path}/a%20place") == real.resolve()


NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)
NAMES |= st.binary(min_size=1).filter(lambda name: not set(name) & set(b"/\0")).map(os.fsdecode)


@given(NAMES)
def test_every_name_is_taken_literally(name):
    """A path is what it says, whatever letters it has; its URI is plain ASCII, has but one form, and comes back."""
    assume(name not in (".", ".."))
    folder = Path("/nowhere", name)
    assert local_path(f"/nowhere/{name}") == folder
    uri = file_uri(folder)
    assert re.fullmatch(r"file:///nowhere/[A-Za-z0-9%._~-]+", uri)
    assert local_path(uri) == folder
    assert file_uri(local_path(uri)) == uri


@pytest.mark.parametrize("text", ["file:/a#b", "file:///a?b", "file://host/a", "/a\0b", "file:/a%00b"])
def test_what_names_no_file_is_refused(text):
    """A URI whose path would end in the middle, or be on another host, is not cut down to a path that was not meant."""
    with pytest.raises(ConfigurationError, match="is refused"):
        local_path(text)


@pytest.mark.parametrize("uri", ["s3n://bucket/x", "gs://bucket/x", "abfs://x@y/z", "dbfs://x", "dbfs:/x"])
def test_other_schemes_are_refused(uri):
    """A store without proven exclusive creation is refused by its scheme, an object store with the reason."""
    with pytest.raises(ConfigurationError, match="is refused") as caught:
        local_path(uri)
    assert uri.partition(":")[0] in caught.value.what
    assert ("object store" in (caught.value.cause or "")) == (uri[:3] in ("s3n", "gs:", "abf"))


def test_what_works_on_files_alone_refuses_hdfs():
    """A checkpoint on HDFS is refused by what takes its files as paths, by where it is."""
    with pytest.raises(ConfigurationError, match="it is on HDFS") as caught:
        local_path("hdfs://nn:8020/x")
    assert "docs/stores.md" in parts_of(caught.value, ConfigurationError, "hdfs://nn:8020/x").action
    with pytest.raises(ConfigurationError, match="it is on HDFS"):
        local_folder(Store("hdfs://nn:8020/x", Unreached()))


class Unreached:
    """A way to HDFS that nobody goes."""


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("hdfs://nn:8020/checkpoints/a", "hdfs://nn:8020/checkpoints/a"),
        ("HDFS://Service-1//checkpoints/a_b/", "hdfs://Service-1/checkpoints/a_b"),
        ("/hdfs:/x", None),
        ("hdfs", None),
        ("hdfs:x", None),
        ("file:///x", None),
        ("s3a://b/x", None),
    ],
)
def test_places_on_hdfs(text, uri):
    """A folder on HDFS has one name, with its NameNode as it was written; everything else is another's business."""
    assert hdfs_uri(text) == uri


@pytest.mark.parametrize(
    "text", ["hdfs:///x", "hdfs:/x", "hdfs://nn", "hdfs://nn/", "hdfs://nn/a/../b", "hdfs://nn/a b", "hdfs://nn/a%20b",
             "hdfs://me@nn/a", "hdfs://nn/a#b", "hdfs://nn/a?b"]
)  # fmt: skip
def test_what_is_no_place_on_hdfs_is_refused(text):
    """Without a NameNode, or with a path that Spark or Hadoop would read otherwise, it is refused with an example."""
    with pytest.raises(ConfigurationError, match="is refused") as caught:
        hdfs_uri(text)
    assert "hdfs://nn:8020/" in (caught.value.action or "")
