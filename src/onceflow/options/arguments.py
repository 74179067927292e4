"""Arguments of what a user calls: whether each is of the type that its signature names, told at the call.

Must not know: who is called. The types stand once, in the signature; what is told of one that does not fit is made from
it. What depends on more than the type (a name's letters, two that go together) is checked where it is used.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from difflib import get_close_matches
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from onceflow.errors import ConfigurationError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

_WORDS: Mapping[object, tuple[str, str]] = {
    str: ("text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "True or False"),
    NoneType: ("None", "None"),
    os.PathLike: ("a path", "paths"),
    re.Pattern: ("a compiled pattern", "compiled patterns"),
    Any: ("anything", "anything"),
}


_RENAMED: Mapping[tuple[str, str], str] = {
    ("Checkpointing", "retention"): "on_cancel",
}
"""What an argument was called before the first release, and is called now."""

_ALWAYS_EXACTLY_ONCE = "remove it: a table's rows are always exactly-once; tasks no longer write straight into it"
_GONE: Mapping[tuple[str, str], str] = dict.fromkeys(
    (("DatabaseSink", "guarantee"), ("DatabaseSink", "delivery")), _ALWAYS_EXACTLY_ONCE
)
"""What to do about an argument that there was before the first release, and is no more."""


def checked(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function or an ``__init__``: each argument must be one of the signature's, and of the type it names.

    Raises:
        ConfigurationError: By the function that this makes; it names the argument, its value, and what is taken.
    """
    return _checked(call, ())


def named(call: Callable[P, R]) -> Callable[P, R]:
    """As ``checked``, for a function that looks at the values by itself: arguments must be the signature's.

    Raises:
        ConfigurationError: By the function that this makes; it names the argument.
    """
    return _checked(call, tuple(inspect.signature(call).parameters))


def named_fields(kind: type[T]) -> type[T]:
    """Decorate a dataclass: as ``named``, for its fields."""
    kind.__init__ = named(kind.__init__)  # type: ignore[method-assign]
    return kind


