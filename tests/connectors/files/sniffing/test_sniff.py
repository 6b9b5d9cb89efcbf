"""What is found in files whose mapping has no options, and what is refused."""

from __future__ import annotations

import bz2
import gzip
import logging
from datetime import date, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

import runnel
from runnel.connector import ColumnDefinition, MappingDefinition
from runnel.connectors.files.connector import FileConnector
from runnel.errors import DataError, NotSupportedError, ProgrammingError
from runnel.sqltypes import DATE, DOUBLE, INTEGER, VARCHAR, SqlType
from tests.connectors.files.cases import failure, mapping, schema, visible_rows, written

LAYOUTS = {
    "semicolons": "id;name\n1;Ann\n2;Bob\n",
    "tabs": "id\tname\n1\tAnn\n2\tBob\n",
    "bars": "id|name\n1|Ann\n2|Bob\n",
    "commas": "id,name\n1,Ann\n2,Bob\n",
    "single quotes": "id,name\n1,'Ann'\n2,'Bob'\n",
    "commas in values": "id;name\n1;Ann\n2;Bob\n",
    "a comment before": "# made today\nid,name\n1,Ann\n2,Bob\n",
    "a title before": "Report of today\n\nid;name\n1;Ann\n2;Bob\n",
    "CRLF": "id;name\r\n1;Ann\r\n2;Bob\r\n",
    "a mark of UTF-8": "\ufeffid;name\n1;Ann\n2;Bob\n",
}
PEOPLE = [(1, "Ann"), (2, "Bob")]


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "f.csv", LAYOUTS[name])
    table = mapping(path)
    assert schema(table) == {"id": "BIGINT", "name": "VARCHAR"}
    assert visible_rows(table) == PEOPLE
    declared = mapping(path, [("id", INTEGER), ("name", VARCHAR)])
    assert visible_rows(declared) == PEOPLE


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("has_header", [True, False])
def test_as_duckdb(tmp_path: Path, delimiter: str, has_header: bool) -> None:
    rows = [["id", "name", "day", "x"]] if has_header else []
    rows += [[str(i), f"a {i % 7} b", f"2024-01-{i % 28 + 1:02}", f"{i}.5"] for i in range(200)]
    path = written(tmp_path / "f.csv", "".join(delimiter.join(row) + "\n" for row in rows))
    table = mapping(path)
    expected = duckdb.sql(f"SELECT * FROM read_csv('{path}')")
    assert list(schema(table)) == expected.columns
    assert visible_rows(table) == expected.fetchall()


HEADERS = {
    "typed columns": ("1,Ann\n2,Bob\n", False),
    "dates": ("2024-01-01\n2024-01-02\n", False),
    "numbers below names": ("a,b\n1,2\n", True),
    "names that are years": ("id,2020,2021\nx,1,2\ny,3,4\n", True),
    "only text": ("name,city\nAnn,Berlin\nBob,Paris\n", True),
    "only years above numbers": ("2020,2021\n1.5,2.5\n", True),
    "a value that is repeated": ("de,Berlin\nfr,Paris\nde,Bonn\n", False),
    "values of one shape": ("ab-12,Berlin\ncd-34,Paris\nef-5,Bonn\n", False),
    "a name of another shape": ("code,city\ncd-34,Paris\nef-5,Bonn\n", True),
    "a missing value": ("n/a,5\n3,6\n", False),
    "the header again": ("name,city\nAnn,Berlin\nname,city\nBob,Paris\n", True),
    "one row of names": ("a,b\n", True),
    "one row of values": ("1,b\n", False),
    "a name that occurs twice": ("x,x\ny,z\n", False),
}


@pytest.mark.parametrize("name", HEADERS)
def test_headers(tmp_path: Path, name: str) -> None:
    text, has_header = HEADERS[name]
    table = mapping(written(tmp_path / "f.csv", text))
    first = text.partition("\n")[0].split(",")
    assert list(schema(table)) == (
        first if has_header else [f"column{i}" for i in range(len(first))]
    )
    assert len(visible_rows(table)) == text.count("\n") - has_header


def test_an_assumed_header_is_reported(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "Ann,Berlin\nBob,Paris\n")
    sniffed = mapping(path).sniffed
    assert sniffed is not None
    assert sniffed.header_is_assumed
    assert visible_rows(mapping(path, header="false")) == [("Ann", "Berlin"), ("Bob", "Paris")]


