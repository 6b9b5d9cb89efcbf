"""The pages agree with the code.

The reference pages name every option and setting, and no other. ARCHITECTURE.md shows the imports
and the levels. Every path in backquotes exists, with the name that may follow it
(`engine/cursor.py::Cursor.execute`). After imports changed, `RUNNEL_REFRESH=1 .venv/bin/python -m
pytest tests/test_docs.py` rewrites the picture's arrows and the levels in ARCHITECTURE.md,
and the code in docs/contributing.md: read the diff.
"""

from __future__ import annotations

import ast
import configparser
import inspect
import os
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import runnel
from runnel.connectors.options import OptionSet
from runnel.connectors.registry import CONNECTORS
from runnel.settings import SETTINGS
from tests.test_layout import LEVELS, MODULES, ROOT, SOURCES, module_name, parsed, part_of

DOCS = ROOT / "docs"
OPTION_TABLES = {
    "File": "files.options",
    "IMap": "imap.columns",
    "DuckDB": "duckdb.connector",
    "Nexmark": "nexmark.connector",
    "DataGen": "datagen.connector",
    "Kafka": "kafka.connector",
    "Delta": "lake.delta.connector",
    "Iceberg": "lake.iceberg.connector",
    "Discard": "output.discard",
    "Print": "output.printing",
}
"""The module with the `OPTIONS` of each built-in connector but Spark."""

SPARK_OWN = ["format", "path", "table", "query"]
"""The options that Runnel reads itself; it passes all others of TYPE Spark to Spark."""

READ_ONLY = {"Nexmark", "DataGen"}
"""The built-in connectors without sinks."""

WRITE_ONLY = {"Discard", "Print"}
"""The built-in connectors without sources."""

PAGE = ROOT / "ARCHITECTURE.md"
DESIGN = sorted((ROOT / "docs" / "design").glob("*.md"))
CONTRIBUTING = DOCS / "contributing.md"
SOURCE_DOCUMENTS = DOCS / "design" / "022-seeds.md"
ANSWERS = ("works", "differs", "members", "no behaviour")
"""The first words of an answer in the tables of `SOURCE_DOCUMENTS`, as it explains them."""
PAGES = [PAGE, CONTRIBUTING, *DESIGN]
OPEN_TO_ALL = ("contracts", "values", "basics")
"""Nodes of the picture that every folder may import: their arrows are left out."""

_PICTURE = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NODE = re.compile(r'^    (\w+)\["[^<"]+<br>([^"]+)"\]$', re.MULTILINE)
_ARROW = re.compile(r"^    (\w+) --> (\w+)$", re.MULTILINE)
_LEVEL = re.compile(r"^(\| (\d) \| [^|]+ \| )([^|]+) \|$", re.MULTILINE)
_CODE = re.compile(
    r"^<!-- code: (\S+)::([\w, ]+) -->\n(?:```python\n.*?^```\n)?", re.MULTILINE | re.DOTALL
)
_PATH = re.compile(
    r"`((?:engine|planner|connectors|tests|docs|examples|benchmarks)/[\w/.*-]*|(?!__init__)[\w-]+\.(?:py|md|cfg|toml))"
    r"(?:::([\w.]+))?`"
)


def rows_of(page: str, heading: str) -> dict[str, list[str]]:
    """The first table under a heading: cells by the name in the first column."""
    text = (DOCS / page).read_text("utf-8")
    section = re.search(
        rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    )
    assert section is not None, heading
    lines = re.findall(r"^\| `([^`]+)` \| (.*) \|$", section[1], re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split(" | ")] for name, rest in lines}


@pytest.mark.parametrize("connector", OPTION_TABLES)
def test_the_options_of_a_connector_are_those_of_its_code(connector: str) -> None:
    options = import_module(f"runnel.connectors.{OPTION_TABLES[connector]}").OPTIONS
    assert isinstance(options, OptionSet)
    shown = rows_of("connectors.md", f"TYPE {connector}")
    assert set(shown) == {option.name for option in options.options}
    for option in options.options:
        default = shown[option.name][1]
        assert (default == "required") is option.required, option.name
        if isinstance(option.default, bool):
            assert default == str(option.default).lower(), option.name
        if option.allowed.startswith("one of "):
            assert shown[option.name][0] == option.allowed.removeprefix("one of "), option.name


