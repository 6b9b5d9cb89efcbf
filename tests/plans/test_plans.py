"""Golden plans: beside each file of queries stands what EXPLAIN says of them.

The queries of `name.sql` end with a semicolon each; `name.txt` has each of them again with its
plans. After a change that is meant, `RUNNEL_REFRESH=1 python -m pytest tests/plans` writes the
texts anew; then read the diff.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runnel.errors import Error
from runnel.planner.environment import Environment
from runnel.planner.explain.explain import explain
from runnel.planner.planner import plan
from runnel.planner.plans import QueryPlan
from runnel.sqltypes import BIGINT, SqlType
from tests.sample_tables import sample_snapshot

FOLDER = Path(__file__).parent
WORKERS = 4
RULE = "=" * 80


def queries(path: Path) -> list[str]:
    """The statements of a file, without comments and final semicolons."""
    lines = [line for line in path.read_text().split("\n") if not line.startswith("--")]
    return [text.strip() for text in "\n".join(lines).split(";\n") if text.strip()]


def explained(sql: str) -> str:
    """A query with its plans, or with its error."""
    types: tuple[SqlType, ...] = (BIGINT,) * sql.count("?")
    try:
        found = plan(sql, sample_snapshot(), types, Environment(file_table=_no_files))
        lines = explain(found, "all", "text")
        if isinstance(found, QueryPlan):
            lines += ["", f"DAG for {WORKERS} workers", *explain(found, "dag", "text", WORKERS)]
    except Error as error:
        error.sql = sql
        lines = [f"{type(error).__name__}: {error}"]
    return "\n".join([RULE, sql, "", *lines, ""])


def _no_files(*arguments: object) -> object:
    raise AssertionError("no file is read in planning tests")


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.sql")), ids=lambda path: path.stem)
def test_plans_are_as_agreed(path: Path) -> None:
    text = "\n".join(explained(sql) for sql in queries(path))
    golden = path.with_suffix(".txt")
    if os.environ.get("RUNNEL_REFRESH"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_every_golden_text_has_its_queries() -> None:
    assert {path.stem for path in FOLDER.rglob("*.txt")} == {
        path.stem for path in FOLDER.rglob("*.sql")
    }