def test_declared_columns_decide(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "name,id\nAnn,1\n")
    assert visible_rows(mapping(path, [("id", VARCHAR), ("name", VARCHAR)])) == [("1", "Ann")]
    data = written(tmp_path / "g.csv", "1;Ann\n2;Bob\n")
    assert visible_rows(mapping(data, [("id", INTEGER), ("name", VARCHAR)])) == PEOPLE
    other = [("a", INTEGER), ("b", VARCHAR)]
    message, _, hint = failure(ProgrammingError, lambda: mapping(path, other))
    assert message == f'column "a" is not in file "{path}"'
    assert hint is not None
    assert "'header' = 'false'" in hint


def test_options_win(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "id;name\n1;Ann\n")
    assert schema(mapping(path, delimiter=",")) == {"id;name": "VARCHAR"}
    assert visible_rows(mapping(path, header="false")) == [("id", "name"), ("1", "Ann")]
    assert visible_rows(mapping(path, header="false", skip="1")) == [(1, "Ann")]
    assert visible_rows(mapping(path, quote="", delimiter=";")) == [(1, "Ann")]


TIMES: list[tuple[list[str], str, object]] = [
    (["31/12/2023", "1/2/2024"], "DATE", date(2023, 12, 31)),
    (["12/31/2023", "1/2/2024"], "DATE", date(2023, 12, 31)),
    (["01.02.2024"], "DATE", date(2024, 2, 1)),
    (["31-12-23"], "DATE", date(2023, 12, 31)),
    (["2024/02/01"], "DATE", date(2024, 2, 1)),
    (["01/02/2024", "03/04/2024"], "VARCHAR", "01/02/2024"),
    (["31/12/2023", "12/31/2023"], "VARCHAR", "31/12/2023"),
    (["31/02/2024"], "VARCHAR", "31/02/2024"),
    (["31.12.2023 10:20"], "TIMESTAMP", datetime(2023, 12, 31, 10, 20)),
    (["31.12.2023 10:20:30.25"], "TIMESTAMP", datetime(2023, 12, 31, 10, 20, 30, 250_000)),
    (["12/31/2023 1:05:06 PM"], "TIMESTAMP", datetime(2023, 12, 31, 13, 5, 6)),
    (["1.5.10", "2.0.0"], "VARCHAR", "1.5.10"),
]


@pytest.mark.parametrize(("texts", "kind", "first"), TIMES, ids=lambda item: str(item)[:30])
def test_times(tmp_path: Path, texts: list[str], kind: str, first: object) -> None:
    table = mapping(written(tmp_path / "f.csv", "k,v\n" + "".join(f"x,{v}\n" for v in texts)))
    assert schema(table)["v"] == kind
    assert visible_rows(table)[0][1] == first


def test_formats_of_declared_columns(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "d\n01/02/2024\n2024-03-04\n\n")
    columns: list[tuple[str, SqlType]] = [("d", DATE)]
    table = mapping(path, columns, dateFormat="%m/%d/%Y")
    assert visible_rows(table) == [(date(2024, 1, 2),), (date(2024, 3, 4),), (None,)]
    table = mapping(path, columns, dateFormat="DD/MM/YYYY")
    assert visible_rows(table)[0] == (date(2024, 2, 1),)
    with pytest.raises(ProgrammingError, match="wrong value '%Q' for option \"dateFormat\""):
        mapping(path, columns, dateFormat="%Q")
    with pytest.raises(DataError, match="value '01/02/2024' doesn't fit column \"d\""):
        visible_rows(mapping(written(tmp_path / "g.csv", "d\n01/02/2024\n"), columns))


def test_an_unclear_date_is_reported(tmp_path: Path) -> None:
    sniffed = mapping(written(tmp_path / "f.csv", "a,d\n1,01/02/2024\n")).sniffed
    assert sniffed is not None
    assert sniffed.unclear_date == "01/02/2024"
    both = written(tmp_path / "g.csv", "a,d\n13/02/2024 10:00,01/02/2024\n")
    assert visible_rows(mapping(both)) == [(datetime(2024, 2, 13, 10), date(2024, 2, 1))]


def test_decimal_commas_are_read_by_the_option(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "id;x\n1;3,50\n2;-4\n3;\n")
    assert visible_rows(mapping(path)) == [(1, "3,50"), (2, "-4"), (3, None)]
    table = mapping(path, decimalSeparator=",")
    assert schema(table)["x"] == "DOUBLE"
    assert visible_rows(table) == [(1, 3.5), (2, -4.0), (3, None)]
    columns: list[tuple[str, SqlType]] = [("id", INTEGER), ("x", DOUBLE)]
    _, _, hint = failure(DataError, lambda: visible_rows(mapping(path, columns)))
    assert "decimal_separator = ','" in str(hint)
    bare = written(tmp_path / "i.csv", "1;3,50\n2;4,75\n")
    assert visible_rows(mapping(bare)) == [(1, "3,50"), (2, "4,75")]
    tags = written(tmp_path / "j.csv", "id,tags\n1,a;b;c\n2,d;e;f\n")
    assert visible_rows(mapping(tags))[0] == (1, "a;b;c")
    numbers = written(tmp_path / "k.csv", "1,2\n3,4\n")
    assert visible_rows(mapping(numbers)) == [(1, 2), (3, 4)]
    mixed = written(tmp_path / "h.csv", "x;y\n1,5;1.5\n")
    assert visible_rows(mapping(mixed)) == [("1,5", 1.5)]


