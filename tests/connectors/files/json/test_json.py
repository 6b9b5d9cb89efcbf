"""JSON files: one object a line or an array, what is inferred, and what can't be read."""

from __future__ import annotations

import json
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from runnel.connector import ScanRequest
from runnel.connectors.files.json.json_records import line_of_record, record_chunks
from runnel.errors import DataError, OperationalError, ProgrammingError
from runnel.sqltypes import (
    BIGINT,
    DOUBLE,
    JSON,
    TIMESTAMP,
    VARCHAR,
    SqlType,
    array,
    decimal,
    map_of,
    row,
)
from tests.connectors.conformance import job_context, read_batches, read_rows
from tests.connectors.files.cases import failure, mapping, schema, visible_rows, written
from tests.effort import some


def _row(x: Any, y: Any) -> dict[str, Any]:
    return {"x": x, "y": y}


INFERRED: list[tuple[list[str], str, list[Any]]] = [
    (["1", "-2", "null"], "BIGINT", [1, -2, None]),
    (["1", "2.5"], "DOUBLE", [1.0, 2.5]),
    (["12345678901234567890"], "DECIMAL(38, 0)", [Decimal("12345678901234567890")]),
    (["true", "false"], "BOOLEAN", [True, False]),
    (['"007"', '"12"'], "VARCHAR", ["007", "12"]),
    (['"2024-02-29"', '"2023-01-01"'], "DATE", [date(2024, 2, 29), date(2023, 1, 1)]),
    (['"2023-02-29"'], "VARCHAR", ["2023-02-29"]),
    (['"2024-01-01T10:00:00"'], "TIMESTAMP", [datetime(2024, 1, 1, 10)]),
    (
        ['"2024-01-01T10:00:00Z"'],
        "TIMESTAMP WITH TIME ZONE",
        [datetime(2024, 1, 1, 10, tzinfo=UTC)],
    ),
    (["1.50", '"a"', "true", "null"], "VARCHAR", ["1.50", "a", "true", None]),
    (["null"], "VARCHAR", [None]),
    (["[1, null]", "[]", "null"], "BIGINT[]", [[1, None], [], None]),
    (["[]"], "VARCHAR[]", [[]]),
    (["[1, 2.5]", '["x"]'], "VARCHAR[]", [["1", "2.5"], ["x"]]),
    (
        ['{"x": 1}', '{"y": ["2024-01-01"]}'],
        "ROW(x BIGINT, y DATE[])",
        [{"x": 1, "y": None}, {"x": None, "y": [date(2024, 1, 1)]}],
    ),
    (['{"x": 1.50}', "[1]", "2.0"], "JSON", ['{"x":1.50}', "[1]", "2.0"]),
    (["{}"], "JSON", ["{}"]),
    (['"\\u00e9\\ud83e\\udd80 \\"\\\\ \\n"'], "VARCHAR", ['é🦀 "\\ \n']),
]


@pytest.mark.parametrize("as_array", [False, True], ids=["lines", "array"])
@pytest.mark.parametrize(
    ("values", "type_name", "expected"), INFERRED, ids=lambda item: str(item)[:25]
)
def test_types_are_found_out(
    tmp_path: Path, values: list[str], type_name: str, expected: list[Any], as_array: bool
) -> None:
    records = [f'{{"k": 1, "v": {value}}}' for value in values]
    text = "[" + ", ".join(records) + "]" if as_array else "\n".join(records)
    table = mapping(written(tmp_path / "f.json", text))
    assert schema(table) == {"k": "BIGINT", "v": type_name}
    assert read_rows(table, [1]) == [(value,) for value in expected]


def test_missing_fields_are_null_and_columns_are_united(tmp_path: Path) -> None:
    written(tmp_path / "1.json", '{"a": 1}\n\n{"b": "x"}\n')
    written(tmp_path / "2.json", '[{"a": 2.5, "c": [1]}]')
    table = mapping(tmp_path)
    assert schema(table) == {"a": "DOUBLE", "b": "VARCHAR", "c": "BIGINT[]"}
    assert visible_rows(table) == [(1.0, None, None), (None, "x", None), (2.5, None, [1])]


