"""The rules of the house: who may import what, what modules are called, and that docs and code agree."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import onceflow
from onceflow.twophase import state

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "onceflow"
MODULES = sorted(SOURCE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Names of all modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


@pytest.mark.parametrize("path", [p for p in MODULES if room(p) == "twophase"], ids=lambda p: p.name)
def test_the_rules_import_only_the_standard_library(path):
    """twophase/ imports itself and the standard library, so that a test can drive it without anything else."""
    strange = {
        name
        for name in imports(path)
        if not name.startswith("onceflow.twophase") and name.partition(".")[0] not in sys.stdlib_module_names
    }
    assert not strange


def test_spark_is_met_only_in_its_own_rooms():
    """PySpark is imported by the job, the sources, the runtime, the tasks' side of sinks, and the demo's job."""
    allowed = {"job.py", "source", "runtime", "sink", "demo"}
    meeting = {room(p) for p in MODULES if any(n.partition(".")[0] == "pyspark" for n in imports(p))}
    assert meeting <= allowed


def test_writers_do_not_need_the_drivers_client():
    """A Spark worker that writes needs no kafka-python and no journal."""
    for name in ("execution/task.py", "connectors/kafka/writer.py"):
        known = imports(SOURCE / name)
        assert not {
            n
            for n in known
            if n == "kafka" or n.startswith(("kafka.", "onceflow.checkpoint", "onceflow.connectors.kafka"))
        }


def test_the_checkpoint_knows_no_kafka():
    """checkpoint/ imports neither a Kafka client nor a sink."""
    for path in (p for p in MODULES if room(p) == "checkpoint"):
        assert not {
            n
            for n in imports(path)
            if n.startswith(("kafka", "confluent_kafka", "onceflow.connectors.kafka", "onceflow.connectors"))
        }


def test_no_module_is_a_drawer_for_anything():
    """A module's name says what is in it."""
    assert not [p for p in MODULES if re.search(r"utils?|helpers?|common|manager", p.stem)]


def test_every_file_says_what_it_is_for():
    """Each file opens with a docstring."""
    assert not [p for p in MODULES if not ast.get_docstring(ast.parse(p.read_text()))]


def test_the_public_names_are_there():
    """__all__ is sorted, complete and true."""
    assert sorted(onceflow.__all__) == onceflow.__all__
    assert all(hasattr(onceflow, name) for name in onceflow.__all__)


def test_the_state_page_is_generated_from_the_table():
    """docs/states.md is what `make diagram` writes."""
    assert (ROOT / "docs" / "states.md").read_text() == state.page()


def test_the_readme_shows_the_example_word_for_word():
    """The job in the README is examples/fraud.py, from its imports on."""
    example = (ROOT / "examples" / "fraud.py").read_text()
    assert example[example.index("import os") :].strip() in (ROOT / "README.md").read_text()


def test_importing_the_package_starts_nothing():
    """`import onceflow` starts no Java and opens no connection; it needs neither."""
    code = "import onceflow, threading; assert threading.active_count() == 1"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PATH": "", "JAVA_HOME": "/nowhere"})


def test_the_text_names_no_registry_and_no_machine():
    """No file names a package registry's host or a path of somebody's machine."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=False, capture_output=True).stdout
    hosts = ("pypi" + ".org", "maven" + ".org", "apache.org/" + "maven", "npmjs" + ".", "pythonhosted" + ".")
    for name in filter(None, listed.decode().split("\0")):
        path = ROOT / name
        if path.is_file():
            text = path.read_text(errors="ignore")
            assert not [h for h in hosts if h in text], name
