"""The schemas in a checkpoint: each is there once, never changes, and is read whole or refused by its file's name."""

import pytest

from onceflow.checkpoint.schemas import KeptSchemas, SchemaOfId, SchemaOfReader, SchemaOfWriter
from onceflow.errors import CheckpointConflictError, CheckpointCorruptError
from onceflow.storage.store import Store

SOME = [
    SchemaOfId("registry", 7, '{"type":"record","name":"R","fields":[]}'),
    SchemaOfId("other", 7, '"string"'),
    SchemaOfId("registry", 8, None),
    SchemaOfReader("registry", "shop/payments-value", '"string"'),
    SchemaOfReader("registry", "b-c", '"string"'),
    SchemaOfReader("registry-b", "c", '"string"'),
    SchemaOfReader("registry", f"{'t' * 249}-value", '"string"'),
    SchemaOfReader("registry", f"{'t' * 249}-value@2", '"string"'),
    SchemaOfWriter("registry", "totals-value", "", 9, '"string"'),
    SchemaOfWriter("registry", "totals-value", '"int"', 10, '"int"'),
]


@pytest.fixture
def kept(tmp_path):
    return KeptSchemas(Store(tmp_path / "schemas"))


def test_what_is_kept_is_read(kept):
    """Of two registries, with subjects of any letters; keeping one again changes nothing."""
    assert list(kept.read()) == []
    for each in [*SOME, *SOME]:
        kept.keep(each)
    assert sorted(map(repr, kept.read())) == sorted(map(repr, SOME))
    assert len(kept.files()) == len(SOME)


def test_another_schema_for_the_same_id_is_refused(kept):
    """Two starts that have asked two registries: the second is told, and the first one's stays."""
    kept.keep(SOME[0])
    with pytest.raises(CheckpointConflictError) as error:
        kept.keep(SchemaOfId("registry", 7, '"int"'))
    assert "id.registry.7.json" in error.value.what
    assert error.value.action
    assert list(kept.read()) == [SOME[0]]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "5",
        "[]",
        "{}",
        '{"registry":"registry","id":"7","text":"\\"int\\""}',
        '{"registry":"registry","id":7}',
        '{"registry":"registry","id":7,"text":"{"}',
        '{"registry":"registry","id":7,"text":5}',
        '{"registry":"registry","id":8,"text":"\\"int\\""}',
        '{"registry":"registry","id":7,"text":"\\"int\\"","more":1}',
        "[" * 100_000,
        b"\xff",
    ],
)
def test_a_spoiled_file_is_refused_by_its_name(kept, tmp_path, content):
    """Nothing is read by half a schema, nor by another one's."""
    kept.keep(SOME[0])
    path = tmp_path / "schemas" / "id.registry.7.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CheckpointCorruptError) as error:
        list(kept.read())
    assert error.value.facts["file"] == str(path)


def test_what_else_lies_there_is_no_schema(kept, tmp_path):
    """A writer that died leaves a file of another name."""
    kept.keep(SOME[0])
    (tmp_path / "schemas" / ".id.registry.9.json.tmp").write_text("{")
    (tmp_path / "schemas" / "notes.txt").write_text("mine")
    assert list(kept.read()) == [SOME[0]]
