"""The layout of a plan: what stands at each of Spark's positions, and whose state is whose.

Must not know: Spark's plans, Kafka, where a layout is kept. Pure: two layouts in, what is wrong with the change out.

Spark's ``offsets/N`` holds one line for each source of the plan and says of none which it is; its state operators are
numbers, too. So after an edit of the job a position or a state can become another output's without a word from Spark.
The journal therefore keeps what each of them was, and every start compares.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from onceflow.twophase.windows import in_words


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as a source was found to read it.

    Attributes:
        name: Its name.
        id: Its id: a topic that is deleted and made again has another one, and offsets of the old mean nothing in it.
        partitions: How many partitions it had.
    """

    name: str
    id: str
    partitions: int


@dataclass(frozen=True, slots=True)
class LayoutSource:
    """What stands at one position.

    Attributes:
        outputs: Names of the sinks that get what is read here, in order.
        system: The lasting id of the cluster that is read, "" where it is not known.
        reads: What is subscribed to, in words.
        path: A fingerprint of all that lies between the source and its output.
        topics: The topics, in order of their names; empty where they are not known.
        same_as: The first position of the same source; its own for one that stands here first. Spark keeps one position
            for all of them.
    """

    outputs: tuple[str, ...]
    system: str
    reads: str
    path: str
    topics: tuple[Topic, ...] = ()
    same_as: int = -1


@dataclass(frozen=True, slots=True)
class StateOperator:
    """What one state operator keeps.

    Attributes:
        outputs: Names of the sinks that get what it gives, in order.
        shape: What it keeps: operator, keys and functions, in words.
        path: A fingerprint of all that lies below it.
    """

    outputs: tuple[str, ...]
    shape: str
    path: str


@dataclass(frozen=True, slots=True)
class Kept:
    """What Spark keeps for one state operator.

    Attributes:
        outputs: Names of the sinks that get what it gives, in order.
        operator: What it is, in words: a join's type and condition, keys, the output mode.
        columns: What stands in each column of its state, in order: the expression down to the source, and its type;
            None where it is not known.
        names: What Spark calls them in its files, where the plan alone does not say what is kept: of a join's columns,
            a state's fields and variables, and the keys of a DISTINCT.
        narrowed: What rows had to fulfil to be kept, and have to fulfil above once more: others are missing.
        given: What a function with state, or a state class, gets: each column by its name, and what it means. What is
            made of them is in a state that does not say it.
    """

    outputs: tuple[str, ...]
    operator: str
    columns: tuple[str, ...] | None
    names: tuple[str, ...] = ()
    narrowed: tuple[str, ...] = ()
    given: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Watermark:
    """A watermark.

    Attributes:
        delay_ms: How far it stays behind the latest event that it has seen, in milliseconds.
        rows: Which rows it has seen, in words: how that is told, the time that it goes by, and what each had to fulfil.
    """

    delay_ms: int
    rows: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cut:
    """The job began behind events, and without the state of them: windows that began by then are held back.

    Attributes:
        at_ms: The time of the latest of them, in milliseconds, 0 where nobody knows it.
        rows: Of which rows that is known, as of ``Watermark``.
    """

    at_ms: int
    rows: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Sources in the order of Spark's positions, state operators in the order of the plan.

    Attributes:
        sources: The sources.
        states: The state operators, as the job asks for them.
        kept: What Spark keeps for them; None in a layout of before that was written down.
        vocabulary: How that is told. What another onceflow, or another Spark, has told cannot be compared; "" is said
            by a layout of before there were several.
        mark: The one watermark that all state goes by; None where there is none such.
        cut: What the job has no state of; None for a job that has the state of all that was read, or publishes windows
            of a part.
        read: How far was read under other marks, before an edit of the plan; None for a plan whose mark is the first.
    """

    sources: tuple[LayoutSource, ...] = ()
    states: tuple[StateOperator, ...] = ()
    kept: tuple[Kept, ...] | None = None
    vocabulary: str = ""
    mark: Watermark | None = None
    cut: Cut | None = None
    read: Cut | None = None

    def is_told_like(self, other: Layout) -> bool:
        """Whether what is kept can be compared with that of another layout."""
        return self.kept is not None and other.kept is not None and self.vocabulary == other.vocabulary


def read_up_to(layout: Layout, watermark_ms: int) -> Cut:
    """How far a job has read, by its watermarks.

    Args:
        layout: Its newest.
        watermark_ms: Where its watermark stands, in milliseconds; 0 for nowhere.
    """
    mark = layout.mark
    now = Cut(watermark_ms + mark.delay_ms, mark.rows) if mark is not None and watermark_ms else Cut(0)
    known = [now, *(each for each in (layout.read, layout.cut) if each is not None)]
    at_ms = max(each.at_ms for each in known) if all(each.at_ms for each in known) else 0
    return Cut(at_ms, tuple(dict.fromkeys(asked for each in known for asked in each.rows)))


def under(now: Layout, then: Layout, watermark_ms: int) -> Layout:
    """A layout, with what an older one has left out, and how far was read under it.

    Args:
        now: What the plan has.
        then: What the checkpoint knows.
        watermark_ms: Where the watermark stands, in milliseconds; 0 for nowhere.
    """
    is_first = now.mark == then.mark or not watermark_ms  # nothing has moved it so far
    return replace(now, cut=then.cut, read=then.read if is_first else read_up_to(replace(then, cut=None), watermark_ms))


@dataclass(frozen=True, slots=True)
class Remade:
    """A topic that is not the one that the checkpoint's offsets speak of."""

    topic: str
    was: str
    now: str