ENCODED = {
    "utf-16": "id;name\n1;Müller\n".encode("utf-16"),
    "utf-16-be": b"\xfe\xff" + "id;name\n1;Müller\n".encode("utf-16-be"),
    "utf-32": "id;name\n1;Müller\n".encode("utf-32"),
}


@pytest.mark.parametrize("name", ENCODED)
def test_byte_order_marks(tmp_path: Path, name: str) -> None:
    path = written(tmp_path / "f.csv", ENCODED[name])
    assert visible_rows(mapping(path)) == [(1, "Müller")]
    assert visible_rows(mapping(written(tmp_path / "f.csv.gz", gzip.compress(ENCODED[name])))) == [
        (1, "Müller")
    ]
    with pytest.raises(NotSupportedError, match="can't be followed"):
        mapping(path, follow="true")


@pytest.mark.parametrize("encoding", ["latin-1", "ISO-8859-1", "cp1252", "windows-1252", "cp850"])
@pytest.mark.parametrize("file_name", ["f.csv", "f.json", "f.txt"])
def test_encodings(tmp_path: Path, encoding: str, file_name: str) -> None:
    text = {"csv": "a,b\n1,Müller\n", "json": '{"a": 1, "b": "Müller"}\n', "txt": "Müller\n"}
    path = written(tmp_path / file_name, text[file_name[2:]].encode(encoding))
    _, _, hint = failure(DataError, lambda: visible_rows(mapping(path)))
    assert "'encoding'" in str(hint)
    assert visible_rows(mapping(path, encoding=encoding))[0][-1] == "Müller"
    lenient = mapping(path, encoding=encoding, onError="skip")
    assert visible_rows(lenient)[0][-1] == "Müller"


def test_wrong_encodings(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "a,b\n1,ä\n".encode("utf-16-le"))
    _, _, hint = failure(DataError, lambda: mapping(path))
    assert "'utf-16-le'" in str(hint)
    with pytest.raises(DataError, match="does not begin with the byte order mark of utf-16"):
        mapping(path, encoding="utf-16")
    with pytest.raises(ProgrammingError, match="wrong value 'klingon' for option \"encoding\""):
        mapping(path, encoding="klingon")
    with pytest.raises(ProgrammingError, match='option "encoding" is for text files'):
        mapping(tmp_path / "f.parquet", encoding="latin-1", format="parquet")


def test_other_formats_are_named(tmp_path: Path) -> None:
    table = pa.table({"a": [1]})
    pq.write_table(table, tmp_path / "parquet.csv")
    feather.write_feather(table, str(tmp_path / "arrow.csv"))
    written(tmp_path / "gz.csv", gzip.compress(b"a\n1\n"))
    written(tmp_path / "bz2.csv", bz2.compress(b"a\n1\n"))
    written(tmp_path / "json.csv", '[{"a": 1}]')
    written(tmp_path / "html.csv", "<!DOCTYPE html><p>not found")
    written(tmp_path / "csv.parquet", (tmp_path / "arrow.csv").read_bytes())
    for name, message in {
        "parquet.csv": "is Parquet, not CSV",
        "arrow.csv": "is an Arrow file, not CSV",
        "gz.csv": "is compressed by gzip, not CSV",
        "bz2.csv": "is compressed by bzip2, not CSV",
        "json.csv": "is JSON, not CSV",
        "html.csv": "is HTML, not CSV",
        "csv.parquet": "is an Arrow file, not Parquet",
    }.items():
        with pytest.raises(DataError, match=message):
            mapping(tmp_path / name)
    assert visible_rows(mapping(tmp_path / "gz.csv", compression="gz")) == [(1,)]
    braces = written(tmp_path / "braces.csv", "{a},b\n1,2\n")
    assert visible_rows(mapping(braces)) == [(1, 2)]
    orc = written(tmp_path / "orc.csv", "ORC,b\nx,2\n")
    assert visible_rows(mapping(orc)) == [("x", 2)]