def test_declared_types(tmp_path: Path) -> None:
    path = written(
        tmp_path / "f.json",
        '{"a": "1.5", "b": 2.345, "c": {"x": "2024-01-01", "y": 1.0}, "d": {"k": 1}}\n',
    )
    columns = [
        ("a", DOUBLE),
        ("b", decimal(5, 1)),
        ("c", row(("x", TIMESTAMP), ("z", BIGINT))),
        ("d", map_of(VARCHAR, BIGINT)),
        ("missing", array(BIGINT)),
    ]
    assert visible_rows(mapping(path, columns)) == [
        (1.5, Decimal("2.3"), {"x": datetime(2024, 1, 1), "z": None}, {"k": 1}, None)
    ]
    assert visible_rows(mapping(path, [("b", VARCHAR), ("c", VARCHAR), ("d", JSON)])) == [
        ("2.345", '{"x":"2024-01-01","y":1.0}', '{"k":1}')
    ]


def test_the_last_of_repeated_fields_counts(tmp_path: Path) -> None:
    assert visible_rows(mapping(written(tmp_path / "f.json", '{"a": 1, "a": 2}\n'))) == [(2,)]


def test_counting_reads_no_column(tmp_path: Path) -> None:
    table = mapping(written(tmp_path / "f.json", '{"a": 1}\n\n{"b": 2}\nnull\n'))
    assert [(batch.num_rows, batch.num_columns) for batch in read_batches(table, ())] == [(3, 0)]


@pytest.mark.parametrize("text", ['null\n{"a": 1}', '[null, {"a": 1}]', '\n\n null \n{"a": 1}'])
def test_a_record_that_is_null_has_no_fields(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "f.json", text)
    assert visible_rows(mapping(path)) == [(None,), (1,)]
    assert visible_rows(mapping(path, [("a", BIGINT)])) == [(None,), (1,)]


@pytest.mark.parametrize("text", ["", " \n", "[]", "[ \n ]"])
def test_files_without_records(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "f.json", text)
    assert visible_rows(mapping(path, [("a", BIGINT)])) == []
    message, _, _ = failure(ProgrammingError, lambda: mapping(path))
    assert message == f'the columns of "t" can\'t be inferred: the files of "{path}" are empty'


CUT_OFF = [
    '{"a": 1}\n{"a": 2, "b"',
    '{"a": 1}\n{"a": tr',
    '[{"a": 1},\n {"a": "x',
    '[{"a": 1},\n{"a": 2}',
    '[{"a": 1},',
    "[",
]


@pytest.mark.parametrize("text", CUT_OFF)
def test_files_that_were_cut_off(tmp_path: Path, text: str) -> None:
    path = written(tmp_path / "f.json", text)
    message, _, hint = failure(
        OperationalError, lambda: visible_rows(mapping(path, [("a", BIGINT)]))
    )
    assert message == f'file "{path}" ends in the middle of a record'
    assert hint == "the file was cut off, or is not yet finished"
    failure(OperationalError, lambda: mapping(path))


MALFORMED = [
    ('{"a": 1}\n\n{"a": }\n{"a": 2}\n', "a record is not valid JSON", "line 3"),
    ('[\n{"a": 1},\n\n  {"a" 2}\n]', "a record is not valid JSON", "line 4"),
    ('{"a": 1}\n[1]\n', "a record is not an object", "line 2"),
    ('[{"a": 1},\n {"a": }]', "a record is not valid JSON", "line 2"),
    ('[{"a": 1},\n 5]', "a record is not an object", "line 2"),
]


@pytest.mark.parametrize(("text", "message", "line"), MALFORMED)
def test_records_that_are_wrong(tmp_path: Path, text: str, message: str, line: str) -> None:
    path = written(tmp_path / "f.json", text)
    for work in (lambda: mapping(path), lambda: visible_rows(mapping(path, [("a", BIGINT)]))):
        told, detail, hint = failure(DataError, work)
        assert told == message
        assert (detail or "").startswith(f'file "{path}", {line}')
        assert hint == (
            "a JSON file holds one object a line, or one array of objects; or leave such "
            "records out with 'onError' = 'skip', or 'divert:<mapping>'"
        )


WRONG = ('{"a": }', "[1]", '{"a": "x", "b": 1}', '{"a": 1, "b": "y"}')
"""No JSON, no object, a value of the first column and one of the second that don't fit."""


