"""Flink's CREATE FUNCTION … LANGUAGE PYTHON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import runnel
from runnel import Connection

MODULE = """
CONSTANT = 5

def twice(x: int) -> int:
    return 2 * x

def untyped(x):
    return x

class Named:
    @staticmethod
    def thrice(x: int) -> int:
        return 3 * x
"""


@pytest.fixture
def con(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    (tmp_path / "flink_udf.py").write_text(MODULE)
    (tmp_path / "flink_broken.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    with runnel.connect() as made:
        yield made


@pytest.mark.parametrize("words", ["", "TEMPORARY ", "TEMPORARY SYSTEM "])
def test_a_function_of_a_module(con: Connection, words: str) -> None:
    con.execute(f"CREATE {words}FUNCTION f AS 'flink_udf.twice' LANGUAGE PYTHON")
    con.execute(f"CREATE {words}FUNCTION IF NOT EXISTS f AS 'no.module' LANGUAGE PYTHON")
    assert con.execute("SELECT f(4), F(NULL)").fetchall() == [(8, None)]
    assert [row[0] for row in con.execute("SHOW USER FUNCTIONS").fetchall()] == ["F"]
    with pytest.raises(runnel.ProgrammingError, match="exists already"):
        con.execute("CREATE FUNCTION f AS 'flink_udf.twice' LANGUAGE PYTHON")
    con.execute(f"DROP {words}FUNCTION f")
    con.execute(f"DROP {words}FUNCTION IF EXISTS f")
    with pytest.raises(runnel.ProgrammingError, match='function "f" not found'):
        con.execute("SELECT f(4)")


@pytest.mark.parametrize(
    ("rest", "words"),
    [
        ("'flink_udf.none' LANGUAGE PYTHON", "can't be imported[\\s\\S]*no attribute 'none'"),
        ("'flink_broken.f' LANGUAGE PYTHON", "can't be imported[\\s\\S]*SystemExit: 3"),
        ("'flink_udf.CONSTANT' LANGUAGE PYTHON", "is not a function"),
        ("'flink_udf.untyped' LANGUAGE PYTHON", "annotate the function"),
        ("'twice' LANGUAGE PYTHON", "has no module"),
        ("'com.example.F'", "in JAVA is not supported[\\s\\S]*LANGUAGE PYTHON"),
        ("'com.example.F' LANGUAGE SCALA", "in SCALA is not supported"),
        ("'flink_udf.twice' LANGUAGE PYTHON USING JAR 'a.jar'", "USING of CREATE FUNCTION"),
    ],
)
def test_errors(con: Connection, rest: str, words: str) -> None:
    with pytest.raises(runnel.Error, match=words):
        con.execute(f"CREATE FUNCTION f AS {rest}")
    assert con.execute("SHOW USER FUNCTIONS").fetchall() == []


def test_only_the_owner_without_bounds_imports(con: Connection, tmp_path: Path) -> None:
    statement = "CREATE FUNCTION f AS 'flink_udf.twice' LANGUAGE PYTHON"
    with (
        runnel.connect(allowed_paths=[str(tmp_path)]) as bounded,
        pytest.raises(runnel.ProgrammingError, match="without bounds"),
    ):
        bounded.execute(statement)
    assert con.execute("SHOW USER FUNCTIONS").fetchall() == []
