"""Each SQL and Python block of the user's pages runs, and prints what the page says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pages.page_blocks import Block, blocks, compare, run_page, statements

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
RUN_ELSEWHERE = {
    "contributing.md": "tests/contributing and tests/test_docs.py",
    "jet.md": "tests/processors/library/test_jet_page.py",
    "spark.md": "tests/test_examples.py",
}
"""The pages whose blocks other tests run."""
PAGES = sorted(
    page
    for page in [README, *DOCS.glob("*.md")]
    if page.name not in RUN_ELSEWHERE and blocks(page.read_text("utf-8"))
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_blocks_of_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page(page, tmp_path) > 0


def test_the_readme_is_short() -> None:
    assert README in PAGES
    assert len(README.read_text("utf-8").splitlines()) <= 200


def test_a_block_and_its_output() -> None:
    page = 'a\n```csv title="f.csv"\nx\n```\n```sql\nSELECT 1;\n```\n\n```text\n1\n```\n'
    first, second = blocks(page)
    assert (first.line, first.title, first.text) == (2, "f.csv", "x\n")
    assert (second.language, second.text, second.expected) == ("sql", "SELECT 1;\n", "1\n")


def test_a_semicolon_in_a_string_ends_no_statement() -> None:
    assert [*statements("SELECT ';'; SELECT 2")] == ["SELECT ';'", "SELECT 2"]


def test_other_output_fails() -> None:
    with pytest.raises(AssertionError, match="the block in line 7"):
        compare("a\nb\n", Block(7, "sql", "", "", "a\nc\n"))
    with pytest.raises(AssertionError, match="the block in line 7"):
        compare("a\nb\n", Block(7, "sql", "", "", "a\n"))
    with pytest.raises(AssertionError, match="the block in line 7"):
        compare("in /tmp/f.csv, line 3\n", Block(7, "sql", "", "", "in …/f.csv, line 4\n"))
    compare("a\nb\n", Block(7, "sql", "", "", "a\n…\n"))
    compare("in /tmp/f.csv, line 3\n", Block(7, "sql", "", "", "in …/f.csv, line 3\n"))
