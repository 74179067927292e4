"""Every message of ours has one style, and says what to do. Read from the source: each place that makes an error."""

import ast
from pathlib import Path

import pytest

import onceflow
from onceflow import errors

SOURCE = Path(onceflow.__file__).parent
KINDS = {name for name, c in vars(errors).items() if isinstance(c, type) and issubclass(c, errors.OnceflowError)}
PARTS = ("harmless", "cause", "action")
NAMES = {"Java", "Kafka", "PySpark", "Spark"} | set(onceflow.__all__)


def places():
    """Each call of one of our error classes, with where it stands."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        ours = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == errors.__name__
            for alias in node.names
        } & KINDS
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ours:
                yield pytest.param(node, id=f"{path.relative_to(SOURCE)}:{node.lineno}")


def parts(call):
    """The texts of a message: what, and what is given by keyword."""
    return [*call.args[:1], *(k.value for k in call.keywords if k.arg in PARTS)]


def begins(node):
    """How a text begins; None where that comes from a variable."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=[first, *_]):
            return begins(first)
        case ast.BinOp(op=ast.Add(), left=left):
            return begins(left)
        case ast.Call(func=ast.Attribute(value=text, attr="format" | "format_map")):
            return begins(text)
    return None


def ends(node):
    """How a text ends; None where that comes from a variable."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=[*_, last]):
            return ends(last)
        case ast.BinOp(op=ast.Add(), right=right):
            return ends(right)
        case ast.Call(func=ast.Attribute(value=text, attr="format" | "format_map")):
            return ends(text)
    return None


def is_name(word):
    """Whether a word keeps its capital: a product, one of our public names, a setting or a variable's name."""
    bare = word.removesuffix("'s").rstrip("(),:")
    return bare in NAMES or bare.isupper() or "_" in bare or "." in bare


@pytest.mark.parametrize("call", list(places()))
def test_a_message_begins_small_and_ends_without_a_full_stop(call):
    """what, harmless, cause and action read as parts of one sentence, wherever they are shown."""
    for part in parts(call):
        first, last = begins(part), ends(part)
        assert not first or not first[0].isupper() or is_name(first.split()[0]), first
        assert not last or not last.endswith(".") or last.endswith("..."), last


@pytest.mark.parametrize("call", list(places()))
def test_a_message_says_what_to_do(call):
    """No error leaves its reader without a way out."""
    assert "action" in {k.arg for k in call.keywords}


def test_the_walk_finds_the_messages():
    """Far more than a hundred places make errors; a walk that finds none would prove nothing."""
    assert len(list(places())) > 110