@pytest.mark.parametrize("later", WRONG)
@pytest.mark.parametrize("first", WRONG)
@pytest.mark.parametrize(
    ("as_array", "follow"), [(False, "false"), (True, "false"), (False, "true")]
)
def test_of_several_faults_the_first_is_told(
    tmp_path: Path, first: str, later: str, follow: str, as_array: bool
) -> None:
    lines = ['{"a": 1, "b": 2}', first, "{}", later, '{"a": 3}']
    path = written(
        tmp_path / "f.json",
        "[" + ",\n".join(lines) + "]\n" if as_array else "\n".join(lines) + "\n",
    )
    table = mapping(path, [("a", BIGINT), ("b", BIGINT)], follow=follow)
    (part,) = table.scan(ScanRequest((0, 1))).split(job_context())
    with pytest.raises(DataError) as caught:
        part.read()
    part.close()
    assert (caught.value.detail or "").startswith(f'file "{path}", line 2')


def test_text_after_an_array(tmp_path: Path) -> None:
    path = written(tmp_path / "f.json", '[{"a": 1}]\n{"a": 2}\n')
    message, _, _ = failure(DataError, lambda: mapping(path))
    assert message == f'file "{path}" goes on after the end of its array'


@pytest.mark.parametrize("chunk_bytes", [3, 8, 1 << 20])
@pytest.mark.parametrize(
    "text", ['[{"a": [1, {}]},\n{"a": 2}\n {"a": 3}]', '[\n\n{"a": "}{"}{}]', "[[]\n\n[]]"]
)
def test_elements_without_a_comma_between(tmp_path: Path, text: str, chunk_bytes: int) -> None:
    with pytest.raises(DataError, match="lacks a comma between two elements") as caught:
        list(record_chunks(pa.BufferReader(text.encode()), "f.json", chunk_bytes))
    assert caught.value.detail == "the second one starts on line 3"


@pytest.mark.parametrize("as_array", [False, True])
def test_a_value_that_doesnt_fit_is_named(tmp_path: Path, as_array: bool) -> None:
    text = '[{"a": 1},\n\n{"a": [2]\n}]' if as_array else '{"a": 1}\n\n{"a": [2]}\n'
    path = written(tmp_path / "f.json", text)
    message, detail, _ = failure(DataError, lambda: visible_rows(mapping(path, [("a", BIGINT)])))
    assert message == "value '[2]' doesn't fit column \"a\" of type BIGINT"
    assert detail == f'file "{path}", line 3'


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    path = written(tmp_path / "f.json", b'{"a": "x"}\n{"a": "\xff"}\n')
    message, _, _ = failure(DataError, lambda: visible_rows(mapping(path, [("a", VARCHAR)])))
    assert message == f'file "{path}", line 2, is not valid UTF-8'
    assert visible_rows(mapping(path, encodingErrors="replace")) == [("x",), ("\ufffd",)]


def test_half_of_a_surrogate_pair(tmp_path: Path) -> None:
    path = written(tmp_path / "f.json", '{"a": "x"}\n{"a": "\\ud83e"}\n')
    for table in (mapping(path), mapping(path, [("a", VARCHAR)])):
        message, detail, _ = failure(DataError, lambda table=table: visible_rows(table))
        assert message == "value '\\ud83e' doesn't fit column \"a\" of type VARCHAR"
        assert detail == f'file "{path}", line 2'
    path = written(tmp_path / "g.json", '{"\\ud83e": 1}\n')
    assert (
        failure(DataError, lambda: mapping(path))[0]
        == f'the name "\\ud83e" in file "{path}" has half of a surrogate pair'
    )


def _value(generator: random.Random, depth: int = 0) -> Any:
    kind = generator.random()
    if kind < 0.35:
        return "".join(generator.choice('ab"\\\n,[]{}é ') for _ in range(generator.randrange(8)))
    if kind < 0.6:
        return generator.randrange(100)
    if depth < 3 and kind < 0.8:
        return [_value(generator, depth + 1) for _ in range(generator.randrange(3))]
    if depth < 3:
        return {str(i): _value(generator, depth + 1) for i in range(generator.randrange(3))}
    return None


@pytest.mark.parametrize("seed", some(range(40), 3))
def test_arrays_are_cut_at_their_elements_wherever_blocks_end(seed: int) -> None:
    generator = random.Random(seed)
    records = [
        {"a": _value(generator), "b": _value(generator)} for _ in range(generator.randrange(1, 12))
    ]
    for block in (1, 2, 5, 17, 1000):
        for indent in (None, 1):
            text = json.dumps(
                records, indent=indent, ensure_ascii=generator.random() < 0.5
            ).encode()
            found = []
            for chunk in record_chunks(
                pa.BufferReader(b"\xef\xbb\xbf \n" + text + b"\n"), "f", block
            ):
                found += [json.loads(line) for line in chunk.data.split(b"\n") if line.strip()]
                assert not chunk.is_cut
            assert found == records
    lines = json.dumps(records, indent=1).encode()
    starts = [line_of_record(pa.BufferReader(lines), "f", i) for i in range(len(records))]
    assert [lines.split(b"\n")[(start or 0) - 1] for start in starts] == [b" {"] * len(records)
    assert starts == sorted(set(starts))


