"""CSV files: what is inferred, how text becomes values, and where the fault is when it doesn't."""

from __future__ import annotations

import gzip
import math
import random
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

from runnel.connectors.files import format as file_format
from runnel.connectors.files.csv import csv_reader
from runnel.errors import DataError, OperationalError, ProgrammingError
from runnel.sqltypes import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INTEGER,
    REAL,
    VARCHAR,
    SqlType,
    array,
    decimal,
)
from tests.connectors.conformance import read_rows
from tests.connectors.files.cases import failure, mapping, schema, visible_rows, written

INFERRED = [
    (["1", "-5", "0"], "BIGINT", [1, -5, 0]),
    (["007", "1"], "VARCHAR", ["007", "1"]),
    (["+49", "1"], "VARCHAR", ["+49", "1"]),
    (["1", "2.5"], "DOUBLE", [1.0, 2.5]),
    (["1e3", "-.5"], "DOUBLE", [1000.0, -0.5]),
    (["01.5"], "VARCHAR", ["01.5"]),
    (["nan", "x"], "VARCHAR", ["nan", "x"]),
    (["nan"], "VARCHAR", ["nan"]),
    (["12345678901234567890"], "DECIMAL(38, 0)", [Decimal("12345678901234567890")]),
    (["1" * 39], "VARCHAR", ["1" * 39]),
    (["0x1F"], "VARCHAR", ["0x1F"]),
    (["true", "FALSE"], "BOOLEAN", [True, False]),
    (["true", "1"], "VARCHAR", ["true", "1"]),
    (["2024-02-29", "0001-01-01"], "DATE", [date(2024, 2, 29), date(1, 1, 1)]),
    (["2023-02-29"], "VARCHAR", ["2023-02-29"]),
    (
        ["2024-02-29", "2024-01-01 10:00"],
        "TIMESTAMP",
        [datetime(2024, 2, 29), datetime(2024, 1, 1, 10)],
    ),
    (["2024-01-01T10:00:00.5"], "TIMESTAMP", [datetime(2024, 1, 1, 10, 0, 0, 500_000)]),
    (["2024-01-01T10:00:00Z"], "TIMESTAMP WITH TIME ZONE", [datetime(2024, 1, 1, 10, tzinfo=UTC)]),
    (
        ["2024-01-01 10:00:00+02:00"],
        "TIMESTAMP WITH TIME ZONE",
        [datetime(2024, 1, 1, 8, tzinfo=UTC)],
    ),
    (["2024-01-01T10:00:00Z", "2024-01-01"], "VARCHAR", ["2024-01-01T10:00:00Z", "2024-01-01"]),
    (["10:30", "23:59:59.5"], "TIME", [time(10, 30), time(23, 59, 59, 500_000)]),
    (["2024/01/01"], "DATE", [date(2024, 1, 1)]),
    (["01/02/2024"], "VARCHAR", ["01/02/2024"]),
    (["", "3"], "BIGINT", [None, 3]),
    ([" 1 ", "2"], "BIGINT", [1, 2]),
    (["", ""], "VARCHAR", [None, None]),
]


@pytest.mark.parametrize(
    ("texts", "type_name", "values"), INFERRED, ids=lambda item: str(item)[:30]
)
def test_types_are_found_out(
    tmp_path: Path, texts: list[str], type_name: str, values: list[object]
) -> None:
    table = mapping(written(tmp_path / "f.csv", "k,v\n" + "".join(f"x,{text}\n" for text in texts)))
    assert schema(table) == {"k": "VARCHAR", "v": type_name}
    assert read_rows(table, [1]) == [(value,) for value in values]


def test_nan_among_numbers(tmp_path: Path) -> None:
    table = mapping(written(tmp_path / "f.csv", "v,k\n1.5,a\nNaN,b\n-inf,c\n"))
    values = [row[0] for row in read_rows(table, [0])]
    assert values[0] == 1.5
    assert math.isnan(values[1])
    assert values[2] == -math.inf


def test_null_and_empty_text_differ(tmp_path: Path) -> None:
    table = mapping(written(tmp_path / "f.csv", 'a,b\n,1\n"",2\nNA,3\n"NA",4\n'))
    assert visible_rows(table) == [(None, 1), ("", 2), ("NA", 3), ("NA", 4)]
    table = mapping(tmp_path / "f.csv", nullValue="NA")
    assert visible_rows(table) == [("", 1), ("", 2), (None, 3), ("NA", 4)]


