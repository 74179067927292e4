"""The rules of the house: who may import what, what modules are called, and that docs and code agree."""

import ast
import inspect
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

import onceflow
from onceflow.options import catalogue
from onceflow.twophase import state

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "onceflow"
MODULES = sorted(SOURCE.rglob("*.py"))


ROOMS = {
    # What a user writes.
    "public": {
        "job", "program", "options", "flinksql", "supervision", "connectors", "connectors.database", "connectors.kafka",
        "connectors.lake", "formats", "spark", "twophase", "version",
    },
    "version": set(),
    "job": {
        "errors", "checkpoint", "control", "formats", "metrics", "options", "connectors", "connectors.kafka",
        "execution", "launch", "rerun", "spark", "program", "supervision", "operations.transactions",
    },
    "supervision": {
        "errors", "control", "formats", "options", "execution", "checkpoint", "storage", "program", "waiting",
    },
    "control": {"errors", "waiting"},
    "program": {"errors", "masking"},
    "options": {"errors", "masking"},
    "errors": {"masking"},
    "masking": set(),
    "findings": {"errors"},
    # The rules, and what they stand on.
    "twophase": set(),
    "storage": {"errors", "masking", "processes", "twophase"},
    "checkpoint": {"errors", "storage", "twophase"},
    "processes": set(),
    "waiting": set(),
    "crash_points": {"processes"},
    # The systems, and Spark.
    "formats": {"errors", "masking", "options", "twophase"},
    "connectors": {"errors", "findings", "formats", "twophase"},
    "connectors.kafka": {"connectors", "formats", "errors", "findings", "masking", "options", "twophase", "waiting"},
    "connectors.database": {"connectors", "formats", "errors", "findings", "options", "processes", "twophase"},
    "connectors.registry": {"errors", "formats", "masking", "options", "twophase"},
    "connectors.lake": {"connectors", "formats", "errors", "options", "twophase"},
    "spark": {
        "errors", "masking", "options", "twophase", "checkpoint", "storage", "crash_points", "local", "processes",
    },
    "execution": {
        "errors", "options", "twophase", "checkpoint", "connectors", "formats", "spark", "crash_points", "version",
        "waiting",
    },
    "launch": {
        "errors", "findings", "options", "twophase", "checkpoint", "connectors", "connectors.registry", "formats",
        "spark", "execution", "processes", "waiting",
    },
    "rerun": {"errors", "twophase", "checkpoint", "connectors", "spark", "crash_points", "execution", "launch"},
    "metrics": {"errors", "options", "twophase", "checkpoint", "connectors", "control", "execution"},
    # From outside of a job.
    "operations": set(),
    "operations.transactions": {
        "errors", "options", "twophase", "checkpoint", "storage", "connectors", "execution", "launch", "rerun",
        "crash_points",
    },
    "operations.checkpoints": {"errors", "checkpoint"},
    "operations.doctor": {
        "errors", "findings", "options", "checkpoint", "storage", "connectors", "control", "execution", "launch",
        "local", "operations.transactions", "spark",
    },
    "operations.savepoints": {"errors", "twophase", "checkpoint", "spark", "storage"},
    "audit": set(),  # so that no fault of ours can hide itself
    "local": {"errors", "processes", "waiting"},
    "archive": {"errors", "local", "processes", "public", "spark"},
    "testing": {"crash_points", "processes", "errors", "twophase", "connectors", "connectors.kafka", "waiting"},
    # What sees public names only.
    # Flink's SQL, which makes jobs.
    "flinksql": {
        "job", "program", "errors", "masking", "options", "checkpoint", "storage", "connectors", "connectors.database",
        "connectors.kafka", "connectors.lake", "formats", "spark", "launch",
    },
    "demo": {"public", "errors", "local", "testing", "processes"},
    "__main__": {"cli"},
    "cli": {
        "archive", "public", "errors", "findings", "masking", "audit", "job", "program", "local", "demo",
        "operations.transactions", "operations.checkpoints", "operations.doctor", "operations.savepoints", "options",
        "checkpoint", "control", "storage",
        "connectors", "spark", "flinksql", "supervision", "twophase",
    },
}  # fmt: skip
"""Which rooms each room may import: the "must not know" of its files, as a table. There are no exceptions."""