def what_moved(then: Layout, now: Layout, *, begun: bool = True) -> str | None:
    """Why the checkpoint cannot be gone on with by this plan, or None.

    What may change is everything that moves no position and no state: functions and filters on the way, sinks added to
    an output or taken from it, topics added to a source.

    Args:
        then: What the checkpoint knows.
        now: What the plan has.
        begun: An epoch is done. Before that there is no state, and where none was known any may begin.
    """
    if len(then.sources) != len(now.sources):
        return (
            f"the plan read {len(then.sources)} sources ({_named(then.sources)}) and now reads {len(now.sources)} "
            f"({_named(now.sources)}); an output counts its source once for itself, and so do a source's dead letters"
        )
    for position, (old, new) in enumerate(zip(then.sources, now.sources, strict=True)):
        if not set(old.outputs) & set(new.outputs):
            return (
                f"position {position} belonged to output {_outputs(old)} (reading {old.reads}) and would now belong to "
                f"output {_outputs(new)} (reading {new.reads})"
            )
        if old.system != new.system:
            return (
                f"source {position} ({new.reads}, output {_outputs(new)}) was on cluster {old.system or 'unknown'} and "
                f"is on cluster {new.system or 'unknown'} (only KafkaSource says which)"
            )
        if old.same_as != new.same_as:
            return (
                f"positions that were two sources would become one, or one two: source {position} (output "
                f"{_outputs(new)}) was the one at position {old.same_as} and is the one at position {new.same_as}"
            )
        gone = {t.name for t in old.topics} - {t.name for t in new.topics}
        if gone and old.reads != new.reads:
            return (
                f"source {position} (output {_outputs(new)}) read {old.reads} and now reads {new.reads}: the positions "
                f"in {', '.join(sorted(gone))} would be dropped"
            )
        if not old.topics and old.reads != new.reads:
            return f"source {position} (output {_outputs(new)}) read {old.reads} and now reads {new.reads}"
    exchanged = _exchanged(then.sources, now.sources, "the position")
    if exchanged or not (begun or then.states):
        return exchanged
    if then.kept is not None and now.kept is not None and then.is_told_like(now):
        return _states_moved(then.states, now.states, by_shape=False) or _kept_moved(then.kept, now.kept)
    # Shapes are of the Spark that told them, too; which one it was, older layouts do not say.
    return _states_moved(then.states, now.states, by_shape=not then.vocabulary)


