"""'onError': malformed records of files fail the query, are left out, or are kept to go
elsewhere."""

from __future__ import annotations

import json
import logging
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.connector import END, MalformedRecord, ScanRequest
from runnel.connectors.files.json import json_lines
from runnel.connectors.files.records import parser as record_parser
from runnel.connectors.files.records.malformed import FAIL, SKIP, OnError, on_error
from runnel.errors import DataError, Error
from runnel.sqltypes import BIGINT, DATE, VARCHAR, row
from tests.connectors.conformance import job_context, visible
from tests.connectors.files.cases import mapping, visible_rows, written

COLUMNS = [("id", BIGINT), ("name", VARCHAR), ("day", DATE)]
CSV = (
    'id,name,day\n1,a,2024-01-01\nx,b,2024-01-02\n3,"c\nd",2024-01-03\n4,e\n5,f,yesterday\n\n'
    '6,"g ""h""",\n7,i,2024-01-07,more\n8,j,'
)
CSV_ROWS = [1, 3, 6, 8]
CSV_FAULTS = [
    ("line 3", "x,b,2024-01-02", "value 'x' doesn't fit column \"id\" of type BIGINT"),
    ("line 6", "4,e", "a row has 2 fields where 3 are expected"),
    ("line 7", "5,f,yesterday", "value 'yesterday' doesn't fit column \"day\" of type DATE"),
    ("line 10", "7,i,2024-01-07,more", "a row has 4 fields where 3 are expected"),
]
JSON = (
    '{"id": 1, "day": "2024-01-01"}\n{"id": "x"}\n\n{"id": 3} \nnull\n[1]\n{"id": 6\n'
    '{"id": 7} {"id": 7}\n'
    '{"id": 8, "name": 8}\n{"id": 9, "day": "soon"}\n{"id": 1e400}\n{"id": 12}'
)
JSON_ROWS = [1, 3, None, 8, 12]
JSON_FAULTS = [
    ("line 6", "[1]", "a record is not an object"),
    ("line 7", '{"id": 6', "a record is not valid JSON"),
    ("line 8", '{"id": 7} {"id": 7}', "a record is not valid JSON"),
    ("line 2", '{"id": "x"}', "value 'x' doesn't fit column \"id\" of type BIGINT"),
    ("line 11", '{"id": 1e400}', "value '1e400' doesn't fit column \"id\" of type BIGINT"),
    ("line 10", '{"id": 9, "day": "soon"}', "value 'soon' doesn't fit column \"day\" of type DATE"),
]


def test_the_option_is_read() -> None:
    parse = on_error("onError").parse
    assert [parse("fail"), parse(" SKIP "), parse("Divert: Bad ones")] == [
        FAIL,
        SKIP,
        OnError(False, "Bad ones"),
    ]
    for wrong in ("", "ignore", "divert", "divert:"):
        with pytest.raises(ValueError):
            parse(wrong)


def read_all(table: Any) -> tuple[list[pa.RecordBatch], list[MalformedRecord], int]:
    """Batches, what is to be diverted, and how many records were left out."""
    batches, records, count = [], [], 0
    for part in table.scan(ScanRequest(visible(table))).split(job_context()):
        part.open(lambda: None)
        while (item := part.read()) is not END:
            batches.append(item)
        records += part.take_malformed()
        count += part.malformed
        part.close()
    return batches, records, count