LIBRARIES = {
    "sqlalchemy": {"audit", "connectors.database"},
    "pyiceberg": {"audit", "connectors.lake"},
    "deltalake": {"audit", "connectors.lake"},
    "obstore": {"storage"},
    "boto3": {"storage"},
    "botocore": {"storage"},
    "pyspark": {
        "operations.savepoints",
        "job",
        "connectors",
        "formats",
        "connectors.database",
        "connectors.kafka",
        "connectors.lake",
        "execution",
        "launch",
        "rerun",
        "spark",
        "archive",
        "demo",
        "flinksql",
    },
    "pandas": {"flinksql"},
    "sqlglot": {"flinksql"},
    "prompt_toolkit": {"cli"},
    "google": {"connectors.registry", "formats"},
    "kafka": {"audit", "connectors.kafka"},
    "confluent_kafka": {"archive", "connectors.kafka", "connectors.registry", "local", "demo"},
    "pyarrow": {
        "audit",
        "formats",
        "connectors",
        "connectors.database",
        "connectors.kafka",
        "connectors.lake",
        "execution",
        "rerun",
        "operations.savepoints",
        "flinksql",
        "testing",
    },
    "prometheus_client": {"metrics"},
    "py4j": {"spark"},
    "numpy": {"audit", "connectors.kafka", "connectors.lake", "execution"},
    "pydantic": {"connectors.kafka", "formats", "options"},
    "typer": {"cli"},
    "rich": {"demo"},
    "psutil": {"processes"},
}
"""Which rooms may import each library; those that are not here are nobody's."""

WORKERS = (
    "execution/task.py",
    "execution/carried.py",
    "twophase/keyed.py",
    "formats/arrow_values.py",
    "formats/protobuf_schema.py",
    "formats/protobuf_reading.py",
    "formats/protobuf_writing.py",
    "formats/wire_form.py",
    "connectors/contract.py",
    "connectors/marks.py",
    "connectors/staged.py",
    "connectors/kafka/plain_writer.py",
    "connectors/kafka/login_refused.py",
    "connectors/kafka/produce.py",
    "connectors/kafka/refusals.py",
    "connectors/kafka/writer.py",
    "connectors/kafka/batch.py",
    "connectors/kafka/prepared.py",
    "connectors/kafka/partition.py",
    "connectors/lake/staged.py",
    "connectors/lake/staging.py",
    "connectors/lake/writer.py",
    "connectors/lake/refusals.py",
    "connectors/lake/iceberg_files.py",
    "connectors/lake/delta_files.py",
)
"""What Spark's workers load."""

TWO_LEVELS = ("connectors", "operations")


def imports(path: Path) -> set[str]:
    """Names of all modules that a file imports, wherever in it; of a package with what is taken out of it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            whole = (SOURCE.parent / node.module.replace(".", "/")).is_dir()
            found |= {f"{node.module}.{alias.name}" for alias in node.names} if whole else {node.module}
    return found


def room(path: Path) -> str:
    return room_of(path.relative_to(SOURCE).with_suffix("").parts)


def room_of(parts: Sequence[str]) -> str:
    """The room of a module's name without the package's, or of a public name."""
    if parts[0] == "__init__" or (len(parts) == 1 and hasattr(onceflow, parts[0]) and parts[0] not in ROOMS):
        return "public"
    if parts[0] in TWO_LEVELS and len(parts) > 1 and (SOURCE / parts[0] / parts[1]).is_dir():
        return f"{parts[0]}.{parts[1]}"
    return parts[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_room_imports_only_what_it_may(path):
    """The table of rooms, and that of libraries, hold for every file."""
    mine = room(path)
    ours = {(n.split(".")[1:] and room_of(n.split(".")[1:])) or "public" for n in imports(path) if is_ours(n)}
    assert ours - {mine} <= ROOMS[mine]
    foreign = {n.partition(".")[0] for n in imports(path) if not is_ours(n)} - set(sys.stdlib_module_names)
    assert not {name for name in foreign if mine not in LIBRARIES.get(name, set())}


def is_ours(name: str) -> bool:
    return name.partition(".")[0] == "onceflow"


def test_the_auditor_imports_nothing_of_ours():
    """It is a proof from outside: with our package's code out of reach it loads and reads a checkpoint."""
    theirs = [path for path in MODULES if room(path) == "audit"]
    assert len(theirs) > 5
    assert {n for path in theirs for n in imports(path) if is_ours(n) and not n.startswith("onceflow.audit")} == set()
    code = (
        "import sys, types; whole = types.ModuleType('onceflow'); whole.__path__ = [sys.argv[1]]; "
        "sys.modules['onceflow'] = whole; from onceflow.audit.verify import Asked, audit; from pathlib import Path; "
        "assert audit(Asked(Path('/nowhere'), [])).epochs == 0; "
        "assert not [n for n in sys.modules if n.startswith('onceflow.') and not n.startswith('onceflow.audit')]"
    )
    subprocess.run([sys.executable, "-c", code, str(SOURCE)], check=True)


