"""The verdict: what was found, whether the proof was not empty, and how it is told.

Must not know: how anything was found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from onceflow.demo.chaos import Kill
from onceflow.demo.verify import Findings

KILLS_WANTED = 3

Verdict = Literal["PASS", "FAIL", "UNKNOWN"]


def what_next(*, sql: bool) -> str:
    """For a user whose demo went well: of the job that was seen, in its own language."""
    job, run = ("fraud.sql", "sql JOB.sql") if sql else ("fraud.py", "run JOB.py")
    file = run.split()[1]
    return f"""
What to try next:
  onceflow demo --seed 2         other payments, killed at other moments
  onceflow dev up                a Kafka of your own, at localhost:9092
  {f"onceflow {run}":30} a job of your own; the one that you saw is
                                 {Path(__file__).with_name(job)}
  {f"onceflow txn list {file}":30} a job's transactions, and who keeps its readers waiting"""


@dataclass(frozen=True)
class Report:
    """What the demo found.

    Attributes:
        seed: Of the payments.
        chaos: Whether kills were wanted.
        findings: What the judge found.
        open_transactions: Transactions of the job that are still open after it was stopped.
        kills: What was killed.
        starts: How often the job was started.
        unplanned_ends: How often the job ended though nobody had killed it.
        exit_code: The job's, after SIGTERM at the end.
        seconds: The whole run.
    """

    seed: int
    chaos: bool
    findings: Findings
    open_transactions: int
    kills: Sequence[Kill]
    starts: int
    unplanned_ends: int
    exit_code: int | None
    seconds: float

    @property
    def failures(self) -> list[str]:
        """What is not exactly once."""
        found = {
            "lost": self.findings.lost,
            "duplicated": self.findings.duplicated,
            "wrong": self.findings.wrong,
            "seen and then gone": self.findings.withdrawn,
            "transactions left open": self.open_transactions,
        }
        return [f"{count} {what}" for what, count in found.items() if count]

    @property
    def gaps(self) -> list[str]:
        """Why this run, if it found no failure, would prove nothing."""
        gaps = []
        if self.findings.alerts_expected == 0:
            gaps.append("there was no alert to lose")
        if self.findings.payments_missing:
            gaps.append(f"{self.findings.payments_missing} payments are not there as the producer committed them")
        if self.findings.aborted_payments == 0:
            gaps.append("there was no aborted payment to read by mistake")
        if self.chaos and len(self.kills) < KILLS_WANTED:
            gaps.append(f"{len(self.kills)} of {KILLS_WANTED} kills happened")
        if any(kill.seconds_to_recover is None for kill in self.kills):
            gaps.append("the job did not recover from a kill")
        return gaps

    @property
    def verdict(self) -> Verdict:
        """PASS only if nothing is wrong and the proof is not empty."""
        if self.failures:
            return "FAIL"
        return "UNKNOWN" if self.gaps else "PASS"

    def as_json(self) -> dict[str, Any]:
        """All of it, for programs."""
        fields: dict[str, Any] = asdict(self)
        findings: dict[str, Any] = fields.pop("findings")
        for kill in fields["kills"]:
            if kill["seconds_to_recover"] is not None:
                kill["seconds_to_recover"] = round(kill["seconds_to_recover"], 1)
        return (
            findings
            | fields
            | {
                "kills": len(self.kills),
                "killed": fields["kills"],
                "aborted_seen_uncommitted": self.findings.aborted_payments + self.findings.aborted_alerts,
                "seconds": round(self.seconds, 1),
                "reasons": [*self.failures, *self.gaps],
                "verdict": self.verdict,
            }
        )

    def as_text(self) -> str:
        """All of it, for people."""
        found = self.findings
        survived = sum(kill.seconds_to_recover is not None for kill in self.kills)
        rows = {
            "payments": f"{found.records:,}, and {found.aborted_payments:,} aborted, {found.malformed:,} malformed",
            "alerts": f"{found.alerts_expected:,} expected, {found.alerts_found:,} found",
            "lost": f"{found.lost:,}",
            "doubled": f"{found.duplicated:,}",
            "wrong": f"{found.wrong:,}",
            "aborted records": f"{found.aborted_payments:,} payments and {found.aborted_alerts:,} alerts, all skipped",
            "kills survived": f"{survived}",
        }
        lines = [f"{name:<16} {value}" for name, value in rows.items()]
        for kill in self.kills:
            took = "never" if kill.seconds_to_recover is None else f"{kill.seconds_to_recover:.1f} s"
            lines.append(f"  {kill.target:<6} recovered in {took:>6}: {kill.moment}")
        lines += [f"  {example}" for example in self.findings.examples]
        lines.append(f"seed {self.seed}, {self.seconds:.0f} s")
        reasons = "; ".join((*self.failures, *self.gaps))
        lines.append(f"verdict: {self.verdict}" + (f" ({reasons})" if reasons else ""))
        return "\n".join(lines)