def with_what_was_known(now: Layout, then: Layout) -> Layout:
    """A layout, with the columns of before where none are known now: a later start compares with them."""
    if now.kept is None or then.kept is None or not now.is_told_like(then) or len(now.kept) != len(then.kept):
        return now
    kept = tuple(
        old if new.columns is None and (old.outputs, old.operator) == (new.outputs, new.operator) else new
        for new, old in zip(now.kept, then.kept, strict=True)
    )
    return replace(now, kept=kept)


def named_otherwise(then: Iterable[tuple[str, ...]], now: Sequence[Kept]) -> str | None:
    """What Spark would read under other names than those in its files, where no layout says what is kept; or None.

    Args:
        then: For each state operator, in any order, the names in Spark's files.
        now: What the plan keeps.
    """
    left = list(then)
    for number, kept in enumerate(now):
        if kept.names in left:
            left.remove(kept.names)
        elif kept.names:
            near = next((names for names in left if set(names) & set(kept.names)), next(iter(left), ()))
            return (
                f"state {number} of output {_outputs(kept)} ({kept.operator.partition(',')[0]}) was kept as "
                f"{', '.join(near) or 'nothing'} and would be read as {', '.join(kept.names)}"
            )
    return None


def _states_moved(then: Sequence[StateOperator], now: Sequence[StateOperator], *, by_shape: bool) -> str | None:
    if len(then) != len(now):
        return f"the plan kept {len(then)} states and now keeps {len(now)}"
    for number, (old, new) in enumerate(zip(then, now, strict=True)):
        if not set(old.outputs) & set(new.outputs):
            return f"state {number} belonged to output {_outputs(old)} and would now belong to output {_outputs(new)}"
        was, would = without_texts(old.shape), without_texts(new.shape)
        if by_shape and was != would:
            return (
                f"state {number} of output {_outputs(new)} was kept by {was} and would now be gone on with by {would}"
            )
    return _exchanged(then, now, "the state")


def _kept_moved(then: Sequence[Kept], now: Sequence[Kept]) -> str | None:
    """Spark reads each column of a state by its place alone: what would be read as something else."""
    if len(then) != len(now):
        return f"Spark kept {len(then)} states and would now keep {len(now)}"
    for number, (old, new) in enumerate(zip(then, now, strict=True)):
        if not set(old.outputs) & set(new.outputs):
            return f"state {number} belonged to output {_outputs(old)} and would now belong to output {_outputs(new)}"
        of = f"state {number} of output {_outputs(new)}"
        if old.operator != new.operator:
            was, now_by = _apart(old.operator, new.operator)
            return f"{of} was kept by {was} and would now be gone on with by {now_by}"
        missing = [each for each in old.narrowed if each not in new.narrowed]
        if missing:
            return f"{of} was kept of rows with {_short(missing[0])} alone, which is asked no more: others are missing"
        before = _by_name(old.given)
        for name, means in _by_name(new.given).items():
            if before.get(name, means) != means:
                was, now_is = _apart(before[name], means)
                return f"column {name}, which {of} is made of, was {was} and would be {now_is}"
        if old.columns is None or new.columns is None:
            continue
        of += f" ({new.operator.partition(',')[0]})"
        different = [i for i, (a, b) in enumerate(zip(old.columns, new.columns, strict=False)) if a != b]
        if different:
            was, read_as = old.columns[different[0]], new.columns[different[0]]
            if in_words(was) != in_words(read_as):  # a session's words do not have its time zone
                was, read_as = in_words(was), in_words(read_as)
            was, read_as = _apart(was, read_as)
            return f"column {different[0]} of {of} was {was} and would be read as {read_as}"
        if len(old.columns) != len(new.columns):
            less, more = sorted((old.columns, new.columns), key=len)
            extra = ", ".join(map(_short, more[len(less) :]))
            return f"{of} had {len(old.columns)} columns and would have {len(new.columns)}; the difference is {extra}"
    return None


