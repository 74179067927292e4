"""One type of rule for all tables of options that others name: a client's settings, a connector's, those of Flink.

Must not know: any particular option, what is done with one that is taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

Standing = Literal["taken", "said", "refused"]


@dataclass(frozen=True, slots=True)
class Rule:
    """What an option is here.

    Attributes:
        key: Its name; ``*`` stands for any part.
        standing: Taken; without effect, which is said at a start; or refused.
        doc: What it does, or why it has no effect or is refused.
        instead: Of a refused one: what to do.
        values: The values that are taken, where they are few; those of Flink's that are not are refused by name.
        not_taken: Of Flink's values those that are refused, with why.
    """

    key: str
    standing: Standing
    doc: str
    instead: str = ""
    values: tuple[str, ...] = ()
    not_taken: Mapping[str, str] | None = None


def takes(key: str, doc: str, *values: str, not_taken: Mapping[str, str] | None = None) -> Rule:
    """An option that has its effect."""
    return Rule(key, "taken", doc, values=values, not_taken=not_taken)


def no_effect(key: str, why: str) -> Rule:
    """An option without effect: a start says so."""
    return Rule(key, "said", why)


def refuses(key: str, why: str, instead: str) -> Rule:
    """An option that is refused."""
    return Rule(key, "refused", why, instead)


def rule_for(key: str, rules: Iterable[Rule]) -> Rule | None:
    """The rule of this name, else the first whose pattern it fits; None where there is none."""
    rules = tuple(rules)
    named = (rule for rule in rules if rule.key == key)
    fitting = (rule for rule in rules if "*" in rule.key and fnmatchcase(key, rule.key))
    return next(named, None) or next(fitting, None)