def test_files_of_different_shapes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    written(tmp_path / "a" / "1.csv", "a,b\n1,2\n")
    written(tmp_path / "a" / "2.csv", "a,c\n3,4\n")
    with caplog.at_level(logging.WARNING):
        table = mapping(tmp_path / "a")
    assert visible_rows(table) == [(1, 2, None), (3, None, 4)]
    assert "1.csv" in caplog.text
    assert "2.csv" in caplog.text
    written(tmp_path / "b" / "1.csv", "a,b\n1,2\n")
    written(tmp_path / "b" / "2.csv", "a;b\n1;2\n")
    message, detail, _ = failure(ProgrammingError, lambda: mapping(tmp_path / "b"))
    assert message == "the files have different delimiters"
    assert "1.csv\" has ','" in str(detail)
    assert "2.csv\" has ';'" in str(detail)
    written(tmp_path / "c" / "1.csv", "a,b\n1,2\n")
    written(tmp_path / "c" / "2.csv", "3,4\n5,6\n")
    message, _, hint = failure(ProgrammingError, lambda: mapping(tmp_path / "c"))
    assert message == "the files have no column in common"
    assert "'header' = 'false'" in str(hint)


def test_malformed_records_while_columns_are_inferred(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", b"a,b\n1,x\n2\n3,\xff\n4,y\n")
    _, _, hint = failure(DataError, lambda: mapping(path))
    assert "'onError'" in str(hint)
    table = mapping(path, onError="skip")
    assert schema(table) == {"a": "BIGINT", "b": "VARCHAR"}
    assert visible_rows(table) == [(1, "x"), (4, "y")]
    json = written(tmp_path / "f.json", b'{"a": 1}\nxx\n[]\n{"a": 4}\n')
    _, _, hint = failure(DataError, lambda: mapping(json))
    assert "'onError'" in str(hint)
    assert visible_rows(mapping(json, onError="skip")) == [(1,), (4,)]


def test_empty_files_say_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "")
    columns: list[tuple[str, SqlType]] = [("id", INTEGER), ("name", VARCHAR)]
    table = mapping(path, columns)
    assert table.found_options == {}
    path.write_text("id,name\n1,Ann\n")
    assert visible_rows(table) == [(1, "Ann")]
    path.write_text("1;Ann\n2;Bob\n")
    message, _, hint = failure(ProgrammingError, lambda: visible_rows(table))
    assert message == f'the header of file "{path}" has none of the columns id, name'
    assert "'delimiter'" in str(hint)


def test_what_was_found_is_stored(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "x\n1;31/12/2023;1,5\n2;01/02/2024;2,25\n")
    rows = [(1, date(2023, 12, 31), 1.5), (2, date(2024, 2, 1), 2.25)]
    with runnel.connect(tmp_path / "directory") as connection:
        connection.execute(
            f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{path}', 'header' = 'false', "
            "'decimalSeparator' = ',')"
        )
        assert connection.execute("SELECT * FROM m").fetchall() == rows
    # A file that would be sniffed in another way.
    path.write_text("x\n5;01/02/2024;7\n")
    with runnel.connect(tmp_path / "directory") as connection:
        assert connection.execute("SELECT * FROM m").fetchall() == [(5, date(2024, 2, 1), 7.0)]


def test_mappings_of_earlier_versions_are_not_sniffed(tmp_path: Path) -> None:
    path = written(tmp_path / "f.csv", "1,Ann\n2,Bob\n")
    columns = (ColumnDefinition("1", INTEGER), ColumnDefinition("Ann", VARCHAR))
    stored = MappingDefinition("m", columns, {"path": str(path)}, is_stored=True)
    table = FileConnector().open(stored)
    assert table.found_options == {}
    assert visible_rows(table) == [(2, "Bob")]  # type: ignore[arg-type]


def test_rows_are_written_as_they_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    written(folder / "a.csv", "id;d;x;t\n1;31/12/2023;1,5;ä\n".encode("latin-1"))
    with runnel.connect() as connection:
        connection.execute(
            f"CREATE MAPPING m TYPE File OPTIONS ('path' = '{folder}', 'encoding' = 'latin-1', "
            "'decimalSeparator' = ',')"
        )
        connection.execute("INSERT INTO m VALUES (2, DATE '2024-01-02', 2.25, 'ö')")
        assert connection.execute("SELECT * FROM m ORDER BY id").fetchall() == [
            (1, date(2023, 12, 31), 1.5, "ä"),
            (2, date(2024, 1, 2), 2.25, "ö"),
        ]
        with pytest.raises(DataError, match="the character '日' can't be written in latin-1"):
            connection.execute("INSERT INTO m VALUES (3, NULL, NULL, '日')")
    assert any(b"2;02/01/2024;2,25;\xf6\n" in file.read_bytes() for file in folder.iterdir())