def _by_name(given: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What columns mean, by name: a key may have that of a column beside it."""
    found: dict[str, str] = {}
    for name, means in given:
        found[name] = f"{found[name]} and {means}" if name in found else means
    return found


_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL)
_HASHED = "… "


def without_texts(words: str, longest: int = 0) -> str:
    """Words about an expression in which texts of the program, which may be secrets, stand by their hashes.

    Args:
        words: Them. What stands by its hash already stays as it is.
        longest: How many characters a text may have to be told as it is.
    """

    def described(found: re.Match[str]) -> str:
        text = found[1]
        if len(text) <= longest or text.startswith(_HASHED):
            return found[0]
        return f"'{_HASHED}{hashlib.sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}'"

    return _TEXT.sub(described, words)


_LONGEST = 160


def _apart(was: str, would: str) -> tuple[str, str]:
    """Two texts, short, with what tells them apart in sight."""
    if max(len(was), len(would)) <= _LONGEST:
        return was, would
    same = next((i for i, (a, b) in enumerate(zip(was, would, strict=False)) if a != b), min(len(was), len(would)))
    begin = max(0, same - _LONGEST // 2)
    return _short(was, begin), _short(would, begin)


def _short(text: str, begin: int = 0) -> str:
    end = begin + _LONGEST
    return ("… " if begin else "") + text[begin:end] + (" …" if end < len(text) else "")


def _exchanged(
    then: Sequence[LayoutSource | StateOperator], now: Sequence[LayoutSource | StateOperator], what: str
) -> str | None:
    """One that stands where another stood before: those that look alike from outside have changed places.

    Of one output, only their ways tell two of them apart. Of two outputs their names do: there a way that becomes like
    that of another is an edit, unless all that take part go round.
    """
    took: dict[int, int] = {}
    for i, new in enumerate(now):
        for j, old in enumerate(then):
            if j != i and then[i].path != new.path == old.path != now[j].path:
                if set(old.outputs) & set(new.outputs):
                    return _takes(old, new, what)
                took.setdefault(i, j)
    for i, first in took.items():
        end = first
        for _ in took:
            end = took.get(end, end)
            if end == i:
                return _takes(then[first], now[i], what)
    return None


def _takes(old: LayoutSource | StateOperator, new: LayoutSource | StateOperator, what: str) -> str:
    return f"{what} of output {_outputs(old)} would become that of output {_outputs(new)}"


def remade(then: Layout, now: Layout) -> Iterator[Remade]:
    """Topics that were deleted and made again, position by position."""
    for old, new in zip(then.sources, now.sources, strict=False):
        known = {t.name: t for t in old.topics}
        for topic in new.topics:
            was = known.get(topic.name)
            if was is not None and was.id != topic.id:
                yield Remade(topic.name, was.id, topic.id)


def folders(sources: Sequence[LayoutSource]) -> list[int]:
    """For each position, the number under which Spark keeps where the source begins (``sources/<number>``).

    ``offsets/N`` has a line for each place of a source in the plan, but Spark has one reader for a source that several
    outputs start from, and one more for each further time that it stands in one output (a join with itself).
    """
    numbers: dict[tuple[int, int], int] = {}
    times: dict[tuple[tuple[str, ...], int], int] = {}
    found = []
    for source in sources:
        nth = times.get((source.outputs, source.same_as), 0)
        times[source.outputs, source.same_as] = nth + 1
        found.append(numbers.setdefault((source.same_as, nth), len(numbers)))
    return found


def _outputs(of: LayoutSource | StateOperator | Kept) -> str:
    return " and ".join(of.outputs)


def _named(sources: Sequence[LayoutSource]) -> str:
    return ", ".join(f"{s.reads} for {_outputs(s)}" for s in sources) or "none"