@pytest.mark.parametrize(
    ("name", "text", "ids", "faults"),
    [("a.csv", CSV, CSV_ROWS, CSV_FAULTS), ("a.json", JSON, JSON_ROWS, JSON_FAULTS)],
)
def test_malformed_records_are_left_out_with_their_place(
    tmp_path: Path, name: str, text: str, ids: list[int], faults: list[tuple[str, str, str]]
) -> None:
    file = written(tmp_path / name, text)
    table = mapping(file, COLUMNS, onError="divert:bad")
    assert table.malformed_target == "bad"
    batches, records, count = read_all(table)
    assert [value for batch in batches for value in batch.column(0).to_pylist()] == ids
    expected = [
        MalformedRecord(f'file "{file}", {line}', record, reason) for line, record, reason in faults
    ]
    found = [
        MalformedRecord(item.place.partition(":")[0], item.record, item.reason) for item in records
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert count == len(faults)


@pytest.mark.parametrize(
    ("name", "text", "ids", "count"), [("a.csv", CSV, CSV_ROWS, 4), ("a.json", JSON, JSON_ROWS, 6)]
)
def test_skipped_records_are_counted_in_the_log(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    text: str,
    ids: list[int],
    count: int,
) -> None:
    file = written(tmp_path / name, text)
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(
            "CREATE MAPPING t (id BIGINT, name VARCHAR, day DATE) TYPE File "
            f"OPTIONS ('path' = '{file}', 'onError' = 'skip')"
        )
        with caplog.at_level(logging.WARNING, "runnel.connectors"):
            assert [value for (value, _) in cursor.execute("SELECT id, day FROM t")] == ids
    (message,) = [record.getMessage() for record in caplog.records]
    assert message.startswith(
        f'mapping "t": {count} malformed records left out, {count} in all; the first: '
    )


@pytest.mark.parametrize(("name", "text"), [("a.csv", CSV), ("a.json", JSON)])
def test_without_the_option_the_first_one_fails_the_query(
    tmp_path: Path, name: str, text: str
) -> None:
    table = mapping(written(tmp_path / name, text), COLUMNS)
    with pytest.raises(DataError) as caught:
        visible_rows(table)
    assert "line" in (caught.value.detail or "")


@pytest.mark.parametrize("format_name", ["csv", "json", "lines"])
def test_bytes_that_are_no_text(tmp_path: Path, format_name: str) -> None:
    rows = {
        "csv": b"1,a\n\xff,b\n3,\xfe\n4,d\n",
        "json": b'{"id":1}\n{"id":"\xff"}\n{"\xfe":3}\n{"id":4}\n',
    }
    data = rows.get(format_name, b"1\n\xff\nx\xfe\n4\n")
    column = {"lines": ("line", VARCHAR)}.get(format_name, ("id", VARCHAR))
    file = written(tmp_path / "data", data)
    options = {"header": "false"} if format_name == "csv" else {}
    table = mapping(file, [column], format=format_name, onError="divert:bad", **options)
    batches, records, _ = read_all(table)
    assert [value for batch in batches for value in batch.column(0).to_pylist()] == ["1", "4"]
    assert [record.place for record in records] == [
        f'file "{file}", line {line}' for line in (2, 3)
    ]


def test_line_numbers_stay_right_beside_what_is_left_out(tmp_path: Path) -> None:
    file = written(tmp_path / "a.txt", b"one\ntwo \xff\nthree\nfour\n")
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(
            f"CREATE MAPPING t TYPE File OPTIONS ('path' = '{file}', 'onError' = 'skip')"
        )
        assert cursor.execute("SELECT line_number, line FROM t").fetchall() == [
            (1, "one"),
            (3, "three"),
            (4, "four"),
        ]


def test_sound_files_are_read_as_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small blocks, so that records straddle them."""
    monkeypatch.setattr(record_parser, "BLOCK_BYTES", 64)
    chance = random.Random(5)
    names = ["", "plain", 'quo"te', "two\nlines", "com,ma", "Grüße 🦀", '"', "\n", "x" * 200]
    rows = [(i, chance.choice(names), None) for i in range(300)]
    csv_text = "id,name,day\r\n" + "".join(
        '{},"{}",\r\n'.format(i, name.replace('"', '""')) for i, name, _ in rows
    )
    json_text = "\n".join(json.dumps({"id": i, "name": name}) for i, name, _ in rows)
    for name, text in (("a.csv", csv_text), ("a.json", json_text)):
        table = mapping(written(tmp_path / name, text), COLUMNS, onError="skip")
        assert visible_rows(table) == rows, name
        assert visible_rows(mapping(tmp_path / name, COLUMNS)) == rows


@pytest.mark.parametrize("escape", ["", "\\"])
def test_quotes_within_fields_and_escapes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, escape: str
) -> None:
    monkeypatch.setattr(record_parser, "BLOCK_BYTES", 16)
    text = 'id,name\n1,5" pipe\n2,"two\nlines"\n3,"q""q"\n4,x"y"z\n5,"a\n\nb"\n6,end\n'
    table = mapping(written(tmp_path / "a.csv", text), COLUMNS[:2], onError="skip", escape=escape)
    names = ['5" pipe', "two\nlines", 'q"q', 'x"y"z', "a\n\nb", "end"]
    assert visible_rows(table) == list(enumerate(names, 1))


def test_a_quote_that_is_never_closed_costs_one_record(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", 'id,name\n1,a\n2,"b\n3,c\n')
    batches, records, _ = read_all(mapping(file, COLUMNS[:2], onError="divert:bad"))
    assert [batch.to_pylist() for batch in batches] == [[{"id": 1, "name": "a"}]]
    assert [(record.place, record.record) for record in records] == [
        (f'file "{file}", line 3', '2,"b\n3,c\n')
    ]


def test_many_malformed_records_among_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines, "PIECE_BYTES", 20_000)
    chance = random.Random(7)
    bad = {i for i in range(20_000) if chance.random() < 0.2}
    text = "\n".join('{"id": "no"}' if i in bad else f'{{"id": {i}}}' for i in range(20_000))
    batches, _, count = read_all(
        mapping(written(tmp_path / "a.json", text), COLUMNS[:1], onError="skip")
    )
    assert [value for batch in batches for value in batch.column(0).to_pylist()] == [
        i for i in range(20_000) if i not in bad
    ]
    assert count == len(bad)
    text = "id\n" + "\n".join("no" if i in bad else str(i) for i in range(20_000))
    batches, _, count = read_all(
        mapping(written(tmp_path / "a.csv", text), COLUMNS[:1], onError="skip")
    )
    assert sum(batch.num_rows for batch in batches) == 20_000 - len(bad)
    assert count == len(bad)


@pytest.mark.parametrize("columns", [[], [("name", VARCHAR)], [("r", row(("x", BIGINT)))]])
def test_what_isnt_read_isnt_malformed(tmp_path: Path, columns: Any) -> None:
    file = written(
        tmp_path / "a.json", '{"id": "x", "name": "a", "r": {"x": 1}}\n{"id": 1, "name": "b"}\n'
    )
    table = mapping(file, [("id", BIGINT), *columns], onError="skip")
    for part in table.scan(ScanRequest(tuple(range(1, len(columns) + 1)))).split(job_context()):
        batch = part.read()
        assert isinstance(batch, pa.RecordBatch)
        assert batch.num_rows == 2
        assert part.malformed == 0


def test_an_array_of_records_is_refused(tmp_path: Path) -> None:
    table = mapping(written(tmp_path / "a.json", '[{"id": 1}]'), COLUMNS[:1], onError="skip")
    with pytest.raises(Error, match="holds one array"):
        visible_rows(table)


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "id,name\n"), ("a.csv", ""), ("a.json", ""), ("b.csv", "\n\n"), ("a.txt", "")],
)
def test_files_without_records(tmp_path: Path, name: str, text: str) -> None:
    columns = [("line", VARCHAR)] if name.endswith("txt") else COLUMNS[:2]
    assert visible_rows(mapping(written(tmp_path / name, text), columns, onError="skip")) == []


BAD = (
    'CREATE MAPPING bad (place VARCHAR EXTERNAL NAME "__key.place", record VARCHAR, '
    "reason VARCHAR) TYPE IMap "
)
BAD += "OPTIONS ('keyFormat' = 'json-flat', 'valueFormat' = 'json-flat')"


def test_diverted_records_are_in_the_mapping(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", CSV)
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(BAD)
        cursor.execute(
            "CREATE MAPPING t (id BIGINT, name VARCHAR, day DATE) TYPE File "
            f"OPTIONS ('path' = '{file}', 'onError' = 'divert:bad')"
        )
        assert [value for (value, _) in cursor.execute("SELECT id, day FROM t")] == CSV_ROWS
        found = cursor.execute("SELECT place, record, reason FROM bad").fetchall()
        expected = [
            (f'file "{file}", {line}', record, reason) for line, record, reason in CSV_FAULTS
        ]
        assert sorted(row[1:] for row in found) == sorted(row[1:] for row in expected)
        assert sorted(place.partition(":")[0] for place, *_ in found) == sorted(
            row[0] for row in expected
        )
        assert cursor.execute("SELECT COUNT(*) FROM t").fetchone() == (6,), (
            "values that aren't read aren't malformed"
        )


def test_diverted_records_of_a_stream_come_while_it_runs(tmp_path: Path) -> None:
    written(tmp_path / "a.json", '{"id": 1}\nnonsense\n{"id": 2}\n')
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(BAD)
        cursor.execute(
            "CREATE MAPPING t (id BIGINT) TYPE File "
            f"OPTIONS ('path' = '{tmp_path}', 'format' = 'json', "
            "'follow' = 'true', 'pollMillis' = '1', 'onError' = 'divert:bad')"
        )
        changes = connection.cursor().execute("SELECT record FROM TABLE(CHANGES(TABLE bad))")
        stream = connection.cursor().execute("SELECT id FROM t")
        assert [stream.fetchone(), stream.fetchone()] == [(1,), (2,)]
        assert changes.fetchone() == ("nonsense",)
        stream.close()
        changes.close()


@pytest.mark.parametrize(
    ("mapping_of_bad", "said"),
    [
        (
            "CREATE MAPPING other (__key BIGINT) TYPE IMap OPTIONS ('keyFormat' = 'bigint')",
            '"bad" not found',
        ),
        (
            "CREATE MAPPING bad (__key BIGINT) TYPE IMap OPTIONS ('keyFormat' = 'bigint')",
            "has no column for them",
        ),
        (BAD.replace("reason VARCHAR", "reason BIGINT"), "must be VARCHAR, not BIGINT"),
        ("CREATE MAPPING bad TYPE Nexmark OPTIONS ('table' = 'bid')", "is not supported by table"),
    ],
)
def test_where_records_cannot_be_diverted_to(
    tmp_path: Path, mapping_of_bad: str, said: str
) -> None:
    file = written(tmp_path / "a.csv", "id\n1\n")
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(mapping_of_bad)
        cursor.execute(
            "CREATE MAPPING t (id BIGINT) TYPE File "
            f"OPTIONS ('path' = '{file}', 'onError' = 'divert:bad')"
        )
        with pytest.raises(Error, match=said):
            cursor.execute("SELECT id FROM t")