def test_the_options_of_each_built_in_connector_are_compared() -> None:
    assert {*OPTION_TABLES, "Spark"} == set(CONNECTORS)
    assert set(CONNECTORS) > READ_ONLY


def section(page: str, heading: str) -> str:
    """The text below a heading, up to the next heading of any level."""
    _, _, rest = (ROOT / page).read_text("utf-8").partition(f"\n{heading}\n")
    assert rest, (page, heading)
    return re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def test_contributing_names_headings_that_exist() -> None:
    """A text such as: `docs/security.md`, a row under "Received data"."""
    text = " ".join((DOCS / "contributing.md").read_text("utf-8").split())
    page, count = "", 0
    for name, heading in re.findall(r'`((?:docs/)?\w+\.md)`|under "([^"]+)"', text):
        page = name or page
        if heading:
            headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text("utf-8"), re.MULTILINE)
            assert heading in headings, f"{page} has no section {heading}"
            count += 1
    assert count > 4


def first_cells(text: str, heading: str) -> str:
    """The first column of the table whose first heading is `heading`."""
    _, _, table = text.partition(f"\n| {heading} |")
    assert table, heading
    return "\n".join(re.findall(r"^\| ([^|]+) \|", table.split("\n\n")[0], re.MULTILINE))


def named_in(page: str, paragraph: str) -> str:
    """The paragraph of a page that contains a text."""
    (found,) = [
        item
        for item in (ROOT / page).read_text("utf-8").split("\n\n")
        if paragraph in " ".join(item.split())
    ]
    return found


@pytest.mark.parametrize("connector", CONNECTORS)
def test_the_pages_name_each_built_in_connector(connector: str) -> None:
    guarantees = section("docs/jobs.md", "### Sources and sinks")
    texts = {
        "security.md, table of paths": first_cells(
            section("docs/security.md", "## Where text becomes a path or an address"), "text"
        ),
        "connectors.md, bounded access": named_in("docs/connectors.md", "have bounded access"),
    }
    if connector not in WRITE_ONLY:
        texts["jobs.md, table of sources"] = first_cells(guarantees, "source")
    if connector not in READ_ONLY:
        texts |= {
            "jobs.md, table of sinks": first_cells(guarantees, "sink"),
            "connectors.md, sinks of jobs": first_cells(
                section("docs/connectors.md", "## As sinks of jobs"), "sink"
            ),
            "jobs.md, sinks of jobs in Spark": named_in(
                "docs/jobs.md", "written exactly once to sinks that support it"
            ),
        }
    name = re.compile(rf"\b{connector}\b")
    assert [page for page, text in texts.items() if not name.search(text)] == []


def test_the_options_of_spark_are_those_that_it_keeps_for_itself() -> None:
    assert list(rows_of("connectors.md", "TYPE Spark")) == [*SPARK_OWN, "follow"]


def test_every_format_of_files_has_its_row() -> None:
    from runnel.connectors.files.functions.table_functions import TABLE_FUNCTIONS
    from runnel.connectors.files.options import FORMATS

    page = (DOCS / "connectors.md").read_text("utf-8")
    rows = re.findall(r"^\| ([a-z, -]+) \| \.[^|]*\|[^|]*\| ([A-Z_, ]+) \|$", page, re.MULTILINE)
    assert {name for names, _ in rows for name in names.split(", ")} == set(FORMATS)
    assert {name.lower() for _, names in rows for name in names.split(", ")} == set(TABLE_FUNCTIONS)


def test_the_settings_are_those_of_the_code() -> None:
    shown = rows_of("connecting.md", "Settings")
    assert list(shown) == [setting.name for setting in SETTINGS]
    for setting in SETTINGS:
        allowed, default, meaning = shown[setting.name]
        assert (allowed, meaning.removesuffix("; only at the start")) == (
            setting.allowed,
            setting.description,
        )
        assert meaning.endswith("; only at the start") is setting.at_start
        if setting.name not in ("cooperative_threads", "memory_limit"):
            assert default == {"": "empty", "True": "on", "False": "off"}.get(
                str(setting.default), str(setting.default)
            )


def test_the_parameters_of_connect_are_those_of_the_code() -> None:
    text = (DOCS / "connecting.md").read_text("utf-8")
    shown = re.findall(r"^\| `(\w+)` \|", text.partition("## Settings")[0], re.MULTILINE)
    assert shown == list(inspect.signature(runnel.connect).parameters)


