"""How many rows text files are taken to have, when a statement is planned."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import runnel
from runnel.connectors.files.paths import file_path
from runnel.connectors.files.row_counts import (
    SAMPLE_BYTES,
    csv_count,
    estimated_rows,
    json_count,
    line_count,
)


def rows(path: Path, count: object) -> int | None:
    return estimated_rows(file_path(str(path), None, ignore_missing=False), "auto", count)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "count", "expected"),
    [
        ("", csv_count, 0),
        ("a,b\n", csv_count, 0),
        ("a,b\n1,2\n3,4", csv_count, 2),
        ("1,2\n3,4\n", line_count, 2),
        ('{"a":1}\n{"a":2}', json_count, 2),
        ("[]", json_count, 1),
        ('\n [{"a":[1,{"b":2}]},\n{"a":"},{"}\n]\n', json_count, 2),
        ('\ufeff[{"a":1},{"a":2},{"a":3}]', json_count, 3),
    ],
)
def test_small_files_are_counted(tmp_path: Path, text: str, count: object, expected: int) -> None:
    path = tmp_path / "file.txt"
    path.write_text(text, encoding="utf-8")
    assert rows(path, count) == expected


def test_large_files_are_estimated(tmp_path: Path) -> None:
    records = [{"id": i, "text": "x" * (i % 20)} for i in range(40_000)]
    lines = tmp_path / "lines.json"
    lines.write_text("".join(json.dumps(item) + "\n" for item in records))
    array = tmp_path / "array.json"
    array.write_text(json.dumps(records))
    table = tmp_path / "table.csv"
    table.write_text("id,text\n" + "".join(f"{item['id']},{item['text']}\n" for item in records))
    for path, count in ((lines, json_count), (array, json_count), (table, csv_count)):
        assert path.stat().st_size > SAMPLE_BYTES
        assert rows(path, count) == pytest.approx(40_000, rel=0.2)


def test_compressed_files_count_as_longer(tmp_path: Path) -> None:
    few, many = tmp_path / "few.csv.gz", tmp_path / "many.csv.gz"
    few.write_bytes(gzip.compress(b"a\n" + b"1\n" * 1000))
    many.write_bytes(gzip.compress(b"".join(b"%d\n" % (i * 7919) for i in range(200_000))))
    assert rows(few, csv_count) == 1000
    told = rows(many, csv_count)
    assert told is not None
    assert 100_000 < told < 600_000


def test_many_files_are_told_by_a_few(tmp_path: Path) -> None:
    for i in range(100):
        (tmp_path / f"{i:03}.csv").write_text("a\n" + "1\n" * (i + 1))
    assert rows(tmp_path, csv_count) == pytest.approx(5050, rel=0.2)


def test_what_cannot_be_read_has_no_count(tmp_path: Path) -> None:
    assert rows(tmp_path / "missing.csv", csv_count) is None
    broken = tmp_path / "broken.csv.gz"
    broken.write_bytes(b"this is no gzip")
    assert rows(broken, csv_count) is None
    commas = tmp_path / "commas.json"
    commas.write_text("[{} {}]")
    assert rows(commas, json_count) is None


@pytest.fixture
def connection() -> Iterator[runnel.Connection]:
    with runnel.connect(fragment_rows=10_000) as made:
        yield made


@pytest.mark.parametrize("name", ["t.csv", "t.json"])
def test_duckdb_groups_large_text_files(
    connection: runnel.Connection, tmp_path: Path, name: str
) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    for folder, count in ((small, 100), (large, 20_000)):
        folder.mkdir()
        body = [f'{{"g": {i % 7}}}' if name == "t.json" else str(i % 7) for i in range(count)]
        (folder / name).write_text("\n".join((["g"] if name == "t.csv" else []) + body) + "\n")
        connection.execute(
            f"CREATE MAPPING {folder.name} TYPE File OPTIONS ('path' = '{folder / name}')"
        )
    plans = [
        "\n".join(
            row[0] for row in connection.execute(f"EXPLAIN SELECT g, COUNT(*) FROM {t} GROUP BY g")
        )
        for t in ("small", "large")
    ]
    assert ["Fragment on DuckDB" in plan for plan in plans] == [False, True]
    expected = [(g, len(range(g, 20_000, 7))) for g in range(7)]
    assert (
        connection.execute("SELECT g, COUNT(*) FROM large GROUP BY g ORDER BY g").fetchall()
        == expected
    )