def test_every_room_is_in_the_table():
    """No folder or module stands outside of the table, and the table names none that is gone."""
    assert {room(path) for path in MODULES} == set(ROOMS)


def test_a_class_has_a_name_of_its_own():
    """One word, one meaning: no two public classes share a name. The auditor and the demo share nothing with us."""
    found: dict[str, set[str]] = {}
    for path in (path for path in MODULES if room(path) not in ("audit", "demo", "testing")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(str(path.relative_to(SOURCE)))
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_what_raises_unless_something_holds_is_called_require():
    """``check`` is the question before the decision, and a command; ``checked_…`` gives back what it has looked at."""
    named = re.compile(r"^ *def _?(?:refuse|check)_\w+", re.MULTILINE)
    asked = [path for path in MODULES if room(path) != "testing"]  # its facts are found by that name
    assert {str(p): found for p in asked if (found := named.findall(p.read_text()))} == {}


GLOSSARY = {
    "committer": {"Committer"},
    "incarnation": {"int"},
    "journal": {"Journal"},
    "layout": {"Layout"},
    "place": {"Place", "PlaceInSystem"},
    "run": {"Run"},
    "slot": {"int"},
    "trail": {"Trail"},
}
"""Words of docs/protocol.md that are names in the code as well: what has such a name is of this type."""


def test_a_word_of_the_glossary_stands_once_in_it():
    """With one meaning; the page is where a reader looks it up."""
    page = (ROOT / "docs" / "protocol.md").read_text().partition("## Words")[2].partition("\n## ")[0]
    words = re.findall(r"^\| ([\w -]+?)(?: \(.*\))? \|", page, re.MULTILINE)[1:]
    assert len(words) > 30
    assert [word for word, times in Counter(words).items() if times > 1] == []
    assert set(GLOSSARY) <= set(words)


def test_what_is_called_by_a_word_of_the_glossary_is_of_its_type():
    """One word, one meaning: a parameter or a field that is called ``place`` is a place, and no number of a record."""
    others = []
    for path in (path for path in MODULES if room(path) not in ("audit", "demo", "testing")):
        for node in ast.walk(ast.parse(path.read_text())):
            named = [node] if isinstance(node, ast.arg) else []
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                named = [ast.arg(node.target.id, node.annotation)]
            for each in named:
                kind = ast.unparse(each.annotation).removesuffix(" | None") if each.annotation is not None else ""
                if each.arg in GLOSSARY and kind and kind.strip("'") not in GLOSSARY[each.arg]:
                    others.append(f"{path.relative_to(SOURCE)}: {each.arg}: {kind}")
    assert others == []


def test_what_makes_a_foreign_error_ours_is_called_translating_or_translated():
    """``told`` and ``explained`` were names of a dozen things: an error, a value as JSON, words for a person."""
    named = re.compile(r"^ *(?:async )?def _?(?:told|explained|telling)(?:_of)?\(", re.MULTILINE)
    found = {str(p): names for p in MODULES if room(p) != "audit" and (names := named.findall(p.read_text()))}
    assert found == {}


def test_the_tests_stand_in_the_rooms_of_what_they_test():
    """Each folder of tests is called like a room, but for ``house``: what holds for all of the project."""
    rooms = {"house", *(name.replace(".", "/") for name in ROOMS)}
    for kind in ("unit", "integration"):
        folder = ROOT / "tests" / kind
        found = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("test_*.py")}
        assert found <= rooms


