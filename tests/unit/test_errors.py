"""The tree of errors: what its picture says is what the classes do."""

import re

from onceflow import errors
from onceflow.errors import OnceflowError

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


def _is_ours(value):
    return isinstance(value, type) and issubclass(value, OnceflowError)
