"""The tree of errors: what its picture says is what the classes do."""

import ast
import re
from pathlib import Path

from onceflow import errors
from onceflow.errors import OnceflowError, advice_by_command, advised

_LINE = re.compile(
    r"^    (?P<before>[│ ]*)(?:├──|└──) (?P<name>\w+Error)(?: +(?P<retriable>yes|no) +\S.*)?$", re.MULTILINE
)


def pictured():
    """Each error in the picture: its name, its parent's, and its word for retriable (None: a branch)."""
    above = ["OnceflowError"]
    for line in _LINE.finditer(errors.__doc__):
        depth = len(line["before"]) // 4 + 1
        above = [*above[:depth], line["name"]]
        yield line["name"], above[depth - 1], line["retriable"]


def test_every_error_is_in_the_picture():
    """None is forgotten, and each hangs where it is drawn."""
    made = {
        c.__name__: c.__bases__[0].__name__ for c in vars(errors).values() if _is_ours(c) and c is not OnceflowError
    }
    assert {name: parent for name, parent, _ in pictured()} == made


def test_retriable_is_what_the_picture_says():
    """Class by class: may the same job be started again, as it is, and go on? A branch without a word says no."""
    found = {name: getattr(errors, name).retriable for name, _, _ in pictured()}
    assert found == {name: said == "yes" for name, _, said in pictured()}
    assert not OnceflowError.retriable


def test_advice_is_said_as_the_caller_can_follow_it():
    """An argument in Python; a flag inside of a command, and an argument again after it."""
    assert (advised("claim"), advised("as-new")) == ('takeover="claim"', 'takeover="as-new"')
    with advice_by_command():
        assert (advised("claim"), advised("as-new")) == ("--claim", "--as-new")
    assert advised("claim") == 'takeover="claim"'


def test_no_message_names_a_flag_that_its_caller_may_not_have():
    """In all that a job runs, what to do about a checkpoint is said by ``advised`` alone."""
    rooms = ("checkpoint", "connectors", "execution", "spark", "twophase")
    root = Path(errors.__file__).parent
    for path in (p for name in rooms for p in (root / name).rglob("*.py")):
        tree = ast.parse(path.read_text())
        said = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
        explained = {
            n.value.value for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)
        }
        assert not [t for t in said if re.search("--claim|--as-new|takeover=", t) and t not in explained], path


def _is_ours(value):
    return isinstance(value, type) and issubclass(value, OnceflowError)