def test_blank_lines_in_a_single_column_are_null(tmp_path: Path) -> None:
    assert visible_rows(mapping(written(tmp_path / "f.csv", "a\n1\n\n3\n"))) == [
        (1,),
        (None,),
        (3,),
    ]
    path = written(tmp_path / "g.csv", "a\n\n\n")
    assert visible_rows(mapping(path)) == [(None,), (None,)]
    path = written(tmp_path / "h.csv", 'a\n"x\ny"\n\nz\n')
    _, detail, _ = failure(DataError, lambda: visible_rows(mapping(path, [("a", BIGINT)])))
    assert detail == f'file "{path}", line 2'
    path = written(tmp_path / "i.csv", "a\n1\n\nz\n")
    _, detail, _ = failure(DataError, lambda: visible_rows(mapping(path, [("a", BIGINT)])))
    assert detail == f'file "{path}", line 4'


def test_headers(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", '\n\ufeffa,,A," b\n",a\n1,2,3,4,5\n'.removeprefix("\n"))
    assert list(schema(mapping(path))) == ["a", "column1", "A_1", "b", "a_2"]
    assert visible_rows(mapping(path)) == [(1, 2, 3, 4, 5)]
    path = written(tmp_path / "g.csv", "\n\na,b\n1,2\n")
    assert visible_rows(mapping(path)) == [(1, 2)]
    path = written(tmp_path / "h.csv", "1,x\n2,y\n")
    table = mapping(path, header="false")
    assert schema(table) == {"column0": "BIGINT", "column1": "VARCHAR"}
    assert visible_rows(table) == [(1, "x"), (2, "y")]
    assert visible_rows(
        mapping(path, [("n", BIGINT), ("t", VARCHAR), ("more", DATE)], header="false")
    ) == [
        (1, "x", None),
        (2, "y", None),
    ]


@pytest.mark.parametrize("text", ["a,b", "a,b\n", "\ufeffa,b\r\n"])
def test_a_header_without_rows(tmp_path: Path, text: str) -> None:
    table = mapping(written(tmp_path / "f.csv", text))
    assert schema(table) == {"a": "VARCHAR", "b": "VARCHAR"}
    assert visible_rows(table) == []


def test_line_ends_and_quoted_line_ends(tmp_path: Path) -> None:
    table = mapping(written(tmp_path / "f.csv", 'a,b\r\n1,"x\r\ny"\r\n\r\n2,"say ""hi"""'))
    assert visible_rows(table) == [(1, "x\r\ny"), (2, 'say "hi"')]


def test_other_dialects(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "a;b\n1;'x;y'\n2;it\\'s\n")
    assert visible_rows(mapping(path, delimiter=";", quote="'", escape="\\")) == [
        (1, "x;y"),
        (2, "it's"),
    ]
    path = written(tmp_path / "g.csv", 'a\tb\n1\t"x\n')
    assert visible_rows(mapping(path, delimiter="\\t", quote="")) == [(1, '"x')]


def test_columns_are_matched_by_name(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "Id,Name,x\n1,a,2\n")
    assert visible_rows(mapping(path, [("name", VARCHAR), ("ID", INTEGER)])) == [("a", 1)]
    message, _, hint = failure(ProgrammingError, lambda: mapping(path, [("nam", VARCHAR)]))
    assert message == f'column "nam" is not in file "{path}"'
    assert hint == 'did you mean "Name"?'


def test_files_are_united_by_name(tmp_path: Path) -> None:
    written(tmp_path / "1.csv", "a,b\n1,2024-01-01\n")
    written(tmp_path / "2.csv", "c,A\nx,2.5\n")
    table = mapping(tmp_path)
    assert schema(table) == {"a": "DOUBLE", "b": "DATE", "c": "VARCHAR"}
    assert visible_rows(table) == [(1.0, date(2024, 1, 1), None), (2.5, None, "x")]


def test_declared_types_are_cast_to(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "a,b,c,d\n 1,2.345,TRUE, 2024-01-01 \n,,,\n")
    table = mapping(path, [("a", DOUBLE), ("b", decimal(5, 2)), ("c", BOOLEAN), ("d", DATE)])
    assert visible_rows(table)[1] == (None, None, None, None)
    assert visible_rows(table)[0][0] == 1.0
    assert visible_rows(table)[0][2:] == (True, date(2024, 1, 1))


def test_nested_columns_are_refused(tmp_path: Path) -> None:
    message, _, hint = failure(
        ProgrammingError, lambda: mapping(tmp_path / "f.csv", [("a", array(BIGINT))])
    )
    assert message == 'column "a" is of type BIGINT[], which format csv can\'t hold'
    assert hint == "declare it as VARCHAR or JSON"


def test_a_value_that_doesnt_fit_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", 'a,b\n1,"x\n\ny"\n\n3,z\nfour,z\n5,six\n')
    message, detail, hint = failure(
        DataError, lambda: visible_rows(mapping(path, [("a", BIGINT), ("b", VARCHAR)]))
    )
    assert message == "value 'four' doesn't fit column \"a\" of type BIGINT"
    assert detail == f'file "{path}", line 7'
    assert hint == (
        "correct the file, or declare the column as VARCHAR; or leave such records out with "
        "'onError' = 'skip', or 'divert:<mapping>'"
    )


def test_a_value_beyond_the_sample(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnel.connectors.files.csv.csv_format.SMALL_BYTES", 1000)
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 1000)
    path = written(tmp_path / "f.csv", "a,b\n" + "1,x\n" * 5000 + "1.5,x\n")
    table = mapping(path)
    assert schema(table) == {"a": "BIGINT", "b": "VARCHAR"}
    message, detail, hint = failure(DataError, lambda: visible_rows(table))
    assert message == "value '1.5' doesn't fit column \"a\" of type BIGINT"
    assert detail == f'file "{path}", line 5002'
    assert hint == (
        "BIGINT was inferred from a sample of the data; declare the column as VARCHAR in "
        "CREATE MAPPING; or leave such records out with 'onError' = 'skip', or 'divert:<mapping>'"
    )
    assert len(read_rows(table, [1])) == 5001


@pytest.mark.parametrize("code", ["007", "-01", "+7", " 08", "00"])
@pytest.mark.parametrize(
    ("first", "type_name"), [("1", "BIGINT"), ("1.5", "DOUBLE"), ("0", "BIGINT")]
)
def test_a_code_beyond_the_sample_is_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, first: str, type_name: str
) -> None:
    monkeypatch.setattr("runnel.connectors.files.csv.csv_format.SMALL_BYTES", 1000)
    monkeypatch.setattr(csv_reader, "BLOCK_BYTES", 1000)
    path = written(tmp_path / "f.csv", "a,b\n" + f"{first},x\n0,x\n" * 2500 + f"{code},x\n")
    table = mapping(path)
    assert schema(table) == {"a": type_name, "b": "VARCHAR"}
    message, detail, hint = failure(DataError, lambda: visible_rows(table))
    assert message == f"value '{code}' doesn't fit column \"a\" of type {type_name}"
    assert detail == f'file "{path}", line 5002'
    assert hint is not None and hint.startswith(
        "digits with a leading zero or a plus sign stay text"
    )
    assert len(visible_rows(mapping(path, [("a", DOUBLE)]))) == 5001