def test_no_test_imports_a_test():
    """What two of them need stands in ``tests/support``."""
    folders = (ROOT / "tests", ROOT / "bench")
    found = {path: imports(path) for folder in folders for path in folder.rglob("*.py")}
    ours = re.compile(r"tests(\.\w+)*\.test_\w+(\.|$)")
    assert {str(path): names for path, of in found.items() if (names := [n for n in of if ours.match(n)])} == {}


SILENT = {"__init__.py", "local/devcluster/__init__.py", "demo/fraud.py"}
"""Files that only list names, and the example as a user would write it."""

WORDS = {
    "Spark": ("pyspark", "onceflow.spark"),
    "Spark sessions": ("onceflow.spark.session",),
    "Kafka": ("kafka", "confluent_kafka", "onceflow.connectors.kafka"),
    "kafka-python": ("kafka",),
    "any particular sink": ("onceflow.connectors.kafka", "onceflow.connectors.database", "onceflow.connectors.lake"),
    "any particular source": ("onceflow.connectors.kafka",),
    "sinks": (
        "onceflow.connectors.kafka.sink",
        "onceflow.connectors.kafka.writer",
        "onceflow.connectors.kafka.committer",
    ),
    "transactions": ("onceflow.connectors.kafka.transactions",),
    "the journal": ("onceflow.checkpoint.journal",),
    "files": ("onceflow.checkpoint", "onceflow.storage"),
    "decisions": ("onceflow.twophase.records",),
    "the rules": (
        "onceflow.twophase.coordinator",
        "onceflow.twophase.outcomes",
        "onceflow.twophase.runs",
        "onceflow.twophase.state",
    ),
    "the driver": ("onceflow.execution.driver",),
    "epochs": ("onceflow.execution",),
    "jobs": ("onceflow.job",),
    "a job": ("onceflow.job",),
    "the job": ("onceflow.job",),
}
"""What a "Must not know" line means where it says one of these: no import of it, or of anything in it."""


def unknown_to(path: Path) -> set[str]:
    """The things that a file's "Must not know" line names, as far as they are words of the table above."""
    text = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split())
    line = re.search(r"Must not know: (.*?)(?:[.:;]( |$)| \()", text + " ")
    return {part.strip() for part in re.split(r",| or | and ", line[1])} & set(WORDS) if line else set()


def test_every_file_says_what_it_must_not_know():
    """Each file has a "Must not know" line, and the short list of those that need none is true."""
    without = {p for p in MODULES if "Must not know: " not in (ast.get_docstring(ast.parse(p.read_text())) or "")}
    assert {str(p.relative_to(SOURCE)) for p in without} == SILENT


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_a_file_does_not_import_what_it_must_not_know(path):
    """Where the line of a file, or of its room's __init__, names one of these words, it imports nothing of it."""
    words = unknown_to(path) | unknown_to(path.parent / "__init__.py")
    forbidden = {name for word in words for name in WORDS[word]}
    assert not {n for n in imports(path) for f in forbidden if n == f or n.startswith((f + ".", f + "_"))}


def test_the_table_allows_no_more_than_is_used():
    """A right to import that no file needs is taken out of the tables: they say how things are."""
    used: dict[str, set[str]] = {name: set() for name in ROOMS}
    for path in MODULES:
        found = (name.split(".") for name in imports(path))
        used[room(path)] |= {(room_of(n[1:]) if n[1:] else "public") if n[0] == "onceflow" else n[0] for n in found}
    assert not {(name, other) for name, others in ROOMS.items() for other in others - used[name]}
    assert not {(name, library) for library, rooms in LIBRARIES.items() for name in rooms if library not in used[name]}


