"""CSV files parsed chunk by chunk on several threads: the rows and the errors of the reader of
whole files, for random files with whatever a CSV file may hold."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import pytest

from runnel.connectors.files.csv import csv_chunks
from runnel.connectors.files.csv.csv_chunks import RowChunk, Unchunkable, check_quotes, row_chunks
from runnel.connectors.files.options import CsvDialect
from runnel.errors import Error
from runnel.sqltypes import BIGINT, DATE, DOUBLE, VARCHAR, decimal
from tests.connectors.conformance import read_rows
from tests.connectors.files.cases import mapping, written

COLUMNS = [("n", BIGINT), ("t", VARCHAR), ("x", DOUBLE), ("d", DATE), ("m", decimal(9, 2))]
TEXTS = [
    *("x", "", '""', '"a,b"', '"two\nlines"', '"two\r\nlines"', '"q""q"', '"\n"', '""""'),
    *(" y ", "é", "NULL", '" "', "text " * 12, '"' + "long\n" * 20 + '"', "'", "#", "\t"),
]
ODD_TEXTS = ['a"b"', 'a"b', '"a"b', '"a"b"c"', '"a" ', ' "a"', 'x""', '"a"b"', 'a"\nb"']
VALUES = {
    "n": ["1", "-2", "", " 3 ", "+4", "007", '"5"', '""', "9223372036854775807"],
    "x": ["1.5", "1e3", "-0", "", "inf", " 2 ", ".5", "5."],
    "d": ["2024-02-29", "", " 2024-01-01 "],
    "m": ["1.25", "-0.5", "", "3", "1.005"],
}
WRONG = {
    "n": ["x", "1.5", "9223372036854775808", "1_0"],
    "x": ["y", "1,2"],
    "d": ["2024-02-30"],
    "m": ["12345678.9"],
}
ENDS = ["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\n \n"]


def lines(seed: int) -> str:
    """A file of some tens of rows. Every second one has only what every reader accepts."""
    source = random.Random(seed)
    is_odd, fault = seed % 2, source.random() if seed % 4 == 3 else 1.0
    ends = source.choices(ENDS if is_odd else ["\n"], k=3)
    names = ["n", "t", "x", "d", "m"] + ["extra"] * (source.random() < 0.2)
    source.shuffle(names)
    rows = [",".join(names)]
    count = source.randrange(5, 120)
    for row in range(count):
        fields = []
        for name in names:
            choices = VALUES.get(name, TEXTS)
            if is_odd and source.random() < 0.02:
                choices = ODD_TEXTS if name in ("t", "extra") else choices
            if fault < row / count and source.random() < 0.05:
                choices = WRONG.get(name, ODD_TEXTS)
            fields.append(source.choice(choices))
        if fault < row / count and source.random() < 0.03:
            fields.append("more")
        rows.append(",".join(fields))
    text = "".join(row + source.choice(ends) for row in rows)
    if source.random() < 0.2:
        text += '1,"never closed' if fault < 1 else ""
    return ("\ufeff" if source.random() < 0.2 else "") + text.rstrip("\n")[: len(text)]


def outcome(path: Path, width: int = len(COLUMNS), **options: str) -> object:
    """All rows in order, or the error after them."""
    try:
        table = mapping(path, COLUMNS[:width], delimiter=",", **options)
        return read_rows(table, range(width))
    except Error as error:
        return type(error), error.message, error.detail, error.hint


def both(
    path: Path, monkeypatch: pytest.MonkeyPatch, width: int = len(COLUMNS), **options: str
) -> tuple[object, object]:
    """The outcome of the reader of whole files, and of the reader of chunks."""
    whole = outcome(path, width, **options)
    monkeypatch.setattr(csv_chunks, "LARGE_FILE", 0)
    monkeypatch.setattr(csv_chunks, "THREADS", 3)
    monkeypatch.setattr(csv_chunks, "BLOCK_BYTES", 64)
    monkeypatch.setattr(csv_chunks, "LONGEST_CHUNK", 1024)
    chunked = outcome(path, width, **options)
    monkeypatch.undo()
    assert not any(item.name.startswith("runnel-reading") for item in threading.enumerate())
    return whole, chunked


@pytest.mark.parametrize("seed", range(120))
def test_random_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    path = written(tmp_path / "f.csv", lines(seed))
    whole, chunked = both(path, monkeypatch)
    assert repr(chunked) == repr(whole)


