"""Text files as lines."""

from __future__ import annotations

import gzip
from pathlib import Path

from runnel.connector import SinkRequest, WriteMode
from runnel.errors import DataError, OperationalError, ProgrammingError
from runnel.sqltypes import BIGINT, VARCHAR
from tests.connectors.conformance import batch_of, read_rows
from tests.connectors.files.cases import failure, mapping, schema, visible_rows, written


def test_lines(tmp_path: Path) -> None:
    path = written(tmp_path / "f.txt", "\ufeffa\r\n\r\n b \rc\nlast")
    table = mapping(path)
    assert schema(table) == {"line": "VARCHAR"}
    assert visible_rows(table) == [("a",), ("",), (" b \rc",), ("last",)]
    assert read_rows(table, (0, 1, 2)) == [
        ("a", str(path), 1),
        ("", str(path), 2),
        (" b \rc", str(path), 3),
        ("last", str(path), 4),
    ]
    assert [column.hidden for column in table.columns] == [False, True, True]


def test_many_small_files_and_one_without_lines(tmp_path: Path) -> None:
    expected = []
    for i in range(300):
        count = i % 3
        path = written(
            tmp_path / f"{i // 10}" / f"{i:03}.py",
            "".join(f"line {j}\n" for j in range(count)).removesuffix("\n"),
        )
        expected += [(f"line {j}", str(path), j + 1) for j in range(count)]
    table = mapping(tmp_path, format="lines", glob="**/*.py")
    assert sorted(read_rows(table, (0, 1, 2)), key=lambda found: found[1:]) == sorted(
        expected, key=lambda found: found[1:]
    )
    assert len(table.path.files()) == 300


def test_lines_across_blocks(tmp_path: Path) -> None:
    lines = ["x" * 700_000, "", "é" * 900_000, "end"]
    path = written(tmp_path / "f.log.gz", gzip.compress("\n".join(lines).encode()))
    assert read_rows(mapping(path), [2, 0]) == [(i + 1, line) for i, line in enumerate(lines)]


def test_declared_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "f.txt", "a\nb\n")
    assert visible_rows(mapping(path, [("text", VARCHAR)])) == [("a",), ("b",)]
    assert read_rows(mapping(path, [("text", VARCHAR)]), [2, 0]) == [(1, "a"), (2, "b")]
    assert visible_rows(mapping(path, [("line_number", BIGINT), ("line", VARCHAR)])) == [
        (1, "a"),
        (2, "b"),
    ]
    message, _, hint = failure(ProgrammingError, lambda: mapping(path, [("n", BIGINT)]))
    assert message == 'format lines has no column "n" of type BIGINT'
    assert hint == "its columns are line VARCHAR, file VARCHAR and line_number BIGINT"


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    written(tmp_path / "a.txt", "fine\n")
    path = written(tmp_path / "b.txt", b"fine\n\nna\xefve\n")
    message, _, _ = failure(DataError, lambda: visible_rows(mapping(tmp_path)))
    assert message == f'file "{path}", line 3, is not valid UTF-8'
    assert visible_rows(mapping(tmp_path, encodingErrors="replace"))[-1] == ("na\ufffdve",)


def test_a_file_that_goes_between_listing_and_reading(tmp_path: Path) -> None:
    from runnel.connector import ScanRequest
    from tests.connectors.conformance import job_context, read_partition

    path = written(tmp_path / "a.txt", "x\n")
    partitions = mapping(tmp_path).scan(ScanRequest((0,))).split(job_context())
    path.unlink()
    message, _, _ = failure(OperationalError, lambda: [read_partition(part) for part in partitions])
    assert message == f'file or folder "{path}" not found'


def test_writing_lines(tmp_path: Path) -> None:
    table = mapping(tmp_path / "out", [("text", VARCHAR)], format="lines")
    sink = table.sink(SinkRequest(WriteMode.INSERT, (0,)))
    sink.write(batch_of([("text", VARCHAR)], [("a",), (None,), ("ü",)]))
    failure(DataError, lambda: sink.write(batch_of([("text", VARCHAR)], [("a\nb",)])))
    sink.commit(sink.stage(0))
    sink.close()
    assert visible_rows(table) == [("a",), ("",), ("ü",)]
