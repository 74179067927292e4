"""What an audit has found, and its report.

Must not know: what is looked at, or how.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["receipt", "nothing", "missing", "changed", "foreign", "unknown", "note"]
_DIFFERENCES: tuple[Kind, ...] = ("receipt", "nothing", "missing", "changed")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is to be told.

    Attributes:
        kind: ``receipt``: the chain itself is broken. ``nothing``: nothing could be compared, and why. ``missing``,
            ``changed``, ``foreign``, ``unknown``: of rows. ``note``: nothing is wrong.
        what: In words, with names, places and numbers.
        rows: How many rows it is about.
        sink: Of which sink, or "".
        epoch: Of which epoch, or None.
    """

    kind: Kind
    what: str
    rows: int = 0
    sink: str = ""
    epoch: int | None = None


@dataclass
class Findings:
    """All of them.

    Attributes:
        found: In the order in which they were found.
        epochs: How many epochs were looked at.
        rows: How many rows were seen to be as they were decided.
        keyed: Of these, how many by a keyed digest, which nobody makes without the job's key.
        read: How many records were read for it.
        head: The newest receipt, as ``NUMBER:HASH``; "" where there is none. Kept elsewhere and given to the next
            audit, it shows what was cut or written anew up to it.
        after: The number of the receipt that was noted and is looked for; 0 for none.
        anchored: The newest receipt that has its anchor in a place that only grows; 0 for none.
    """

    found: list[Finding] = field(default_factory=list)
    epochs: int = 0
    rows: int = 0
    keyed: int = 0
    read: int = 0
    head: str = ""
    after: int = 0
    anchored: int = 0

    def add(self, kind: Kind, what: str, rows: int = 0, sink: str = "", epoch: int | None = None) -> None:
        """Keep one."""
        self.found.append(Finding(kind, what, rows, sink, epoch))

    def of(self, *kinds: Kind) -> Iterator[Finding]:
        """Those of some kinds."""
        return (each for each in self.found if each.kind in kinds)

    def is_good(self, *, shared: bool) -> bool:
        """Whether what can be seen is what was decided, as far as it is known; of nothing it is not said.

        Args:
            shared: Others write to the same places: what is foreign is no difference.
        """
        wrong = (*_DIFFERENCES, *(() if shared else ("foreign",)))
        return not any(each.kind in wrong for each in self.found)

    @property
    def against(self) -> str:
        """Against what it proves: accidents alone where one row has no keyed digest, or any line is told.

        Nobody without the key changes what is there; but an end that is cut off, with its rows, is as if it had never
        been. What tells of it is a receipt that an auditor has noted before.
        """
        if not self.keyed == self.rows > 0 or self.found:
            return "accidents"
        known = max(self.after, self.anchored)
        end = f"behind receipt {known}" if known else "off the end (no anchor, no --after)"
        return f"accidents, and people without the key who cut nothing {end}"

    def report(self, *, shared: bool) -> dict[str, Any]:
        """As JSON values."""
        rows: Counter[str] = Counter()
        for each in self.found:
            rows[each.kind] += each.rows
        return {
            "good": self.is_good(shared=shared),
            "against": self.against,
            "epochs": self.epochs,
            "rows": self.rows,
            "keyed": self.keyed,
            "missing": rows["missing"],
            "changed": rows["changed"],
            "foreign": rows["foreign"],
            "unknown": rows["unknown"],
            "receipts": sum(each.kind == "receipt" for each in self.found),
            "read": self.read,
            "head": self.head,
            "anchored": self.anchored,
            "findings": [asdict(each) for each in self.found],
        }
