"""``python -m tests.sql.ask_flink``: Flink's answers to the expressions and queries of rows_data, into its flink.json.

Run by ``make sql-rows``; it needs Flink's environment. Only what has no answer yet is asked, unless ``--all``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.sql.rows import FLINKS, asked, given, is_collection, records

ROOT = Path(__file__).resolve().parents[2]
FLINK = ROOT / ".venv-flink" / "bin" / "python"
JOB = ROOT / "bench" / "systems" / "flink_rows_job.py"
_PATIENCE_S = 230
MINUTES = (
    "CREATE TEMPORARY VIEW minutes AS SELECT window_time AS rowtime, COUNT(*) AS n "
    "FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(et), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end, window_time"
)


def tables(folder: Path) -> list[str]:
    """The statements that make the table in Flink."""
    raw, computed = [], []
    for name, of in given().items():
        raw.append(f"raw_{name} {of['type'] if is_collection(of['type']) else 'STRING'}")
        computed.append(f"{name} AS CAST(raw_{name} AS {of['type']})")
    columns = ", ".join([*raw, *computed])
    table = f"CREATE TABLE t ({columns}, WATERMARK FOR et AS et - INTERVAL '99' YEAR - INTERVAL '99' YEAR) WITH ("
    table += f"'connector' = 'filesystem', 'path' = '{folder.as_uri()}', 'format' = 'json')"
    return [table, MINUTES]


def main() -> int:
    """Ask, and write the file."""
    parser = argparse.ArgumentParser(prog="python -m tests.sql.ask_flink", description=__doc__)
    parser.add_argument("--all", action="store_true", help="also what has an answer")
    everything = parser.parse_args().all
    if not FLINK.exists():
        print("Flink's environment is not there: make sql-rows makes it", file=sys.stderr)
        return 2
    kept = {"given": [], "answers": {}} if everything or not FLINKS.exists() else json.loads(FLINKS.read_text())
    rows = records()
    known = kept["answers"] if kept["given"] == rows else {}
    expressions = asked("expressions.sql")
    queries = asked("queries.sql")
    with tempfile.TemporaryDirectory(prefix="onceflow-rows-") as name:
        folder = Path(name)
        (folder / "given").mkdir()
        (folder / "given" / "rows.json").write_text("\n".join(rows) + "\n")
        (folder / "asked.json").write_text(
            json.dumps(
                {
                    "tables": tables(folder / "given"),
                    "scratch": str(folder),
                    "rows": len(rows),
                    "patience_s": _PATIENCE_S,
                    "expressions": [each for each in expressions if each not in known],
                    "queries": [each for each in queries if each not in known],
                }
            )
        )
        command = [str(FLINK), str(JOB), str(folder / "asked.json"), str(folder / "answers.json")]
        ended = subprocess.run(command, check=False, cwd=folder)
        found = json.loads((folder / "answers.json").read_text())
    answers = known | found["answers"]
    texts = [each for each in (*expressions, *queries) if {"rows", "rejected", "fails"} & set(answers.get(each, ()))]
    lines = [f"  {json.dumps(each)}: {json.dumps(answers[each], ensure_ascii=False)}" for each in texts]
    text = f'{{"apache-flink": "{found["version"]}", "given": {json.dumps(rows, ensure_ascii=False)},\n "answers": {{\n'
    FLINKS.write_text(text + ",\n".join(lines) + "\n}}\n")
    unasked = len(expressions) + len(queries) - len(texts)
    if unasked:
        print(f"{unasked} have no answer yet: run it again, it goes on", file=sys.stderr)
    return ended.returncode or int(bool(unasked))


if __name__ == "__main__":
    sys.exit(main())
