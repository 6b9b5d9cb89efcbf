"""The runner itself: what it must find wrong, and what `--complete` writes."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from textwrap import dedent

import pytest

from tests.slt.oracle import same, translated
from tests.slt.records import SltError, read
from tests.slt.runner import Failure, main, run_file, text

MAPPING = (
    "CREATE MAPPING t (__key BIGINT, x BIGINT) TYPE IMap "
    "OPTIONS ('keyFormat'='bigint', 'valueFormat'='json-flat')"
)


def written(folder: Path, content: str) -> Path:
    path = folder / "case.slt"
    path.write_text(dedent(content).lstrip("\n"))
    return path


def run(folder: Path, content: str, *, with_oracle: bool = False) -> int:
    return run_file(written(folder, content), folder, {}, with_oracle=with_oracle)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("query I\nSELECT 1\n----\n2", "gave:\n    1\nexpected:\n    2"),
        ("query I\nSELECT 1\n----\n1\n1", "gave:\n    1\nexpected:\n    1\n    1"),
        ("query T\nSELECT 1\n----\n1", "gave columns of types I, not T"),
        ("query II\nSELECT 1\n----\n1", "gave columns of types I, not II"),
        ("query I\nSELECT nothing\n----\n1", "failed: column"),
        ("query I\nVALUES (2), (1)\n----\n1\n2", "gave:\n    2\n    1"),
        ("statement ok\nSELECT nothing", "failed: column"),
        ("statement error division\nSELECT 1", "worked, expected an error: division"),
        ("statement error division\nSELECT nothing", "expected:    division"),
        (
            f"statement ok\n{MAPPING}\n\nstatement count 2\nINSERT INTO t VALUES (1, 1)",
            "wrote 1 rows, not 2",
        ),
        ("statement maybe\nSELECT 1", '"statement maybe" is not known'),
    ],
)
def test_what_is_wrong_is_found(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(Failure) as caught:
        run(tmp_path, content)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        "duckdb SELECT 2\nquery I\nSELECT 1\n----\n1",
        "duckdb VALUES (1), (1)\nquery I\nSELECT 1\n----\n1",
        "duckdb VALUES (2), (1)\nquery I\nVALUES (1), (2)\n----\n1\n2",
        "duckdb SELECT error('no')\nquery I\nSELECT 1\n----\n1",
        "duckdb SELECT 1\nstatement error does not exist\nSELECT nothing",
    ],
)
def test_what_duckdb_disagrees_with_is_found(tmp_path: Path, content: str) -> None:
    with pytest.raises(Failure, match="DuckDB"):
        run(tmp_path, f"oracle duckdb\n\n{content}", with_oracle=True)
    assert run(tmp_path, content, with_oracle=True) == 0
    assert run(tmp_path, f"oracle duckdb\n\nskipif duckdb\n{content}", with_oracle=True) == 0


def test_all_that_fails_is_told(tmp_path: Path) -> None:
    with pytest.raises(Failure, match="2 records failed") as caught:
        run(
            tmp_path,
            "query I\nSELECT 1\n----\n2\n\nquery I\nSELECT 1\n----\n1\n\nquery I\nSELECT 1\n----\n"
            "3",
        )
    assert "case.slt:1:" in str(caught.value) and "case.slt:11:" in str(caught.value)


def test_the_tables_of_both_hold_the_same(tmp_path: Path) -> None:
    content = f"""
        oracle duckdb

        statement ok
        {MAPPING}

        args (7, 70)
        statement count 2
        INSERT INTO t VALUES (1, 10), (?, ?)

        statement count 1
        SINK INTO t VALUES (1, 11)

        statement count 1
        UPDATE t SET x = x / 2 WHERE __key = 1

        statement error exists already
        INSERT INTO t VALUES (7, 0)

        query II rowsort
        SELECT * FROM t
        ----
        7 | 70
        1 | 5

        onlyif duckdb
        statement ok
        DELETE FROM t

        duckdb SELECT COUNT(*) + 2 FROM t
        query I
        SELECT COUNT(*) FROM t
        ----
        2
        """
    assert run(tmp_path, content, with_oracle=True) == 6


def test_files_and_included_records(tmp_path: Path) -> None:
    (tmp_path / "setup.slt").write_text("file people.csv\nname,age\nann,3\n")
    content = """
        include setup.slt

        query TI
        SELECT * FROM TABLE(CSV_FILE('$SCRATCH/people.csv'))
        ----
        ann | 3
        """
    assert run(tmp_path, content) == 0, "without the oracle nothing is compared with it"


def test_a_file_that_is_not_well_formed_is_refused(tmp_path: Path) -> None:
    for content in ("select 1", "query I", "statement ok\n\nSELECT 1"):
        with pytest.raises(SltError):
            read(written(tmp_path, content))


@pytest.mark.parametrize("kind", ["query I", "statement ok"])
def test_a_directive_within_a_record_is_refused(tmp_path: Path, kind: str) -> None:
    content = f"statement ok\nSELECT 1\n\n{kind}\nduckdb SELECT 1\nSELECT 1\n"
    with pytest.raises(SltError, match=r'case.slt:5: "duckdb" belongs above the line'):
        read(written(tmp_path, content))


def test_complete_counts_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A query that fails has no result to write, and is shown."""
    content = "query I\nSELECT 7\n\nquery I\nSELECT nothing\n\nstatement error no\nSELECT 1 / 0\n"
    path = written(tmp_path, content)
    assert main([str(path), "--complete"]) == 1
    shown = capsys.readouterr().out
    assert "2 expected results were written, 1 records failed" in shown
    assert 'case.slt:4: SELECT nothing\nfailed: column "nothing"' in shown
    assert path.read_text().startswith("query I\nSELECT 7\n----\n7\n\nquery I\nSELECT nothing\n\n")


