"""The corpus: statements of ours with what is expected of each, as files that a person reads."""

import re
from dataclasses import dataclass
from pathlib import Path

from onceflow.flinksql.parsing import parse
from onceflow.flinksql.script import Script

CORPUS = Path(__file__).parent / "corpus"
TABLES = (CORPUS / "tables.sql").read_text()


@dataclass(frozen=True)
class Case:
    """One statement.

    ``runs``; ``refused``, by the word that stands behind it; ``rejected``: Flink's parser does not take it, nor do we;
    ``exception``: Flink's parser does not take it, and we do; ``unknown``: Flink's parser takes it and its validator,
    which knows tables and types, does not.
    """

    file: str
    expected: str
    word: str
    text: str

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.text.split())[:70]}"


def cases() -> list[Case]:
    found = []
    for path in sorted(CORPUS.glob("*.sql")):
        if path.name == "tables.sql":
            continue
        for block in re.split(
            r"^(?=-- (?:runs|refused|rejected|exception|unknown))", path.read_text(), flags=re.MULTILINE
        ):
            if block.strip():
                first, _, text = block.partition("\n")
                expected, _, word = first.removeprefix("-- ").partition(": ")
                found.append(
                    Case(
                        path.stem,
                        expected,
                        word,
                        text.strip().removesuffix(";") if "END;" not in text else text.strip(),
                    )
                )
    return found


def script() -> Script:
    """One with the corpus's tables."""
    made = Script()
    for statement in parse(TABLES):
        made.take(statement)
    return made