@pytest.mark.parametrize(
    "options",
    [
        {"quote": ""},
        {"header": "false"},
        {"nullValue": "NULL"},
        {"encoding": "utf-16-le"},
        {"encodingErrors": "replace"},
        {"skip": "2"},
        {"escape": "\\"},
        {"quote": "'"},
        {"compression": "gz"},
    ],
)
@pytest.mark.parametrize("seed", range(0, 12, 2))
def test_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, options: dict[str, str]
) -> None:
    import gzip

    encoding = options.get("encoding", "utf-8")
    text = lines(seed).removeprefix("\ufeff")
    data = ('above\n"\n' + text if "skip" in options else text).encode(encoding)
    path = written(tmp_path / "f.csv", gzip.compress(data) if "compression" in options else data)
    whole, chunked = both(path, monkeypatch, **options)
    assert repr(chunked) == repr(whole)


def test_bytes_that_are_not_utf_8(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = b"n,t,x,d,m\n" + b"1,x,,,\n" * 40 + b"2,\xff,,,\n" + b"3,x,,,\n" * 40
    whole, chunked = both(written(tmp_path / "f.csv", rows), monkeypatch)
    assert isinstance(whole, tuple)
    assert chunked == whole


def test_a_truncated_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip

    rows = "n,t,x,d,m\n" + "".join(f"{n},x,,,\n" for n in range(9000))
    data = gzip.compress(rows.encode())
    path = written(tmp_path / "f.csv.gz", data[: len(data) // 2])
    whole, chunked = both(path, monkeypatch)
    assert "f.csv.gz" in str(whole)
    assert chunked == whole


def test_the_rows_before_a_fault_come_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quote in a place that the chunks can't be cut by: the whole reader continues."""
    rows = [f"{n},t{n},,," for n in range(300)]
    rows[150] = '150,a"b,,,'
    path = written(tmp_path / "f.csv", "n,t,x,d,m\n" + "\n".join(rows) + "\n")
    whole, chunked = both(path, monkeypatch)
    assert isinstance(whole, list)
    assert [row[0] for row in whole] == list(range(300))
    assert chunked == whole


def test_quotes_that_look_like_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut by the number of quotes alone, `"x` and `3,y"` would be rows of the right width."""
    path = written(tmp_path / "f.csv", 'n,t\n0,a"b\n' + '1,"x\n3,y"\n' * 40)
    whole, chunked = both(path, monkeypatch, width=2)
    assert whole == [(0, 'a"b')] + [(1, "x\n3,y")] * 40
    assert chunked == whole


def test_chunks_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large plain file is read without the reader of whole files."""
    monkeypatch.setattr(csv_chunks, "THREADS", 2)
    text = "n,t,x,d,m\n" + '1,"a\nb",1.5,2024-01-01,2.50\n' * 500_000
    table = mapping(written(tmp_path / "f.csv", text), COLUMNS)
    monkeypatch.setattr(
        "runnel.connectors.files.csv.csv_format.text_batches", lambda *_: pytest.fail("not chunked")
    )
    assert len(read_rows(table, [0])) == 500_000


def test_chunks_end_outside_quotes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_chunks, "BLOCK_BYTES", 8)
    text = 'n,t\n1,"a\nb"\n2,"""\n"\n3,c\n'
    table = mapping(written(tmp_path / "f.csv", text))
    file = table.path.files()[0]
    chunks = list(row_chunks(file, table.format.options))
    assert [chunk.is_first for chunk in chunks] == [True] + [False] * (len(chunks) - 1)
    assert b"".join(chunk.data for chunk in chunks).decode() == text
    assert all(chunk.data.count(b'"') % 2 == 0 for chunk in chunks)
    assert chunks[0] == RowChunk(b"n,t\n", True)


@pytest.mark.parametrize("text", ['1,a"b"\n', '1,"a"b"c"\n', '"a" ,"b" "c"\n'])
def test_quotes_within_fields(text: str) -> None:
    with pytest.raises(Unchunkable):
        check_quotes(text.encode(), CsvDialect())


@pytest.mark.parametrize("text", ['1,"a""b"\n', '"a"\r\n"b"\n', "1,2\n", '"",""\n', '"a"b\n'])
def test_quotes_around_fields(text: str) -> None:
    check_quotes(text.encode(), CsvDialect())