def test_complete_writes_what_came_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(
        tmp_path,
        f"""
        # A comment stays.
        statement ok
        {MAPPING}

        statement count 0
        INSERT INTO t VALUES (1, 1), (2, NULL)

        query T rowsort
        SELECT * FROM t

        query
        SELECT 'a', ''
        ----
        wrong

        statement ok
        SELECT (1 + 1) / 0

        statement error /0|division
        SELECT 1 / 0
        """,
    )
    assert main([str(path)]) == 1
    assert main([str(path), "--complete"]) == 0
    assert main([str(path)]) == 0
    assert main([f"{path}:12"]) == 0
    assert "0 failed" in capsys.readouterr().out
    lines = path.read_text().split("\n")
    assert lines[0] == "# A comment stays."
    assert "statement count 2" in lines and "query II rowsort" in lines
    assert lines[lines.index("query") + 1 :][:3] == ["SELECT 'a', ''", "----", "a | (empty)"]
    assert "statement error division by zero" in lines and "statement error /0|division" in lines


def test_complete_tells_the_file_from_what_it_includes(tmp_path: Path) -> None:
    """Records of the two stand at the same lines."""
    setup = (
        f"statement ok\n{MAPPING}\n\nstatement count 1\nINSERT INTO t VALUES (1, 1)\n\nquery I\n"
        "SELECT 7\n----\n7\n"
    )
    (tmp_path / "setup.slt").write_text(setup)
    path = tmp_path / "own.slt"
    path.write_text("include setup.slt\n\n\nquery T\nSELECT 3\n\nstatement ok\nSELECT 4\n")
    assert [record.line for record in read(path)] == [1, 4, 7, 4, 7]
    assert main([str(path), "--complete"]) == 0
    assert (tmp_path / "setup.slt").read_text() == setup
    assert (
        path.read_text()
        == "include setup.slt\n\n\nquery I\nSELECT 3\n----\n3\n\nstatement ok\nSELECT 4\n"
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        (1, 1, True),
        (1, 2, False),
        (1, Decimal("1.00"), True),
        (Decimal("0.1"), 0.1, True),
        (0.1 + 0.2, 0.3, True),
        (1.0, 1.00001, False),
        (float("nan"), float("nan"), True),
        (None, None, True),
        (None, 0, False),
        (True, 1, False),
        ("1", 1, False),
        ("1", 1.0, False),
        ([1, None], [1, None], True),
        ([1], [1, 2], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"b": 1}, False),
    ],
)
def test_when_two_values_are_the_same(ours: object, theirs: object, expected: bool) -> None:
    assert same(ours, theirs) is expected


def test_values_as_text() -> None:
    values = [
        None,
        True,
        1.0,
        float("-inf"),
        Decimal("1E+2"),
        "a\nb\\",
        "",
        b"\x01",
        [1, "x"],
        {"k": None},
    ]
    expected = [
        "NULL",
        "true",
        "1.0",
        "-Infinity",
        "100",
        "a\\nb\\\\",
        "(empty)",
        "\\x01",
        "[1, x]",
        "{k: NULL}",
    ]
    assert list(map(text, values)) == expected


def test_translation() -> None:
    assert translated("sink into t VALUES (1)") == "INSERT OR REPLACE INTO t VALUES (1)"
    sql = (
        "SELECT * FROM TABLE(GENERATE_SERIES((1), 2)) AS a "
        "JOIN table (GENERATE_SERIES(1, 2)) b ON TRUE"
    )
    assert (
        translated(sql)
        == "SELECT * FROM GENERATE_SERIES((1), 2) AS a JOIN GENERATE_SERIES(1, 2) b ON TRUE"
    )
