"""How we compare: ratios of measured figures.

Must not know: how anything is measured or shown. A figure that the results do not have makes its ratio None.
"""

from __future__ import annotations

from typing import Any

from bench.latency import INTERVALS_MS


def ratios(results: dict[str, Any]) -> dict[str, float | None]:
    """How we compare. Of rates (warm) above 1 is better; of all else, which is time, below 1.

    The first of latency is ours back to back against Flink's every second.
    """
    warm = {(row["work"], row["system"]): row["warm_rate"] for row in results.get("throughput", [])}
    spent = {(row["work"], row["system"]): row.get("processor_s_per_million") for row in results.get("throughput", [])}

    def ratio(ours: float | None, theirs: float | None) -> float | None:
        return round(ours / theirs, 3) if ours and theirs else None

    p99 = {(row["system"], row["interval_ms"]): row["p99_ms"] for row in results.get("latency", [])}
    away = {row["system"]: row["recovery_s"] for row in results.get("recovery", [])}
    # Of results from before there were partitions without records, every partition was a participant.
    prepare = {
        row.get("partitions", row.get("participants")): row.get("prepare_ms")
        for row in results.get("participants", [])
        if row.get("filled") in (None, row.get("partitions"))
    }
    made = {f"{work}_vs_{peer}": ratio(warm.get((work, "onceflow")), warm.get((work, peer))) for work, peer in _PEERS}
    made |= {
        f"{work}_processor_vs_{peer}": ratio(spent.get((work, "onceflow")), spent.get((work, peer)))
        for work, peer in _PEERS
    }
    made["latency_p99_vs_flink"] = ratio(p99.get(("onceflow", 0)), p99.get(("flink", 1_000)))
    for ms in INTERVALS_MS:
        made[f"latency_p99_{ms}ms_vs_flink"] = ratio(p99.get(("onceflow", ms)), p99.get(("flink", ms)))
    made["recovery_vs_flink"] = ratio(away.get("onceflow"), away.get("flink"))
    return made | {f"prepare_{many}_vs_4": ratio(prepare.get(many), prepare.get(4)) for many in (128, 512)}


_PEERS = (("fraud", "spark"), ("fraud", "flink"), ("copy", "spark"), ("copy", "flink"), ("fraud", "quix"))
