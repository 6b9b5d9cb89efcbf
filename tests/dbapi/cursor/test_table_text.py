"""Rows as text: each mode, and tables that fit a width."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.relation.nodes import Field
from runnel.results.table_text import MODES, rows_of, table_text
from runnel.results.text_layout import TableLayout, text_width
from runnel.results.value_text import json_text, value_text
from runnel.sqltypes import BIGINT, VARCHAR

FIELDS = (Field("n", BIGINT), Field("text", VARCHAR))
ROWS = [(1, "a|b\nc"), (None, "日本語"), (30, None)]


def shown(mode: str, rows: Any = ROWS, **more: Any) -> list[str]:
    return table_text(FIELDS, rows, TableLayout(mode=mode, **more)).splitlines()


def test_a_box() -> None:
    assert shown("box") == [
        "┌────────┬─────────┐",
        "│   n    │  text   │",
        "│ BIGINT │ VARCHAR │",
        "├────────┼─────────┤",
        "│      1 │ a|b\\nc  │",
        "│   NULL │ 日本語  │",
        "│     30 │ NULL    │",
        "└────────┴─────────┘",
    ]
    assert shown("ascii", types=False, rows=ROWS[:1]) == [
        "+---+--------+",
        "| n |  text  |",
        "+---+--------+",
        "| 1 | a|b\\nc |",
        "+---+--------+",
    ]
    assert shown("box", header=False, rows=ROWS[2:], null="-") == [
        "┌────┬───┐",
        "│ 30 │ - │",
        "└────┴───┘",
    ]


def test_text_for_programs() -> None:
    assert shown("markdown") == [
        "| n | text |",
        "|---:|---|",
        "| 1 | a\\|b<br>c |",
        "| NULL | 日本語 |",
        "| 30 | NULL |",
    ]
    assert shown("line", rows=ROWS[:1]) == ["-[ row 1 ]----------", "n    | 1", "text | a|b\\nc"]
    assert table_text(FIELDS, ROWS, TableLayout("tsv", header=False)) == (
        '1\t"a|b\nc"\n\t日本語\n30\t'
    )


@pytest.mark.parametrize("value", ["", " x", "a,b", 'q"q', "l\nm", "r\rs", "plain", "'", "\t"])
def test_csv_is_read_back(value: str) -> None:
    text = table_text(FIELDS, [(1, value)], TableLayout("csv"))
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["n", "text"], ["1", value]]


def test_null_and_an_empty_text_differ_in_csv() -> None:
    assert shown("csv", [(1, None), (2, "")]) == ["n,text", "1,", '2,""']
    assert shown("csv", [(1, None)], null="NA") == ["n,text", "1,NA"]


def test_json_is_read_back() -> None:
    objects = [{"n": n, "text": text} for n, text in ROWS]
    assert json.loads(table_text(FIELDS, ROWS, TableLayout("json"))) == objects
    assert [json.loads(line) for line in shown("jsonlines")] == objects
    assert json.loads(table_text(FIELDS, [], TableLayout("json"))) == []
    twice = (Field("a", BIGINT), Field("a", BIGINT))
    assert table_text(twice, [(1, 2)], TableLayout("jsonlines")) == '{"a": 1, "a": 2}'


@pytest.mark.parametrize("mode", MODES)
def test_no_rows_and_a_maximum(mode: str) -> None:
    table_text(FIELDS, [], TableLayout(mode))
    assert "30" not in table_text(FIELDS, ROWS, TableLayout(mode, rows=2))
    assert "30" in table_text(FIELDS, ROWS, TableLayout(mode, rows=0))


def test_an_unknown_mode_names_the_others() -> None:
    with pytest.raises(runnel.InterfaceError, match='no mode "boxes"') as error:
        table_text(FIELDS, ROWS, TableLayout("boxes"))
    assert "box, ascii, markdown" in str(error.value)


@pytest.mark.parametrize("width", [*range(20, 130, 7), 200])
@pytest.mark.parametrize("count", [1, 2, 5, 30])
def test_a_table_fits(width: int, count: int) -> None:
    fields = tuple(Field(f"column{i}", VARCHAR) for i in range(count))
    rows = [tuple("値x" * (i + row) for i in range(count)) for row in range(3)]
    lines = table_text(fields, rows, TableLayout(width=width)).splitlines()
    lengths = {text_width(line) for line in lines}
    assert len(lengths) == 1 and max(lengths) <= width
    assert "column" in lines[1] or width < 30
    ascii_lines = table_text(fields, rows, TableLayout("ascii", width=width)).splitlines()
    assert len({text_width(line) for line in ascii_lines}) == 1


def test_types_are_shortened_first() -> None:
    with runnel.connect() as connection:
        cursor = connection.sql("SELECT INTERVAL '1' DAY AS a, 'abcdefghijkl' AS b")
        assert cursor.description is not None
        fields = [Field(item.name, item.type_code) for item in cursor.description]
        lines = table_text(fields, cursor.fetchall(), TableLayout(width=30)).splitlines()
    assert lines[4] == "│ 1 day       │ abcdefghijkl │"
    assert lines[2] == "│ INTERVAL D… │   VARCHAR    │"


def test_long_and_odd_values() -> None:
    lines = table_text(FIELDS, [(1, "x" * 10**6), (2, "\x1b[31m\ud800")], TableLayout(width=40))
    assert max(map(len, lines.splitlines())) <= 40
    assert "\\x1b[31m\\ud800" in lines
    assert text_width("e\u0301") == 1 and text_width("日") == 2


def test_rows_of_batches() -> None:
    batch = pa.RecordBatch.from_pydict({"n": [1, 2], "text": ["a", None]})
    batch = batch.cast(pa.schema([("n", pa.int64()), ("text", pa.string())]))
    assert rows_of(FIELDS, [batch, batch], 3) == [(1, "a"), (2, None), (1, "a")]
    assert len(rows_of(FIELDS, [batch, batch])) == 4
    assert rows_of(FIELDS, []) == []


@pytest.mark.parametrize(
    ("value", "text", "json_value"),
    [
        (True, "true", "true"),
        (1.5, "1.5", "1.5"),
        (float("nan"), "NaN", '"NaN"'),
        (float("-inf"), "-Infinity", '"-Infinity"'),
        (Decimal("1E+3"), "1000", "1000"),
        (Decimal("0.12345678901234567890"), "0.12345678901234567890", '"0.12345678901234567890"'),
        (date(2024, 1, 2), "2024-01-02", '"2024-01-02"'),
        (time(1, 2, 3), "01:02:03", '"01:02:03"'),
        (datetime(2024, 1, 2, 3, 4), "2024-01-02 03:04:00", '"2024-01-02 03:04:00"'),
        (
            datetime(2024, 1, 2, 3, 4, tzinfo=UTC),
            "2024-01-02 03:04:00+00:00",
            '"2024-01-02 03:04:00+00:00"',
        ),
        (timedelta(days=1), "1 day", '"1 day"'),
        (timedelta(days=-2, seconds=-1.5), "-2 days -00:00:01.5", '"-2 days -00:00:01.5"'),
        (timedelta(0), "00:00:00", '"00:00:00"'),
        (b"\x00\xff", "\\x00ff", '"\\\\x00ff"'),
        ([1, None, "it's"], "[1, NULL, 'it''s']", '[1, null, "it\'s"]'),
        ({"a": 1, "b": [True]}, "{'a': 1, 'b': [true]}", '{"a": 1, "b": [true]}'),
        ((1, "a"), "(1, 'a')", '[1, "a"]'),
        (None, "NULL", "null"),
    ],
)
def test_values(value: Any, text: str, json_value: str) -> None:
    assert value_text(value) == text
    assert json_text(value) == json_value
