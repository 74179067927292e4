"""What pages name is there: tests, other pages, and each page in the list of all pages.

Must not know: what the pages say of it.
"""

import ast
import re
import tomllib
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from tools import rooms

import onceflow
from onceflow.crash_points import POINTS
from onceflow.options.catalogue import SETTINGS

ROOT = Path(__file__).parents[3]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
_LINK = re.compile(r"\]\((?!http)([^)#]*)(?:#([^)]*))?\)")
_ABSENT = re.compile(
    r"not there yet|not there in Spark|\bnot there[:;]|there is no source|[Cc]omes? later|not (?:yet )?supported"
)
_MARK = re.compile(r"<!-- not there: (.+?) -->")
_TEST = re.compile(r"`(?:[\w/]*/)?(?P<file>test_\w+\.py)?(?:::(?P<name>\w+)(?P<cut>…)?)?`")


@cache
def functions():
    """The names of tests, and of what they use, by the name of their file."""
    found = defaultdict(set)
    for path in (ROOT / "tests").rglob("test_*.py"):
        nodes = ast.walk(ast.parse(path.read_text()))
        found[path.name] |= {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
    return found


def heading(text):
    """A heading as a link writes it."""
    return re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    """To a file that is there, and to a heading in it."""
    for to, part in _LINK.findall(page.read_text()):
        target = page.parent / to if to else page
        assert target.exists(), to
        if part:
            assert part in {heading(h) for h in re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)}, part


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_are_named_are_there(page):
    """By file and function; a name without a file is of the file before it."""
    file = None
    for named in _TEST.finditer(page.read_text()):
        file = named["file"] or file
        if file is None or not (named["file"] or named["name"]):
            continue
        assert file in functions(), named[0]
        if named["name"] is not None:
            known = functions()[file]
            there = any(each.startswith(named["name"]) for each in known) if named["cut"] else named["name"] in known
            assert there, named[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_of_the_package_that_are_named_are_there(page):
    """By their whole path; Flink's classes are told by those of ours."""
    named = re.findall(r"`(src/onceflow/[\w/.]*)`", page.read_text())
    assert [path for path in named if not (ROOT / path).exists()] == []
    assert page.name != "from-flink.md" or len(named) > 20


def test_what_exactly_once_costs_is_quoted_as_it_stands():
    """Each figure of three digits, or of a fraction, is one of the page of benchmarks or of that of intervals."""
    flink, bench, choosing = ((ROOT / "docs" / f"{p}.md").read_text() for p in ("from-flink", "benchmarks", "choosing"))
    costs = re.search(r"^## What it costs\n(.*?)^## ", flink, re.MULTILINE | re.DOTALL)[1].partition("|---|")[2]
    figures = set(re.findall(r"\d+\.\d+|\d{3,}", costs.replace(",", "")))
    assert len(figures) > 20
    assert figures <= set(re.findall(r"\d+\.\d+|\d{3,}", (bench + choosing).replace(",", "")))


def test_the_picture_of_an_epoch_has_each_of_its_crash_points():
    """In their order and their words, and the table below says what the next start does after each."""
    picture, _, below = (ROOT / "docs" / "protocol.md").read_text().partition("## Words")[0].partition("| death at |")
    points = [(p, words.replace(";", ",")) for p, words in POINTS.items() if p.startswith("D")]  # ; ends a line
    assert re.findall(r"Note over S,K: (D\w+): (.*)\. Seen: ", picture) == points
    named = [point for line in re.findall(r"^\| (D.*?) \|", below, re.MULTILINE) for point in line.split(", ")]
    assert named == [point for point, _ in points]


def rows(page):
    """The cells of a page's first table."""
    lines = [line for line in (ROOT / "docs" / page).read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_each_point_of_the_first_use_is_answered_and_held():
    """By number, with what became of it and a test; which tests there are, is looked at above."""
    points = rows("first-use.md")
    assert [number for number, *_ in points] == [str(n) for n in range(1, 26)]
    for number, what, became, held in points:
        assert len(what) > 20, number
        assert len(became) > 10, number
        assert "::test_" in held, number


@pytest.mark.parametrize("page", ["try-flink.md", "try-pyspark.md"])
def test_no_point_of_a_try_is_open(page):
    """Each is mended, or it says why it stays."""
    text = (ROOT / "docs" / page).read_text().partition("## The list")[0]
    assert re.findall(r"(?i)\bopen:|\bopen\b *\||is open\b|the rest is open", text) == []


def test_the_list_of_pages_names_each_and_the_readme_names_the_list():
    """A page that nobody is led to is not read."""
    named = (ROOT / "docs" / "README.md").read_text()
    assert [p.name for p in (ROOT / "docs").glob("*.md") if p.name != "README.md" and f"]({p.name})" not in named] == []
    assert "](docs/README.md)" in (ROOT / "README.md").read_text()


def test_the_readme_is_one_screen_and_a_half():
    """A hundred lines, eight hundred words: what is longer has a page."""
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 100
    assert len(text.split()) <= 800


def test_the_page_of_the_rooms_is_what_the_files_say():
    """It is made of them: `make rooms`."""
    assert rooms.PAGE.read_text() == rooms.page()


def test_a_file_that_the_architecture_names_is_there():
    """A path of it, or its name alone."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    known = {p.name for of in ("src", "tests", "bench") for p in ROOT.glob(f"{of}/**/*.py")}
    assert set(re.findall(r"`(?:[\w/]*/)?(\w+\.py)`", text)) <= known


def extras():
    """The extras of the distribution, with what each brings."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_the_table_of_extras_has_each_with_what_it_brings():
    """In docs/start.md, as pyproject.toml has them."""
    told = re.findall(r"^\| `(\w+)` \| .+ \| (`.*`) \|$", (ROOT / "docs" / "start.md").read_text(), re.MULTILINE)
    brought = {name: [re.match(r"[\w-]+", each)[0] for each in needed] for name, needed in extras().items()}
    assert {name: re.findall(r"`(.*?)`", what) for name, what in told} == brought


def what_is_there():
    """Each name by which a mark may say that something is not: ``of.Json``, a command, its option, a key, an extra."""
    found = {f"of.{name}" for name in onceflow.__all__} | {each.key for each in SETTINGS}
    command = ""
    for line in (ROOT / "docs" / "reference" / "commands.md").read_text().splitlines():
        if said := re.match(r"#+ `(onceflow .*)`", line):
            command = said[1]
        found |= {command, *(f"{command} {option}" for option in re.findall(r"^\* `.*?(--[\w-]+)", line))}
    return found | {f"extra {name}" for name in extras()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_says_is_not_there_is_not(page):
    """Such a line has a mark, ``<!-- not there: of.Avro, onceflow ui -->``; below such a heading each point has one."""
    there = what_is_there()
    assert there >= {"of.Json", "onceflow stop", "onceflow stop --savepoint", "metrics.port", "extra s3"}
    text = page.read_text()
    marked = [name for names in _MARK.findall(text) for name in names.split(", ")]
    assert [name for name in marked if name in there] == []
    if page.name.startswith(("try-", "attacks", "CHANGELOG")):
        return  # what was so then
    lines = [line for line in text.splitlines() if _ABSENT.search(_MARK.sub("", line)) and line[0] != "#"]
    below = re.findall(r"^#+ .*not there yet\n(.*?)(?:\n#|\Z)", text, re.MULTILINE | re.DOTALL)
    points = [point for part in below for point in re.findall(r"^\* .*(?:\n  .*)*", part, re.MULTILINE)]
    assert [said for said in lines + points if not _MARK.search(said)] == []