def test_workers_do_not_need_the_drivers_client():
    """A Spark worker that writes needs no kafka-python, no journal and none of the driver's modules."""
    allowed = {"onceflow.errors", "onceflow.masking", "onceflow.crash_points", "onceflow.version"}
    allowed |= {"onceflow.connectors.kafka.transactional_id", "onceflow.twophase.forms"}
    for name in WORKERS:
        theirs = {str(Path(w).with_suffix("")).replace("/", ".") for w in WORKERS}
        known = {n for n in imports(SOURCE / name) if is_ours(n) or n.startswith("kafka")}
        strange = known - allowed - {f"onceflow.{n}" for n in theirs}
        assert not {n for n in strange if not n.startswith("onceflow.twophase")}


PRIVATE = re.compile(r"\._(jvm|jdf|jsq|jsqm|jsparkSession|jsc|gateway)\b|java_gateway|getSimpleName\(\)|py4j\.")


def test_what_spark_keeps_private_is_touched_in_one_room():
    """Only spark/ reaches behind PySpark; only its internals.py touches names with an underscore, and py4j's server."""
    touching = {room(p) for p in MODULES if PRIVATE.search(code_of(p))}
    assert touching == {"spark"}
    private = {p.name for p in MODULES if room(p) == "spark" and "SLF001" in p.read_text()}
    assert private <= {"internals.py", "callbacks.py"}


def test_what_kafka_python_keeps_private_is_touched_in_one_file():
    """Only kafka_python.py reaches behind kafka-python's client; writer.py's underscores are confluent-kafka's own."""
    touching = {p.name for p in MODULES if re.search(r"\._net\b|_build_transport|_sock_recv", code_of(p))}
    assert touching == {"kafka_python.py"}
    private = {p.name for p in MODULES if room(p) == "connectors.kafka" and "SLF001" in p.read_text()}
    assert private == {"kafka_python.py", "refusals.py"}


def code_of(path: Path) -> str:
    """A file without its comments and docstrings."""
    return ast.unparse(ast.parse(path.read_text()))


def test_no_module_is_a_drawer_for_anything():
    """A module's name says what is in it."""
    assert not [p for p in MODULES if re.search(r"utils?|helpers?|common|manager", p.stem)]


def test_every_file_says_what_it_is_for():
    """Each file opens with a docstring."""
    assert not [p for p in MODULES if not ast.get_docstring(ast.parse(p.read_text()))]


def test_no_room_takes_a_public_name():
    """A package that is imported becomes an attribute of ``onceflow``, in the place of whatever had its name."""
    rooms = {path.relative_to(SOURCE).parts[0].removesuffix(".py") for path in MODULES}
    assert not rooms & set(onceflow.__all__)


def test_the_public_names_are_there():
    """__all__ is sorted, complete and true."""
    assert sorted(onceflow.__all__) == onceflow.__all__
    assert all(hasattr(onceflow, name) for name in onceflow.__all__)


def test_the_state_page_is_generated_from_the_table():
    """docs/states.md is what `make diagram` writes."""
    assert (ROOT / "docs" / "states.md").read_text() == state.page()


WRITTEN = (
    onceflow.Job,
    onceflow.FixedDelay,
    onceflow.ExponentialDelay,
    onceflow.FailureRate,
    onceflow.KafkaCluster,
    onceflow.KafkaSource,
    onceflow.KafkaSink,
)
"""The classes whose keywords the page of settings tells."""


def test_the_settings_page_is_generated_from_the_catalogue():
    """docs/settings.md is what `make settings` writes: a line for each setting, and for each keyword of a class."""
    assert all(f"of.{each.__name__}" in (ROOT / "Makefile").read_text() for each in WRITTEN)
    written = (ROOT / "docs" / "settings.md").read_text()
    assert written == catalogue.page(*WRITTEN)
    assert all(written.count(f"\n| {each.name} |") == 1 for each in catalogue.SETTINGS)
    sections = {section.partition("\n")[0]: section for section in written.split("\n### ")[1:]}
    for each in WRITTEN:
        told = re.findall(r"^\| (\w+) \| `", sections[each.__name__], re.MULTILINE)
        assert told == list(inspect.signature(each).parameters)


