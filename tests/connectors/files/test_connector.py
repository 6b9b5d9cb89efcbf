"""File mappings: paths, formats, table functions, and sinks that show only what is complete."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from runnel.connector import (
    ColumnDefinition,
    MappingDefinition,
    ScanRequest,
    SinkRequest,
    WriteMode,
)
from runnel.connectors.files import output as file_output
from runnel.connectors.files import sink as file_sink
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.connector import FileConnector
from runnel.connectors.files.functions.table_functions import file_table
from runnel.connectors.files.paths import file_path
from runnel.connectors.files.table import FileTable
from runnel.errors import (
    DataError,
    ErrorCode,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
)
from runnel.sqltypes import BIGINT, DOUBLE, VARCHAR
from tests.connectors.conformance import batch_of, job_context, read_rows
from tests.connectors.files.cases import failure, mapping, schema, visible_rows, written

COLUMNS = [("id", BIGINT), ("name", VARCHAR)]
ROWS = [(1, "a"), (2, None)]


def insert(table: FileTable, *batches: pa.RecordBatch) -> None:
    sink = table.sink(SinkRequest(WriteMode.INSERT, (0, 1)))
    for batch in batches:
        sink.write(batch)
    sink.commit(sink.stage(0))
    sink.close()


# Paths.


def test_a_folder_without_hidden_and_marker_files(tmp_path: Path) -> None:
    written(tmp_path / "1.csv", "a\n1\n")
    for name in (".2.csv", "_SUCCESS.csv", "sub/3.csv"):
        written(tmp_path / name, "a\n9\n")
    assert visible_rows(mapping(tmp_path)) == [(1,)]
    assert visible_rows(mapping(tmp_path, glob="?.csv")) == [(1,)]
    assert sorted(visible_rows(mapping(tmp_path, glob="_*.csv"))) == [(9,)]
    assert sorted(visible_rows(mapping(tmp_path, glob="**/*.csv"))) == [(1,), (9,), (9,)]


def test_patterns_in_the_path(tmp_path: Path) -> None:
    for name in ("a/1.csv", "b/2.csv", "b/c/3.csv", "b/.hidden/4.csv"):
        written(tmp_path / name, f"n\n{Path(name).stem}\n")
    assert sorted(visible_rows(mapping(tmp_path / "*" / "*.csv"))) == [(1,), (2,)]
    assert sorted(visible_rows(mapping(tmp_path / "**" / "[23].csv"))) == [(2,), (3,)]


def test_a_name_that_looks_like_a_pattern(tmp_path: Path) -> None:
    assert visible_rows(mapping(written(tmp_path / "a[1].csv", "n\n7\n"))) == [(7,)]


def test_a_path_relative_to_where_we_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "f.csv", "n\n7\n")
    monkeypatch.chdir(tmp_path)
    table = mapping("f.csv")
    monkeypatch.chdir("/")
    assert visible_rows(table) == [(7,)]


def test_missing_files_and_folders(tmp_path: Path) -> None:
    written(tmp_path / "flights.csv", "a\n1\n")
    message, _, hint = failure(OperationalError, lambda: mapping(tmp_path / "flihgts.csv"))
    assert message == f'file or folder "{tmp_path / "flihgts.csv"}" not found'
    assert hint == 'did you mean "flights.csv"?'
    _, _, hint = failure(OperationalError, lambda: mapping(tmp_path / "no" / "f.csv"))
    assert hint == f'there is no folder "{tmp_path / "no"}" either'
    message, _, hint = failure(OperationalError, lambda: mapping(tmp_path, glob="*.json"))
    assert message == f'folder "{tmp_path}" has no file that matches "*.json"'
    assert hint == (
        "correct the path or glob; with OPTIONS ('ignoreFileNotFound' = 'true') it counts as empty"
    )
    message, _, _ = failure(OperationalError, lambda: mapping(tmp_path / "*.parquet"))
    assert message == f'no file matches the pattern "{tmp_path / "*.parquet"}"'
    (tmp_path / "empty").mkdir()
    message, _, _ = failure(OperationalError, lambda: mapping(tmp_path / "empty", format="csv"))
    assert message == f'folder "{tmp_path / "empty"}" has no files to read'


def test_missing_is_found_out_by_the_query_when_columns_are_declared(tmp_path: Path) -> None:
    table = mapping(tmp_path / "later", COLUMNS, format="csv")
    source = table.scan(ScanRequest((0,)))
    with pytest.raises(OperationalError) as caught:
        source.split(job_context())
    assert caught.value.code == ErrorCode.OBJECT_NOT_FOUND
    assert (
        visible_rows(mapping(tmp_path / "later", COLUMNS, format="csv", ignoreFileNotFound="true"))
        == []
    )


@pytest.mark.parametrize("glob", ["/etc/*", "../*", "a/../../*"])
def test_a_glob_stays_below_the_path(tmp_path: Path, glob: str) -> None:
    message, _, _ = failure(ProgrammingError, lambda: mapping(tmp_path, glob=glob, format="lines"))
    assert message == f"wrong value '{glob}' for option \"glob\" of connector File"


def test_paths_that_are_wrong(tmp_path: Path) -> None:
    assert (
        failure(ProgrammingError, lambda: mapping("a\0b"))[0]
        == 'option "path" of connector File has a NUL character'
    )
    path = written(tmp_path / "f.csv", "a\n1\n")
    message, _, _ = failure(ProgrammingError, lambda: mapping(path, glob="*"))
    assert message == f'option "glob" is given, but "{path}" is not a folder'
    long = tmp_path / ("x" * 300 + ".csv")
    assert failure(OperationalError, lambda: mapping(long))[0] == f'file "{long}" can\'t be read'


# Formats and options.


@pytest.mark.parametrize(
    ("name", "data"),
    [("f.csv", "a\n1\n"), ("f.JSON", '{"a":1}'), ("f.ndjson", '{"a":1}'), ("f.jsonl", '[{"a":1}]')],
)
def test_the_extension_tells_the_format(tmp_path: Path, name: str, data: str) -> None:
    assert visible_rows(mapping(written(tmp_path / name, data))) == [(1,)]


def test_formats_that_cant_be_told(tmp_path: Path) -> None:
    path = written(tmp_path / "data.dat", "a\n1\n")
    message, _, hint = failure(ProgrammingError, lambda: mapping(path))
    assert message == f'the format of "{path}" is not known: it has no extension of a known format'
    assert hint == "add OPTIONS ('format' = 'csv'), or json, parquet, arrow, avro, lines"
    assert visible_rows(mapping(path, format="csv")) == [(1,)]
    written(tmp_path / "f.json", '{"a":1}')
    message, _, _ = failure(ProgrammingError, lambda: mapping(tmp_path))
    assert message == f'the files of "{tmp_path}" have different extensions'


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, 'option "path" of connector File is missing'),
        (
            {"path": "x", "format": "xml"},
            "wrong value 'xml' for option \"format\" of connector File",
        ),
        (
            {"path": "x", "format": "json", "header": "true"},
            'option "header" is for format csv, not json',
        ),
        (
            {"path": "x", "delimiter": ";;;;;"},
            "wrong value ';;;;;' for option \"delimiter\" of connector File",
        ),
        ({"path": "x", "quote": "\n"}, "wrong value '\n' for option \"quote\" of connector File"),
        (
            {"path": "x", "delimiter": '"'},
            'option "delimiter" of connector File is the same character as "quote" or "escape"',
        ),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    definition = MappingDefinition("t", (ColumnDefinition("a", BIGINT),), options)
    assert failure(ProgrammingError, lambda: FileConnector().open(definition))[0] == message


def test_what_a_file_mapping_hasnt() -> None:
    named = MappingDefinition("t", (), {"path": "x"}, external_name="y")
    assert (
        failure(ProgrammingError, lambda: FileConnector().open(named))[0]
        == "a File mapping has no external name"
    )
    typed = MappingDefinition("t", (), {"path": "x"}, object_type="Table")
    assert (
        failure(NotSupportedError, lambda: FileConnector().open(typed))[0]
        == 'connector File has no object type "Table"'
    )


# Table functions.


def test_table_functions(tmp_path: Path) -> None:
    csv = written(tmp_path / "f.csv", "a;b\n1;2\n")
    assert visible_rows(file_table("CSV_FILE", [str(csv)], {"DELIMITER": ";"})) == [(1, 2)]
    assert schema(file_table("csv_file", [], {"path": str(csv), "header": False})) == {
        "column0": "VARCHAR",
        "column1": "VARCHAR",
    }
    json = written(tmp_path / "data" / "f.json", '[{"a": 1}]')
    assert visible_rows(file_table("json_file", [str(json.parent), "*.json"], {})) == [(1,)]
    assert visible_rows(file_table("json_flat_file", [str(json)], {})) == [(1,)]
    assert visible_rows(file_table("lines_file", [str(csv)], {})) == [("a;b",), ("1;2",)]


@pytest.mark.parametrize(
    ("function", "positional", "named", "message"),
    [
        ("csv_file", [], {}, "csv_file needs the path of a file or folder"),
        (
            "csv_file",
            ["a", "b", "c"],
            {},
            "csv_file accepts at most 2 arguments by position (path, glob), not 3",
        ),
        ("csv_file", ["a"], {"Path": "b"}, 'argument "Path" of csv_file is given twice'),
        ("csv_file", ["a"], {"format": "json"}, 'csv_file has no option "format"'),
        ("csv_file", [1.5], {}, "the path of csv_file must be VARCHAR, or a list of VARCHAR"),
        ("csv_file", [5], {}, "the path of csv_file must be VARCHAR, or a list of VARCHAR"),
        ("csv_file", ["x", 5], {}, "the glob of csv_file must be VARCHAR"),
        ("csv_file", ["a"], {"headr": True}, 'csv_file has no option "headr"'),
        ("xml_file", ["a"], {}, 'table function "xml_file" not found'),
    ],
)
def test_wrong_arguments(
    function: str, positional: list[Any], named: dict[str, Any], message: str
) -> None:
    assert failure(ProgrammingError, lambda: file_table(function, positional, named))[0] == message


# Sinks.


def test_a_folder_gets_a_file_per_statement(tmp_path: Path) -> None:
    table = mapping(tmp_path / "new" / "deep", COLUMNS, format="csv")
    insert(table, batch_of(COLUMNS, ROWS))
    insert(table, batch_of(COLUMNS, [(3, "c")]), batch_of(COLUMNS, [(4, "d")]))
    names = sorted(path.name for path in (tmp_path / "new" / "deep").iterdir())
    assert len(names) == 2
    assert all(name.startswith("part-") and name.endswith(".csv") for name in names)
    assert visible_rows(table) == [*ROWS, (3, "c"), (4, "d")]


@pytest.mark.parametrize("name", ["out.csv", "out.json.gz", "out.parquet", "out.csv.zst"])
def test_a_path_with_an_extension_is_one_file(tmp_path: Path, name: str) -> None:
    table = mapping(tmp_path / "sub" / name, COLUMNS)
    insert(table, batch_of(COLUMNS, ROWS))
    assert [path.name for path in (tmp_path / "sub").iterdir()] == [name]
    assert visible_rows(table) == ROWS
    message, _, hint = failure(OperationalError, lambda: insert(table, batch_of(COLUMNS, ROWS)))
    assert message == f'file "{tmp_path / "sub" / name}" exists already'
    assert hint == "write to a new file, or to a folder, which gets a file per statement"


def test_a_file_that_appears_while_we_write_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    table = mapping(path, COLUMNS)
    sink = table.sink(SinkRequest(WriteMode.INSERT, (0, 1)))
    sink.write(batch_of(COLUMNS, ROWS))
    token = sink.stage(0)
    written(path, "id,name\n9,z\n")
    message, detail, _ = failure(OperationalError, lambda: sink.commit(token))
    assert (message, detail) == (f'file "{path}" can\'t be written', "File exists")
    sink.close()
    assert visible_rows(table) == [(9, "z")]
    assert list(tmp_path.iterdir()) == [path]


def test_no_rows_make_no_file(tmp_path: Path) -> None:
    insert(mapping(tmp_path / "out", COLUMNS, format="json"), batch_of(COLUMNS, []))
    assert not (tmp_path / "out").exists()


def test_what_a_dead_process_left_is_not_read(tmp_path: Path) -> None:
    table = mapping(tmp_path / "out", COLUMNS, format="csv")
    insert(table, batch_of(COLUMNS, ROWS))
    dead = table.sink(SinkRequest(WriteMode.INSERT, (0, 1)))
    dead.write(batch_of(COLUMNS, [(9, "half")]))
    assert len(list((tmp_path / "out").iterdir())) == 2
    assert visible_rows(table) == ROWS
    assert visible_rows(mapping(tmp_path / "out", glob="*")) == ROWS
    dead.close()
    assert len(list((tmp_path / "out").iterdir())) == 1


def test_a_glob_that_would_hide_what_is_written(tmp_path: Path) -> None:
    table = mapping(tmp_path, COLUMNS, format="csv", glob="x*.csv")
    message, _, hint = failure(
        ProgrammingError, lambda: table.sink(SinkRequest(WriteMode.SINK, (0, 1)))
    )
    assert message == (
        f'rows can\'t be written to "{tmp_path}": files named *.csv don\'t match the glob "x*.csv"'
    )
    assert hint == "create a mapping with the glob '*.csv'"
    table = mapping(tmp_path / "*.csv", COLUMNS)
    message, _, _ = failure(
        ProgrammingError, lambda: table.sink(SinkRequest(WriteMode.SINK, (0, 1)))
    )
    assert message == f'rows can\'t be written to the pattern "{tmp_path / "*.csv"}"'


def test_an_unwritable_place(tmp_path: Path) -> None:
    written(tmp_path / "file", "")
    table = mapping(tmp_path / "file" / "out", COLUMNS, format="csv")
    message, detail, _ = failure(OperationalError, lambda: insert(table, batch_of(COLUMNS, ROWS)))
    assert message == f'file "{tmp_path / "file" / "out"}" can\'t be written'
    assert detail == "Not a directory"


class FullDisk(file_output.FileOutput):
    """An output on a disk that is full after some bytes."""

    room = 100

    def write(self, data: bytes | pa.Buffer) -> None:
        with file_output.writing(self.path):
            if len(data) > self.room:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().write(data)


WRITE_BEYOND_A_LIMIT = """
import resource, sys
import pyarrow as pa
from runnel.connector import ColumnDefinition, MappingDefinition, SinkRequest, WriteMode
from runnel.connectors.files.connector import FileConnector
from runnel.connectors.files.paths import file_path
from runnel.errors import OperationalError
from runnel.sqltypes import BIGINT

resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))
for format_name in ("csv", "json", "parquet"):
    options = {"path": sys.argv[1], "format": format_name, "compression": "none"}
    table = FileConnector().open(MappingDefinition("t", (ColumnDefinition("id", BIGINT),), options))
    sink = table.sink(SinkRequest(WriteMode.INSERT, (0,)))
    try:
        for start in range(0, 300_000, 60_000):
            sink.write(pa.RecordBatch.from_arrays([pa.arange(start, start + 60_000)], names=["id"]))
        sink.stage(0)
    except OperationalError as error:
        assert error.detail == "File too large", error.detail
        sink.close()
    else:
        raise AssertionError("there was room")
"""


def test_a_limit_of_the_system_leaves_nothing(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", WRITE_BEYOND_A_LIMIT, str(tmp_path / "out")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("format_name", ["csv", "json"])
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    monkeypatch.setattr(file_sink, "FileOutput", FullDisk)
    table = mapping(tmp_path / "out", COLUMNS, format=format_name)
    sink = table.sink(SinkRequest(WriteMode.INSERT, (0, 1)))
    sink.write(batch_of(COLUMNS, ROWS))
    message, detail, hint = failure(
        OperationalError, lambda: sink.write(batch_of(COLUMNS, [(3, "x" * 200)]))
    )
    assert "can't be written" in message
    assert (detail, hint) == ("No space left on device", "free some space, or write elsewhere")
    sink.close()
    assert list((tmp_path / "out").iterdir()) == []


def test_a_value_that_csv_cant_hold(tmp_path: Path) -> None:
    table = mapping(tmp_path / "out", COLUMNS, format="csv", quote="")
    sink = table.sink(SinkRequest(WriteMode.INSERT, (0, 1)))
    message, _, _ = failure(DataError, lambda: sink.write(batch_of(COLUMNS, [(1, "a,b")])))
    assert message == "the text 'a,b' can't be written to a CSV file without quotes"
    sink.close()


def test_external_names_are_those_in_the_file(tmp_path: Path) -> None:
    definitions = (ColumnDefinition("id", BIGINT, "Id No"), ColumnDefinition("name", VARCHAR))
    table = FileConnector().open(
        MappingDefinition("t", definitions, {"path": str(tmp_path / "f.csv")})
    )
    assert isinstance(table, FileTable)
    insert(table, batch_of(COLUMNS, ROWS))
    assert (tmp_path / "f.csv").read_text() == "Id No,name\n1,a\n2,\n"
    assert read_rows(table, [0]) == [(1,), (2,)]


def test_duckdb_reads_what_we_write(tmp_path: Path) -> None:
    columns = [("id", BIGINT), ("name", VARCHAR), ("x", DOUBLE)]
    rows = [
        (1, 'q"uote, comma', 0.1),
        (2, None, None),
        (3, "line\nend\\ \t é", -1e300),
        (4, "007", 100.0),
    ]
    connection = duckdb.connect()
    try:
        for format_name in ("csv", "json", "parquet"):
            table = mapping(tmp_path / format_name, columns, format=format_name)
            sink = table.sink(SinkRequest(WriteMode.SINK, (0, 1, 2)))
            sink.write(batch_of(columns, rows))
            sink.commit(sink.stage(0))
            sink.close()
            query = (
                f"SELECT id, name, x FROM read_{format_name}('{tmp_path / format_name}/*') "
                "ORDER BY id"
            )
            assert connection.execute(query).fetchall() == rows
    finally:
        connection.close()


def test_a_folder_that_is_made_while_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exists(path: str) -> bool:
        Path(path).mkdir(exist_ok=True)
        return True

    monkeypatch.setattr(file_system, "exists", exists)
    assert file_path(str(tmp_path / "out"), None, ignore_missing=True).files() == []