def checked_but(*later: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """As ``checked``, for a function that must do something before it checks these (by ``require_argument``)."""
    return functools.partial(_checked, later=later)


def _checked(call: Callable[P, R], later: Collection[str]) -> Callable[P, R]:
    signature = inspect.signature(call)

    @functools.wraps(call)
    def with_checks(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise _misnamed(call, signature, kwargs, str(error)) from None
        for name, value in given.items():
            if name not in later:
                require_argument(call, name, value)
        return call(*args, **kwargs)

    return with_checks


def require_argument(call: Callable[..., object], name: str, value: object) -> None:
    """Check one argument of a function.

    Raises:
        ConfigurationError: It names the argument, its value, and what is taken.
    """
    hint = _types(inspect.unwrap(call)).get(name, Any)
    if not fits(value, hint):
        wrong(_name_of(call), name, _shown(value), _wanted(value, hint))


def _name_of(call: Callable[..., object]) -> str:
    return call.__qualname__.removesuffix(".__init__")


def _misnamed(
    call: Callable[..., object], signature: inspect.Signature, given: Collection[str], said: str
) -> ConfigurationError:
    """The error for arguments that a signature does not have, or that it needs and were not given."""
    known = [name for name in signature.parameters if name != "self"]
    for name in given:
        if name not in known:
            now, gone = (of.get((_name_of(call), name)) for of in (_RENAMED, _GONE))
            meant = [now] if now else get_close_matches(name, known, n=1, cutoff=0.75)
            return ConfigurationError(
                f"{_name_of(call)} has no argument {name}",
                cause=f"{name}= was given; its arguments are {', '.join(known)}",
                action=gone
                or (
                    f"it is called {now}= now"
                    if now
                    else f"did you mean {meant[0]}=?"
                    if meant
                    else "remove it (docs/settings.md tells each)"
                ),
                setting=name,
            )
    return ConfigurationError(
        f"{_name_of(call)} cannot be called like this: {said}",
        cause=f"its arguments are {', '.join(known)}",
        action="give those that have no default, and those behind a * by their names",
    )


def _wanted(value: object, hint: Any) -> str:
    """What is taken, in words; and that parentheses are missing where a class was given in the place of its object."""
    several = isinstance(value, Collection) and not isinstance(value, str | bytes)
    found = next((each for each in (value if several else (value,)) if isinstance(each, type)), None)  # type: ignore[attr-defined]
    return in_words(hint) if found is None else f"{in_words(hint)}: not the class, but {found.__name__}(…)"


@functools.cache
def _types(call: Callable[..., object]) -> Mapping[str, Any]:
    """What a signature names: read when it is first called, when all that it names is there."""
    return get_type_hints(call)


def require_fields(made: object) -> None:
    """Check the fields of a dataclass, from its ``__post_init__``.

    Raises:
        ConfigurationError: It names the field, its value, and what is taken.
    """
    kind = type(made)
    for name, hint in get_type_hints(kind).items():
        if not fits(value := getattr(made, name), hint):
            wrong(kind.__name__, name, _shown(value), _wanted(value, hint))


def wrong(of: str, name: str, shown: str, wanted: str) -> NoReturn:
    """Refuse an argument.

    Args:
        of: Whose it is.
        name: Its name.
        shown: Its value, without secrets.
        wanted: What is taken.

    Raises:
        ConfigurationError: It names the argument, its value, and what is taken.
    """
    raise ConfigurationError(f"{of} has a wrong {name}", cause=f"{name}={shown}", action=f"give {wanted}", setting=name)


def fits(value: object, hint: Any) -> bool:
    """Whether a value is of a type, as annotations write it."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if hint is Any:
        return True
    if isinstance(hint, TypeVar):
        return fits(value, hint.__bound__)
    if kind in (Union, UnionType):
        return any(fits(value, each) for each in parts)
    if kind is Literal:
        return any(type(value) is type(each) and value == each for each in parts)
    if kind is Sequence:  # sets have always passed; text is a sequence of texts, and never meant as one
        several = isinstance(value, Collection) and not isinstance(value, str | bytes | Mapping)
        return several and all(fits(each, parts[0]) for each in value)  # type: ignore[attr-defined]
    if kind is Mapping:
        return isinstance(value, Mapping) and all(fits(k, parts[0]) and fits(v, parts[1]) for k, v in value.items())
    if kind is Callable:
        return callable(value)
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    return value is None if hint is None else isinstance(value, kind)


def in_words(hint: Any, *, several: bool = False) -> str:
    """What a type takes, in words."""
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if isinstance(hint, TypeVar):
        return in_words(hint.__bound__)
    if kind in (Union, UnionType):
        return _either([in_words(each, several=several) for each in parts])
    if kind is Literal:
        return _either([repr(each) for each in parts])
    if kind is Sequence:
        return ("lists" if several else "a list") + f" of {in_words(parts[0], several=True)}"
    if kind is Mapping:
        one, other = (in_words(each, several=True) for each in parts)
        return ("dicts" if several else "a dict") + f" of {one} to {other}"
    if kind is Callable:
        return "functions" if several else "a function"
    if kind in _WORDS:
        return _WORDS[kind][several]
    name = str(kind.__name__)
    return f"{name}s" if several else f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _either(words: Sequence[str]) -> str:
    *others, last = dict.fromkeys(words)
    return f"{', '.join(others)} or {last}" if others else last


def _shown(value: object) -> str:
    """A value as a message shows it; what may hold a secret is told by its type alone."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{type(k).__name__}: {type(v).__name__}' for k, v in value.items())}}}"
    if isinstance(value, str | int | float | NoneType):
        return repr(value)
    return f"the class {value.__name__}" if isinstance(value, type) else f"something of type {type(value).__name__}"