class Untold:
    """A class that tells of one of its keywords.

    Args:
        told: This one.
    """

    def __init__(self, told, untold):
        """It takes two."""


def test_a_keyword_that_nobody_tells_of_is_no_page():
    """The page cannot be written with a keyword missing, or with a word of one that is gone."""
    with pytest.raises(ValueError, match=r"takes told, untold, and its docstring tells of told$"):
        catalogue.page(Untold)


def test_the_first_page_shows_the_example_word_for_word():
    """The job in docs/start.md is examples/fraud.py, from its imports on."""
    example = (ROOT / "examples" / "fraud.py").read_text()
    assert example[example.index("import os") :].strip() in (ROOT / "docs" / "start.md").read_text()


def test_importing_the_package_starts_nothing():
    """`import onceflow` starts no Java and opens no connection; it needs neither."""
    code = "import onceflow, threading; assert threading.active_count() == 1"
    subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        env={"PATH": "", "JAVA_HOME": "/nowhere", "PYTHONPATH": str(SOURCE.parent)},
    )


def test_what_operators_do_to_transactions_needs_no_spark():
    """An operator waits for no second that only a query needs; the job's own file may load it."""
    rooms = (SOURCE / "operations" / "transactions").glob("*.py")
    names = [f"onceflow.operations.transactions.{path.stem}" for path in rooms if path.stem != "__init__"]
    program = f"import sys, {', '.join(names)}; print('pyspark' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert said.stdout == "False\n"


def test_the_text_names_no_registry_and_no_machine():
    """No file names a package registry's host or a path of somebody's machine."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=False, capture_output=True).stdout
    hosts = ("pypi" + ".org", "maven" + ".org", "apache.org/" + "maven", "npmjs" + ".", "pythonhosted" + ".")
    for name in filter(None, listed.decode().split("\0")):
        path = ROOT / name
        if path.is_file():
            text = path.read_text(errors="ignore")
            assert not [h for h in hosts if h in text], name


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def names_in(tree: ast.AST) -> set[str]:
    """All names in a piece of code: of values, attributes, functions and classes, and those that it imports."""
    kinds = {ast.Name: "id", ast.Attribute: "attr", ast.FunctionDef: "name", ast.ClassDef: "name", ast.alias: "name"}
    return {getattr(node, kinds[type(node)]) for node in ast.walk(tree) if type(node) in kinds}


def reached_into(trees: Sequence[ast.AST]) -> set[str]:
    """Private names of something else: attributes of any object but oneself, what is imported, and what is inherited.

    A class that derives from one of ours, directly or not, has all of ours among its own; so all in it count.
    """
    ours = {
        alias.asname or alias.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and is_ours(node.module or "")
        for alias in node.names
    }
    classes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    for _ in classes:
        ours |= {c.name for c in classes for base in c.bases if isinstance(base, ast.Name) and base.id in ours}
    found = set[str]().union(*(names_in(c) for c in classes if c.name in ours))
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") not in ("self", "cls"):
            found.add(node.attr)
        if isinstance(node, ast.ImportFrom):
            found |= {alias.name for alias in node.names}
    return {name for name in found if is_private(name)}


def test_the_simulation_runs_the_code_as_it_is_called_from_outside():
    """It exchanges nothing, and uses no private name of ours: what it gives, it gives as arguments that anybody has.

    The mutants break rules where these stand, and are no part of the world.
    """
    files = [p for p in (ROOT / "tests" / "simulation").glob("*.py") if "mutants" not in p.name]
    trees = [ast.parse(path.read_text()) for path in files]
    private = {name for path in MODULES for name in names_in(ast.parse(path.read_text())) if is_private(name)}
    assert len(files) > 8
    assert not reached_into(trees) & private
    assert not {n for tree in trees for n in names_in(tree)} & {"mock", "monkeypatch", "patch", "setattr", "delattr"}
