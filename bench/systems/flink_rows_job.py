"""What Flink gives for expressions and queries, one by one: types, rows, and which rows fail.

Must not know: who asks, onceflow. It runs in Flink's own environment.
"""

import json
import sys
import time
from pathlib import Path

import pyflink.version
from py4j.protocol import Py4JJavaError
from pyflink.common import Configuration
from pyflink.java_gateway import get_gateway
from pyflink.table import EnvironmentSettings, TableEnvironment
from pyflink.util.exceptions import TableException

told = json.loads(Path(sys.argv[1]).read_text())


def cluster() -> tuple[object, dict[str, str]]:
    """One for all queries, and where it is: PyFlink would start another for each."""
    runtime = get_gateway().jvm.org.apache.flink
    settings = runtime.configuration.Configuration()
    for name, value in {
        "rest.address": "127.0.0.1",
        "rest.bind-address": "127.0.0.1",
        "rest.bind-port": "0",
        "io.tmp.dirs": told["scratch"],
    }.items():
        settings.setString(name, value)
    form = runtime.runtime.minicluster.MiniClusterConfiguration.Builder()
    form = form.setConfiguration(settings).setNumTaskManagers(1).setNumSlotsPerTaskManager(8).build()
    made = runtime.runtime.minicluster.MiniCluster(form)
    made.start()
    at = made.getRestAddress().get()
    return made, {"execution.target": "remote", "rest.address": at.getHost(), "rest.port": str(at.getPort())}


running, place = cluster()


def environment(*, batch: bool) -> TableEnvironment:
    configuration = Configuration()
    for name, value in {
        "parallelism.default": "1",
        "table.local-time-zone": "UTC",
        "io.tmp.dirs": told["scratch"],
        "table.exec.resource.default-parallelism": "1",
        "restart-strategy.type": "none",
        **place,
    }.items():
        configuration.set_string(name, value)
    settings = EnvironmentSettings.new_instance()
    settings = (settings.in_batch_mode() if batch else settings.in_streaming_mode()).with_configuration(configuration)
    made = TableEnvironment.create(settings.build())
    for statement in told["tables"]:
        made.execute_sql(statement)
    return made


def shown(value: object) -> object:
    """A value of Java's as text; the same for each type, however py4j brings it."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes | bytearray):
        return bytes(value).hex()
    if isinstance(value, int | float):
        return repr(value)
    if hasattr(value, "getClass"):
        name = value.getClass().getName()
        if name.startswith("["):
            return [shown(each) for each in value]
        if name == "org.apache.flink.types.Row":
            return [shown(value.getField(i)) for i in range(value.getArity())]
        if name.endswith("Map"):
            return sorted([[shown(entry.getKey()), shown(entry.getValue())] for entry in value.entrySet()], key=repr)
        return value.toString()
    return format(value, "f")  # a decimal


def asked(of: TableEnvironment, query: str) -> tuple[list[str], list[list[object]]]:
    """Types and rows."""
    answer = of._j_tenv.executeSql(query)  # noqa: SLF001 - PyFlink's own rows lose instants
    types = [each.getLogicalType().asSummaryString() for each in answer.getResolvedSchema().getColumnDataTypes()]
    found, rows = answer.collect(), []
    try:
        while found.hasNext():
            row = found.next()
            rows.append([shown(row.getField(i)) for i in range(row.getArity())])
    finally:
        found.close()
    return [each.removesuffix(" NOT NULL") for each in types], rows


def said(error: Exception) -> str:
    """The innermost reason, in a line."""
    java = getattr(error, "java_exception", None)
    while java is not None and java.getCause() is not None:
        java = java.getCause()
    text = str(error) if java is None else java.toString()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else "?")[:160]


FAILURES = (Py4JJavaError, TableException, Exception)
tables = environment(batch=True)
streams = environment(batch=False)


def objection(of: TableEnvironment, query: str) -> str:
    """What is said against a query before it is run; "" if nothing is."""
    try:
        of.sql_query(query)
    except FAILURES as error:
        return said(error)
    return ""


def evaluate(expressions: list[str], ids: list[int]) -> dict[str, dict]:
    """Each expression in each row; where one fails, halves are tried until it is found."""
    first = expressions[0]
    columns = ", ".join(f"{each} AS `c{i}`" for i, each in enumerate(expressions))
    try:
        where = f"id IN ({', '.join(map(str, ids))})"
        types, rows = asked(tables, f"SELECT id, {columns} FROM t WHERE {where}")  # noqa: S608 - a file's own
    except FAILURES as error:
        if len(expressions) > 1:
            middle = len(expressions) // 2
            return evaluate(expressions[:middle], ids) | evaluate(expressions[middle:], ids)
        if len(ids) == told["rows"] and (reason := objection(tables, f"SELECT {first} FROM t")):  # noqa: S608
            return {first: {"rejected": reason}}
        if len(ids) > 1:
            middle = len(ids) // 2
            one, other = evaluate(expressions, ids[:middle])[first], evaluate(expressions, ids[middle:])[first]
            return {first: {"type": one["type"] or other["type"], "rows": one["rows"] | other["rows"]}}
        return {first: {"type": "", "rows": {ids[0]: {"fails": said(error)}}}}
    return {
        each: {"type": types[i + 1], "rows": {int(row[0]): row[i + 1] for row in rows}}
        for i, each in enumerate(expressions)
    }


answers: dict[str, dict] = {}


def keep() -> None:
    Path(sys.argv[2]).write_text(json.dumps({"version": pyflink.version.__version__, "answers": answers}))


until = time.monotonic() + told["patience_s"]
rest = told["expressions"]
while rest and time.monotonic() < until:
    print(f"{len(rest)} expressions", flush=True)
    for each, found in evaluate(rest[:40], list(range(told["rows"]))).items():
        if "rows" in found:
            found["rows"] = [found["rows"][i] for i in range(told["rows"])]
        answers[each] = found
    rest = rest[40:]
    keep()
for each in told["queries"]:
    if time.monotonic() > until:
        break
    of = streams if any(word in each for word in ("TUMBLE", "HOP", "SESSION", "BETWEEN b.et")) else tables
    reason = objection(of, each)
    try:
        types, rows = ([], []) if reason else asked(of, each)
        answers[each] = {"rejected": reason} if reason else {"types": types, "rows": sorted(rows, key=repr)}
    except FAILURES as error:
        answers[each] = {"types": [], "fails": said(error)}
keep()
running.close()