def test_the_same_as_duckdb(tmp_path: Path) -> None:
    generator = random.Random(5)
    records = []
    for i in range(2000):
        record: dict[str, Any] = {"id": i, "name": generator.choice(["a", 'q"', "é\n"]), "x": i / 8}
        if i % 3:
            record["tags"] = [str(generator.random()) for _ in range(i % 4)]
        if i % 5:
            record["at"] = {"day": f"2024-01-{i % 28 + 1:02}", "n": i}
        records.append(json.dumps(record))
    path = written(tmp_path / "f.json", "\n".join(records))
    connection = duckdb.connect()
    try:
        expected = connection.execute("SELECT * FROM read_json(?)", [str(path)]).fetchall()
    finally:
        connection.close()
    assert visible_rows(mapping(path)) == expected
    assert (
        visible_rows(mapping(written(tmp_path / "a.json", "[" + ",".join(records) + "]")))
        == expected
    )


def test_a_number_that_no_double_holds_stays_text(tmp_path: Path) -> None:
    table = mapping(written(tmp_path / "f.json", '{"a": 1e400}\n{"a": 5}\n'))
    assert schema(table) == {"a": "VARCHAR"}
    assert visible_rows(table) == [("1e400",), ("5",)]


@pytest.mark.parametrize("kind", [DOUBLE, array(DOUBLE), row(("x", DOUBLE))], ids=str)
def test_a_number_too_large_for_its_column_is_an_error(tmp_path: Path, kind: SqlType) -> None:
    value = {"DOUBLE": "-1e400", "DOUBLE[]": "[1.5, 1e400]"}.get(str(kind), '{"x": 1e400}')
    table = mapping(written(tmp_path / "f.json", f'{{"a": {value}}}\n'), [("a", kind)])
    with pytest.raises(DataError, match='doesn\'t fit column "a"'):
        visible_rows(table)


def large_records(count: int) -> list[str]:
    """More than 12 MB, some of them in a form that Arrow refuses."""
    filler = "x" * 1000
    lines = [
        f'{{"n": {n}, "at": "2024-01-01T00:00:{n % 60:02d}", "filler": "{filler}"}}'
        for n in range(count)
    ]
    for n in range(5000, count, 4000):
        lines[n] = f'{{"n": "{n}", "at": "2024-01-01 00:00:{n % 60:02d}"}}'
    return lines


def test_rows_of_a_large_file_come_in_its_order(tmp_path: Path) -> None:
    lines = large_records(14_000)
    table = mapping(
        written(tmp_path / "f.json", "\n".join(lines)), [("n", BIGINT), ("at", TIMESTAMP)]
    )
    assert read_rows(table, [0, 1]) == [
        (n, datetime(2024, 1, 1, 0, 0, n % 60)) for n in range(14_000)
    ]


def test_the_first_fault_of_a_large_file_is_told(tmp_path: Path) -> None:
    lines = large_records(14_000)
    lines[9000] = '{"n": "many"}'
    lines[13_500] = '{"n": }'
    table = mapping(written(tmp_path / "f.json", "\n".join(lines)), [("n", BIGINT)])
    with pytest.raises(DataError) as raised:
        read_rows(table, [0])
    assert "9001" in str(raised.value.detail)


def test_nested_columns_of_a_file_with_records_left_out(tmp_path: Path) -> None:
    path = written(
        tmp_path / "f.json",
        '{"r": {"x": "p", "y": 2}, "m": {"k": 1}, "l": [1]}\n'
        "{bad\n"
        '{"r": {"x": "q", "y": "z"}, "m": {}, "l": []}\n'
        '{"r": {"x": "q"}, "m": {"k": "z"}, "l": []}\n'
        '{"r": null, "m": {"k": 2, "l": null}, "l": [null]}\n',
    )
    kinds = [
        ("r", row(("x", VARCHAR), ("y", BIGINT))),
        ("m", map_of(VARCHAR, BIGINT)),
        ("l", array(BIGINT)),
    ]
    table = mapping(path, kinds, onError="skip")
    assert visible_rows(table) == [
        ({"x": "p", "y": 2}, {"k": 1}, [1]),
        (None, {"k": 2, "l": None}, [None]),
    ]
