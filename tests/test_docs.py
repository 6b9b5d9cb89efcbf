"""The reference pages name every option and setting of the code, and no other."""

from __future__ import annotations

import configparser
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest

import runnel
from runnel.connectors.options import OptionSet
from runnel.settings import SETTINGS

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
OPTION_TABLES = {
    "File": "files.options",
    "IMap": "imap.columns",
    "DuckDB": "duckdb.connector",
    "Nexmark": "nexmark.connector",
    "Kafka": "kafka.connector",
    "Delta": "lake.delta.connector",
    "Iceberg": "lake.iceberg.connector",
}
SPARK_OWN = ["format", "path", "table", "query"]


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


def test_the_options_of_spark_are_those_that_it_keeps_for_itself() -> None:
    assert list(rows_of("connectors.md", "TYPE Spark")) == [*SPARK_OWN, "follow"]


def test_every_format_of_files_has_its_row() -> None:
    from runnel.connectors.files.connector import TABLE_FUNCTIONS
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
            setting.meaning,
        )
        assert meaning.endswith("; only at the start") is setting.at_start
        if setting.name not in ("cooperative_threads", "memory_limit"):
            assert default == {"": "empty", "True": "on"}.get(
                str(setting.default), str(setting.default)
            )


def test_the_parameters_of_connect_are_those_of_the_code() -> None:
    text = (DOCS / "connecting.md").read_text("utf-8")
    shown = re.findall(r"^\| `(\w+)` \|", text.partition("## Settings")[0], re.MULTILINE)
    assert shown == list(inspect.signature(runnel.connect).parameters)


def test_the_readme_names_the_packages_that_are_installed_with_it() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    required = {re.split(r"\W", line)[0] for line in config["options"]["install_requires"].split()}
    (shown,) = re.findall(
        r"needs Python 3\.11 or later; ([\w, ]+) are installed with it\.",
        (ROOT / "README.md").read_text("utf-8"),
    )
    assert set(re.split(", | and ", shown.lower())) == required


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