def test_the_readme_names_the_packages_that_are_installed_with_it() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    required = {
        re.split(r"\W", line)[0]
        for line in config["options"]["install_requires"].strip().splitlines()
        if ";" not in line  # of other systems than the one that the README speaks of
    }
    (shown,) = re.findall(
        r"needs Python 3\.11 or later; ([\w,\s]+) are installed with it\.",
        (ROOT / "README.md").read_text("utf-8"),
    )
    assert set(re.split(r",\s|\sand\s", shown.lower())) == required


def test_the_glossary_names_modules_and_pages_that_exist() -> None:
    rows = re.findall(
        r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$",
        (DOCS / "glossary.md").read_text("utf-8"),
        re.MULTILINE,
    )
    terms = {term: see for term, see in rows if term not in ("term", "---")}
    assert len(terms) >= 40
    for term, see in terms.items():
        modules = [ROOT / name for name in re.findall(r"`([^`]+)`", see)]
        pages = [DOCS / name for name in re.findall(r"\]\(([^)]+)\)", see)]
        assert modules + pages, term
        assert [path for path in (*modules, *pages) if not path.is_file()] == [], term


def imported(path: Path) -> Iterator[str]:
    """Every module of Runnel that a file imports: at its top, in a function or for checkers."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in MODULES else node.module or "" for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def picture() -> str:
    (found,) = _PICTURE.findall(PAGE.read_text("utf-8"))
    return str(found)


def nodes() -> dict[str, str]:
    """The node of the picture that shows a part of the package."""
    return {
        part: node for node, parts in _NODE.findall(picture()) for part in parts.split(", ") if part
    }


def arrows() -> list[tuple[str, str]]:
    """The arrows of the picture as the imports are, in the order of its nodes."""
    node_of = nodes()
    order = list(dict.fromkeys(node_of.values()))
    found = set()
    for path in SOURCES:
        source = node_of[part_of(module_name(path))]
        for module in imported(path):
            if module.split(".")[0] == "runnel":
                found.add((source, node_of[part_of(module)]))
    return sorted(
        ((a, b) for a, b in found if a != b and b not in OPEN_TO_ALL),
        key=lambda arrow: (order.index(arrow[0]), order.index(arrow[1])),
    )


def test_each_part_is_in_one_node_of_the_picture() -> None:
    shown = [part for _, parts in _NODE.findall(picture()) for part in parts.split(", ")]
    assert sorted(shown) == sorted(part for parts in LEVELS.values() for part in parts)


def test_the_arrows_of_the_picture_are_the_imports() -> None:
    if os.environ.get("RUNNEL_REFRESH"):
        lines = "".join(f"    {a} --> {b}\n" for a, b in arrows())
        new = _ARROW.sub("", picture()).rstrip() + "\n" + lines
        PAGE.write_text(PAGE.read_text("utf-8").replace(picture(), new), "utf-8")
    assert _ARROW.findall(picture()) == arrows()


def test_values_and_basics_import_nothing_above_them() -> None:
    assert [(a, b) for a, b in arrows() if a in ("values", "basics")] == []


def test_the_table_of_levels_is_the_one_of_the_imports() -> None:
    text = PAGE.read_text("utf-8")
    if os.environ.get("RUNNEL_REFRESH"):
        text = _LEVEL.sub(lambda row: f"{row[1]}{level_names(int(row[2]))} |", text)
        PAGE.write_text(text, "utf-8")
    shown = {int(level): names for _, level, names in _LEVEL.findall(text)}
    assert shown == {level: level_names(level) for level in LEVELS}


def level_names(level: int) -> str:
    return ", ".join(f"`{name}`" for name in sorted(LEVELS[level]))


def test_all_design_pages_are_listed() -> None:
    listed = re.findall(r"\(docs/design/([\w-]+\.md)\)", PAGE.read_text("utf-8"))
    assert {path.name for path in DESIGN} == set(listed)


def with_code(text: str) -> str:
    """The text with the code after each `<!-- code: path::name, name -->` as it is now."""

    def block(match: re.Match[str]) -> str:
        path, names = match[1], match[2].split(", ")
        found = "\n\n\n".join(source_of(ROOT / path, name) for name in names)
        return f"<!-- code: {path}::{match[2]} -->\n```python\n{found}\n```\n"

    return _CODE.sub(block, text)


def source_of(path: Path, name: str) -> str:
    (node,) = [node for node in parsed(path).body if name in defined(node)]
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    first = min(item.lineno for item in (node, *decorators))
    return "\n".join(path.read_text("utf-8").split("\n")[first - 1 : node.end_lineno])


def test_the_code_of_the_contributing_page_is_that_of_its_tests() -> None:
    text = CONTRIBUTING.read_text("utf-8")
    if os.environ.get("RUNNEL_REFRESH"):
        text = with_code(text)
        CONTRIBUTING.write_text(text, "utf-8")
    assert text.count("<!-- code:") == len(_CODE.findall(text)) >= 10
    assert text == with_code(text)


@cache
def names_in(path: Path) -> frozenset[str]:
    """What a module defines: functions, classes, their methods and attributes, constants."""
    found: set[str] = set()
    for node in parsed(path).body:
        for name in defined(node):
            found.add(name)
            if isinstance(node, ast.ClassDef):
                found |= {f"{name}.{inner}" for item in node.body for inner in defined(item)}
    return frozenset(found)


def defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    if isinstance(node, ast.AnnAssign):
        targets = [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def missing(page: Path) -> Iterator[str]:
    text = page.read_text("utf-8")
    for match in _PATH.finditer(text):
        name, symbol = match.groups()
        line = f"{page.name}:{text.count(chr(10), 0, match.start()) + 1}: {name}"
        path = ROOT / name
        if not (any(ROOT.glob(name)) if "*" in name else path.exists()):
            yield line
        elif symbol is not None and symbol not in names_in(path):
            yield f"{line}::{symbol}"
    for link in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", text):
        if not (page.parent / link).exists():
            yield f"{page.name}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_paths_names_and_links_in_pages_exist(page: Path) -> None:
    assert list(missing(page)) == []


def test_a_path_name_or_link_without_a_target_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "`engine/cursor.py::Cursor.execute`, `engine/runtime/`, `planner/rules/*.py`, `setup.cfg`\n"
        "`engine/gone.py`, `engine/cursor.py::Cursor.gone`, `gone.py`, `SELECT 1`\n"
        "[here](page.md#top), [there](gone.md), [outside](https://example.org/gone.md)\n"
    )
    assert list(missing(page)) == [
        "page.md:2: engine/gone.py",
        "page.md:2: engine/cursor.py::Cursor.gone",
        "page.md:2: gone.py",
        "page.md: gone.md",
    ]


def test_each_item_of_the_source_documents_has_an_answer_and_tests() -> None:
    """Items are numbered; one that one process can show names tests, whose existence
    `test_paths_names_and_links_in_pages_exist` checks; the counts are those of the rows."""
    text = SOURCE_DOCUMENTS.read_text("utf-8")
    numbers, counts = [], {}
    for title, rows in re.findall(
        r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL
    ):
        items = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", rows, re.MULTILINE)
        assert len(items) == len(re.findall(r"^\| \d+ \|", rows, re.MULTILINE)), title
        numbers += [int(number) for number, *_ in items]
        words = [answer.split(":")[0] for _, _, answer, _ in items]
        if items:
            counts[title] = [len(items), *(words.count(word) for word in ANSWERS)]
        for number, _, answer, tests in items:
            word, _, explanation = answer.partition(": ")
            assert word in ANSWERS, (number, answer)
            assert explanation or word in ("works", "members"), (number, answer)
            assert tests != "—" or word in ("members", "no behaviour"), (number, answer)
            for test in re.findall(r"`([^`]+)`", tests):
                assert re.fullmatch(r"tests/\S+(::test_\w+|\.slt)", test), (number, test)
    assert numbers == list(range(1, len(numbers) + 1))
    counts["all"] = [sum(column) for column in zip(*counts.values(), strict=True)]
    shown = re.findall(r"^\| ([A-Za-z ]+) ((?:\| \d+ ){5})\|$", text, re.MULTILINE)
    assert {title: [int(n) for n in re.findall(r"\d+", row)] for title, row in shown} == counts


def test_no_page_has_marks_of_a_merge() -> None:
    root = DOCS.parent
    pages = [*root.glob("*.md"), *DOCS.rglob("*.md")]
    marks = re.compile(r"^(?:<{7} |={7}$|>{7} )", re.MULTILINE)
    assert len(pages) > 30
    assert [str(page.relative_to(root)) for page in pages if marks.search(page.read_text())] == []
