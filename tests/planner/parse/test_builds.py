"""sqlglot's compiled and interpreted builds give the same statements and the same errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runnel.errors import Error
from runnel.planner.parse.statement import parse

HERE = Path(__file__).parent


def outcome(sql: str) -> str:
    """What comes of a statement, as text."""
    try:
        return repr(parse(sql))
    except Error as error:
        return f"{type(error).__name__} {error.position} {error}"


def statements() -> list[str]:
    valid = (HERE / "valid_statements.sql").read_text().splitlines()
    invalid = (HERE / "invalid_statements.txt").read_text().split("\n")
    return valid + [line for line in invalid if line and not line.startswith("!")]


@pytest.fixture(scope="module")
def interpreted() -> list[str]:
    """The outcomes in a new interpreter whose sqlglot is the interpreted one."""
    script = (
        "import sys, json; from tests.planner.parse.interpreted_sqlglot import install; install();"
        "import sqlglot.parser; assert sqlglot.parser.__file__.endswith('.py');"
        "from tests.planner.parse.test_builds import outcome;"
        "json.dump([outcome(sql) for sql in json.load(sys.stdin)], sys.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        input=json.dumps(statements()),
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parents[2],
    )
    assert done.returncode == 0, done.stderr
    outcomes: list[str] = json.loads(done.stdout)
    return outcomes


def test_both_builds_agree(interpreted: list[str]) -> None:
    for sql, other in zip(statements(), interpreted, strict=True):
        assert outcome(sql) == other, sql