@pytest.mark.parametrize(("row", "fields"), [("1,2,3", 3), ("1", 1)])
def test_rows_with_too_many_or_few_fields(tmp_path: Path, row: str, fields: int) -> None:
    path = written(tmp_path / "f.csv", f'a,b\n1,"x\ny"\n{row}\n')
    message, detail, _ = failure(DataError, lambda: mapping(path))
    assert message == f"a row has {fields} fields where 2 are expected"
    assert detail == f'file "{path}", line 4'


def test_an_unclosed_quote(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", 'a,b\n1,x\n2,"y\n3,z\n')
    message, _, hint = failure(
        OperationalError, lambda: visible_rows(mapping(path, [("a", BIGINT), ("b", VARCHAR)]))
    )
    assert message == f'file "{path}" ends inside a quoted field'
    assert hint == "the file was cut off, or a quote is never closed"
    odd = written(tmp_path / "g.csv", 'a,b\n1,5" disk\n')
    assert visible_rows(mapping(odd)) == [(1, '5" disk')]


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", b"a,b\n1,x\n2,\xff\n")
    message, _, hint = failure(DataError, lambda: mapping(path))
    assert message == f'file "{path}", line 3, is not valid UTF-8'
    assert hint is not None
    assert "'encoding'" in hint
    assert "'latin-1' or 'windows-1252'" in hint
    assert "'encodingErrors' = 'replace'" in hint
    assert "'onError' = 'skip'" in hint
    assert visible_rows(mapping(path, encodingErrors="replace")) == [(1, "x"), (2, "\ufffd")]


def test_long_rows(tmp_path: Path) -> None:
    long = "y" * 3_000_000
    path = written(
        tmp_path / "f.csv", f"a,b\n{'0,x' + chr(10)}" * 1 + "1,x\n" * 10 + f"2,{long}\n3,z\n"
    )
    assert [len(row[1]) for row in visible_rows(mapping(path))] == [1] * 11 + [3_000_000, 1]


def test_a_cut_off_compressed_file(tmp_path: Path) -> None:
    data = gzip.compress(b"a,b\n" + random.Random(1).randbytes(30_000).hex().encode() + b",1\n")
    path = written(tmp_path / "f.csv.gz", data[: len(data) // 2])
    message, detail, _ = failure(OperationalError, lambda: mapping(path))
    assert message == f'file "{path}" can\'t be read'
    assert detail == "Truncated compressed stream"


@pytest.mark.parametrize("compression", ["bz2", "zst", "lz4", "gz"])
def test_compressions(tmp_path: Path, compression: str) -> None:
    import pyarrow as pa

    codec = {"gz": "gzip", "zst": "zstd"}.get(compression, compression)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(b"a,b\n1,2\n")
    path = written(tmp_path / f"f.csv.{compression}", sink.getvalue().to_pybytes())
    assert visible_rows(mapping(path)) == [(1, 2)]
    other = written(tmp_path / "data", path.read_bytes())
    assert visible_rows(mapping(other, format="csv", compression=compression)) == [(1, 2)]


def test_an_empty_file(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "")
    message, _, hint = failure(ProgrammingError, lambda: mapping(path))
    assert message == f'the columns of "t" can\'t be inferred: the files of "{path}" are empty'
    assert hint == "declare them: CREATE MAPPING t (column type, …) …"
    assert visible_rows(mapping(path, [("a", BIGINT)])) == []


def test_the_same_as_duckdb(tmp_path: Path) -> None:
    generator = random.Random(7)
    names = ['a "b"', "x,y", "", "line\nend", "ü", "z" * 50]
    lines = ["id,name,price,day,ts,flag"]
    for i in range(3000):
        name = generator.choice(names).replace('"', '""')
        moment = datetime(2000, 1, 1 + i % 28, i % 24, i % 60, i % 60)
        flag = generator.choice(["true", "false", ""])
        lines.append(f'{i},"{name}",{i * 0.37:.3f},{moment.date()},{moment},{flag}')
    path = written(tmp_path / "f.csv", "\n".join(lines) + "\n")
    connection = duckdb.connect()
    try:
        query = "SELECT * FROM read_csv(?, allow_quoted_nulls = false)"
        expected = connection.execute(query, [str(path)]).fetchall()
    finally:
        connection.close()
    assert visible_rows(mapping(path)) == expected


def test_a_scan_divides_many_files(tmp_path: Path) -> None:
    for i in range(200):
        written(tmp_path / f"{i:03}.csv", f"a\n{i}\n")
    table = mapping(tmp_path)
    assert sorted(row[0] for row in visible_rows(table)) == list(range(200))
    assert len(file_format.sample_of(table.path.files())) == file_format.SAMPLE_FILES


def test_a_number_that_no_double_holds_stays_text(tmp_path: Path) -> None:
    table = mapping(written(tmp_path / "f.csv", "a,b\n99999999999999999999999,-1e400\n1e400,inf\n"))
    assert schema(table) == {"a": "VARCHAR", "b": "VARCHAR"}
    assert visible_rows(table) == [("99999999999999999999999", "-1e400"), ("1e400", "inf")]


@pytest.mark.parametrize(("kind", "text"), [(DOUBLE, "1e400"), (REAL, "-1e39")])
def test_a_number_too_large_for_its_column_is_an_error(
    tmp_path: Path, kind: SqlType, text: str
) -> None:
    table = mapping(written(tmp_path / "f.csv", f"a\n1.5\ninf\n{text}\n"), [("a", kind)])
    with pytest.raises(DataError, match=f"value '{text}' doesn't fit column \"a\" of type {kind}"):
        visible_rows(table)
