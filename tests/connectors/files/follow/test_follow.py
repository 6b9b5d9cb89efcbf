"""Files in follow mode: what comes and grows is read once, in order, whatever the moments at which
one looks."""

from __future__ import annotations

import gzip
import json
import logging
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import runnel
from runnel.connector import Pause, ScanRequest, SourcePartition
from runnel.connectors.files.follow import file as followed_file
from runnel.errors import DataError, ErrorCode, NotSupportedError, OperationalError
from runnel.processor import ExpiredPosition, JobContext
from runnel.sqltypes import BIGINT, VARCHAR
from runnel.testing import ManualClock
from tests.connectors.conformance import job_context, visible
from tests.connectors.files.cases import mapping, schema, written

COLUMNS = [("id", BIGINT), ("name", VARCHAR)]
MILLISECOND = 1_000_000


class Follower:
    """Reads a followed mapping, one look after the other."""

    def __init__(self, path: Path, columns: Any = COLUMNS, **options: str) -> None:
        self.table = mapping(path, columns, follow="true", partitions="1", **options)
        self.clock = ManualClock()
        self.part = self.partition()

    def partition(self, owner: str = "") -> SourcePartition:
        context = job_context()
        context = JobContext(
            1, context.evaluation, self.clock.monotonic, context.results, owner=owner
        )
        (part,) = self.table.scan(ScanRequest(visible(self.table))).split(context)
        return part

    def look(self, part: SourcePartition | None = None) -> list[Any]:
        """The first column of what there is to read after the poll interval."""
        part = part or self.part
        self.clock.advance(100 * MILLISECOND)
        found: list[Any] = []
        while not isinstance(item := part.read(), Pause):
            assert isinstance(item, pa.RecordBatch)
            found += item.column(0).to_pylist()
        assert item.is_idle
        assert item.until == self.clock.monotonic() + 100 * MILLISECOND
        return found


def append(path: Path, data: str | bytes) -> None:
    with path.open("ab") as stream:
        stream.write(data.encode() if isinstance(data, str) else data)


def test_it_is_a_stream_without_end(tmp_path: Path) -> None:
    table = mapping(tmp_path, COLUMNS, format="csv", follow="true")
    assert (table.is_unbounded, table.can_end, table.row_count()) == (True, False, None)


def test_a_growing_file_line_by_line(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "id,name\n1,a\n")
    follower = Follower(file)
    assert follower.look() == [1]
    assert follower.look() == []
    append(file, "2,b\n3,")
    assert follower.look() == [2], "the last line is not whole yet"
    assert follower.look() == []
    append(file, 'c\r\n4,"d\n')
    assert follower.look() == [3]
    append(file, 'd"\n')
    assert follower.look() == [4], "nor is one with an open quote"


def test_before_the_poll_interval_is_over_nothing_is_looked_at(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "id,name\n1,a\n")
    follower = Follower(file)
    assert follower.look() == [1]
    append(file, "2,b\n")
    follower.clock.advance(99 * MILLISECOND)
    pause = follower.part.read()
    assert isinstance(pause, Pause)
    follower.clock.advance(1 * MILLISECOND)
    assert pause.until == follower.clock.monotonic()
    assert isinstance(follower.part.read(), pa.RecordBatch)


def test_new_files_by_name_and_old_ones_that_grow(tmp_path: Path) -> None:
    follower = Follower(tmp_path, format="json")
    assert follower.look() == []
    written(tmp_path / "b.json", '{"id": 2}\n')
    written(tmp_path / "a.json", '{"id": 1}\n')
    written(tmp_path / ".hidden.json", '{"id": 0}\n')
    assert follower.look() == [1, 2]
    append(tmp_path / "b.json", '{"id": 4}\n')
    written(tmp_path / "aa.json", '{"id": 3}\n')
    assert follower.look() == [3, 4]
    assert follower.look() == []


def test_a_header_that_comes_piece_by_piece(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "")
    follower = Follower(file)
    for piece in ("\ufeff".encode()[:2], "\ufeff".encode()[2:], b"\n", b"na", b"me,i", b"d\n"):
        append(file, piece)
        assert follower.look() == []
    append(file, "x,5\n")
    assert follower.look() == [5], "columns are found by the header's names"


@pytest.mark.parametrize("seed", range(4))
def test_any_cuts_give_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Bytes come in any pieces, blocks end anywhere, and at any moment another reader goes on from
    the position."""
    monkeypatch.setattr(followed_file, "BLOCK_BYTES", 64)
    monkeypatch.setattr("runnel.connectors.files.follow.partition.BATCH_ROWS", 3)
    chance = random.Random(seed)
    names = ["", "plain", "two\nlines", 'quo"te', "Grüße 🦀", "long" * 40]
    for form in ("csv", "json"):
        file = written(tmp_path / f"a.{form}", "")
        rows = [(i, chance.choice(names)) for i in range(200)]
        if form == "csv":
            text = "id,name\n" + "".join(
                '{},"{}"\n'.format(i, name.replace('"', '""')) for i, name in rows
            )
        else:
            text = "".join(
                json.dumps({"id": i, "name": name}, ensure_ascii=False) + "\n" for i, name in rows
            )
        left, found = text.encode(), []
        follower = Follower(file)
        part = follower.part
        while left:
            size = chance.randrange(1, 400)
            append(file, left[:size])
            left = left[size:]
            follower.clock.advance(100 * MILLISECOND)
            while not isinstance(item := part.read(), Pause):
                found += [tuple(row.values()) for row in item.to_pylist()]
                if chance.random() < 0.3:
                    token = json.loads(json.dumps(part.position()))
                    part.close()
                    part = follower.partition()
                    part.seek(token)
        assert found == rows, form


def test_lines_know_their_numbers(tmp_path: Path) -> None:
    file = written(tmp_path / "a.log", "one\ntwo\n")
    follower = Follower(file, (), format="lines")
    place = [column.name for column in follower.table.columns].index("line_number")
    context = JobContext(1, job_context().evaluation, follower.clock.monotonic)
    (part,) = follower.table.scan(ScanRequest((place, 0))).split(context)
    assert follower.look(part) == [1, 2]
    append(file, "three\n")
    assert follower.look(part) == [3]


def test_a_malformed_record_fails_with_its_line_or_is_left_out(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "id,name\n1,a\n")
    strict, lenient = Follower(file), Follower(file, onError="divert:bad")
    assert strict.look() == lenient.look() == [1]
    append(file, "2,b\n")
    assert strict.look() == lenient.look() == [2]
    append(file, "three,c\n4,d\n")
    with pytest.raises(DataError) as caught:
        strict.look()
    assert caught.value.detail == f'file "{file}", line 4'
    assert "'three'" in caught.value.message
    assert lenient.look() == [4]
    assert lenient.part.malformed == 1
    assert [record.record for record in lenient.part.take_malformed()] == ["three,c"]
    assert lenient.part.take_malformed() == []


@pytest.mark.parametrize("form", ["parquet", "csv.gz"])
def test_files_of_other_formats_are_read_when_they_stay_the_same(tmp_path: Path, form: str) -> None:
    def content(low: int) -> bytes:
        if form == "csv.gz":
            return gzip.compress(f"id,name\n{low},a\n{low + 1},b\n".encode())
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"id": [low, low + 1], "name": ["a", "b"]}), sink)
        return sink.getvalue().to_pybytes()

    follower = Follower(tmp_path, format=form[:7].removesuffix(".gz"))
    file = written(tmp_path / f"a.{form}", content(1)[:20])
    assert follower.look() == []
    append(file, content(1)[20:])
    assert follower.look() == [], "it grew since the last look"
    assert follower.look() == [1, 2]
    assert follower.look() == []
    written(tmp_path / f"c.{form}", content(5))
    written(tmp_path / f"b.{form}", content(3))
    assert follower.look() + follower.look() == [3, 4, 5, 6]


def test_whole_files_go_on_from_a_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runnel.connectors.files.follow.partition.BATCH_ROWS", 10)
    for name, low in (("a", 0), ("b", 100)):
        pq.write_table(
            pa.table({"id": range(low, low + 35), "name": ["x"] * 35}), tmp_path / f"{name}.parquet"
        )
    follower = Follower(tmp_path)
    follower.look()
    follower.clock.advance(100 * MILLISECOND)
    given: list[int] = []
    while not isinstance(item := follower.part.read(), Pause):
        given += item.column(0).to_pylist()
        other = follower.partition()
        other.seek(json.loads(json.dumps(follower.part.position())))
        rest = follower.look(other) + follower.look(other)
        assert given + rest == [*range(35), *range(100, 135)]


def test_a_truncated_file_is_told_and_read_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = written(tmp_path / "a.csv", "id,name\n1,a\n2,b\n")
    follower = Follower(file)
    assert follower.look() == [1, 2]
    with caplog.at_level(logging.WARNING, "runnel.connectors"):
        file.write_text("name,id\nx,3\n")
        assert follower.look() == [3]
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        f'file "{file}" was truncated after 16 of its bytes were read'
    ]


def test_a_replaced_file_is_told_and_read_anew(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = written(tmp_path / "a.csv", "id,name\n1,a\n2,b\n")
    follower = Follower(file)
    assert follower.look() == [1, 2]
    other = written(tmp_path / "new", "id,name\n5,a\n6,b\n7,c\n")
    with caplog.at_level(logging.WARNING, "runnel.connectors"):
        other.replace(file)
        assert follower.look() == [5, 6, 7]
    assert "was replaced" in "\n".join(caplog.messages)


def test_a_file_that_was_copied_and_grew_goes_on(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "id,name\n1,a\n")
    follower = Follower(file)
    assert follower.look() == [1]
    other = written(tmp_path / "new", "id,name\n1,a\n2,b\n")
    other.replace(file)
    assert follower.look() == [2]


def test_a_removed_file_is_told_and_a_new_one_of_its_name_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = written(tmp_path / "a.csv", "id,name\n1,a\n")
    follower = Follower(tmp_path, format="csv", glob="*.csv")
    assert follower.look() == [1]
    with caplog.at_level(logging.WARNING, "runnel.connectors"):
        file.unlink()
        assert follower.look() == []
    assert f'file "{file}" was removed after 12 of its bytes were read' in "\n".join(
        caplog.messages
    )
    written(file, "id,name\n1,a\n2,b\n")
    assert follower.look() == [1, 2]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda file: file.unlink(), "is gone"),
        (lambda file: file.write_text("id,name\n"), "has only 8 bytes now"),
        (lambda file: file.write_text("id,name\n8,a\n9,b\n"), "has other contents now"),
    ],
)
def test_a_position_in_what_is_gone_tells_the_gap(tmp_path: Path, change: Any, said: str) -> None:
    file = written(tmp_path / "a.csv", "id,name\n1,a\n2,b\nlast")
    follower = Follower(tmp_path, format="csv")
    assert follower.look() == [1, 2]
    token = follower.part.position()
    change(file)
    for choice, wanted in ((ExpiredPosition.EARLIEST, True), (ExpiredPosition.LATEST, False)):
        other = follower.partition()
        with pytest.raises(OperationalError, match=said) as caught:
            other.seek(token or {})
        assert caught.value.code is ErrorCode.POSITION_EXPIRED
        assert "byte 16, line 4" in (caught.value.detail or "")
        assert str(file) in other.skip_to(choice).position
        there = (
            [int(line.split(",")[0]) for line in file.read_text().split()[1:]]
            if file.exists()
            else []
        )
        assert follower.look(other) == (there if wanted else [])
        with file.open("a") as stream:
            stream.write("7,z\n" if file.stat().st_size else "id,name\n7,z\n")
        assert follower.look(other) == [7]
        change(file)
        follower.look(other)


def test_whole_files_that_changed_tell_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runnel.connectors.files.follow.partition.BATCH_ROWS", 10)
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(35), "name": ["x"] * 35}), file)
    follower = Follower(tmp_path)
    follower.look()
    follower.clock.advance(100 * MILLISECOND)
    assert follower.part.read().num_rows == 10
    token = json.loads(json.dumps(follower.part.position()))
    pq.write_table(pa.table({"id": range(100, 130), "name": ["x"] * 30}), file)
    for choice, wanted in (
        (ExpiredPosition.EARLIEST, list(range(100, 130))),
        (ExpiredPosition.LATEST, []),
    ):
        other = follower.partition()
        with pytest.raises(OperationalError, match="was changed after 10 of its rows were read"):
            other.seek(token)
        other.skip_to(choice)
        assert follower.look(other) + follower.look(other) == wanted
    file.unlink()
    with pytest.raises(OperationalError, match="is gone after 10 of its rows were read"):
        follower.partition().seek(token)


def test_files_renamed_while_nobody_looked_are_read_on(tmp_path: Path) -> None:
    log, whole = written(tmp_path / "a.csv", "id,name\n1,a\n2,b\n"), tmp_path / "whole"
    follower = Follower(tmp_path, format="csv")
    assert follower.look() == [1, 2]
    token = json.loads(json.dumps(follower.part.position()))
    append(log, "3,c\n")
    log.rename(tmp_path / "a.1.csv")
    written(log, "id,name\n4,d\n")
    other = follower.partition()
    other.seek(token)
    assert sorted(follower.look(other)) == [3, 4]
    whole.mkdir()
    pq.write_table(pa.table({"id": range(5), "name": ["x"] * 5}), whole / "b.parquet")
    follower = Follower(whole)
    assert follower.look() + follower.look() == list(range(5))
    token = json.loads(json.dumps(follower.part.position()))
    (whole / "b.parquet").rename(whole / "c.parquet")
    other = follower.partition()
    other.seek(token)
    assert follower.look(other) + follower.look(other) == []


@pytest.mark.parametrize("is_gone", [True, False])
def test_what_a_job_has_seen_and_not_read_may_not_go(tmp_path: Path, is_gone: bool) -> None:
    """A query goes on, as the tests above show; a job tells it, and goes on where it is told to."""
    file = written(tmp_path / "a.csv", "id,name\n1,a\n2,b")
    follower = Follower(tmp_path, format="csv")
    part = follower.partition("1")
    assert follower.look(part) == [1], "the last line is not whole yet"
    if is_gone:
        file.unlink()
    else:
        file.write_text("id,name\n5,a\n")
    follower.clock.advance(100 * MILLISECOND)
    with pytest.raises(OperationalError, match="before it was read to its end") as caught:
        part.read()
    assert caught.value.detail == "of 15 bytes 12 were read"
    part.skip_to(ExpiredPosition.EARLIEST)
    assert follower.look(part) == ([] if is_gone else [5])


@pytest.mark.parametrize(
    ("first", "rows", "detail"),
    [
        ("id,name\n1,a\n2,b", [1], "of 15 bytes 12 were read"),
        ("id,name\n1", [], "of 9 bytes 8 were read"),
        ("id", [], "of 2 bytes 0 were read"),
    ],
)
def test_a_job_whose_partly_read_file_is_replaced_by_a_longer_one(
    tmp_path: Path, first: str, rows: list[int], detail: str
) -> None:
    follower = Follower(tmp_path, format="csv")
    part = follower.partition("1")
    file = written(tmp_path / "a.csv", first)
    assert follower.look(part) == rows
    written(tmp_path / ".new", "name,id\na,5\nb,6\n").replace(file)
    follower.clock.advance(100 * MILLISECOND)
    with pytest.raises(OperationalError, match="replaced before it was read") as caught:
        part.read()
    assert caught.value.code is ErrorCode.POSITION_EXPIRED and caught.value.detail == detail
    part.skip_to(ExpiredPosition.EARLIEST)
    assert follower.look(part) == [5, 6]


def test_a_job_reads_on_in_a_longer_copy_of_a_partly_read_file(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "id,name\n1,a\n2,b")
    follower = Follower(tmp_path, format="csv")
    part = follower.partition("1")
    assert follower.look(part) == [1]
    written(tmp_path / ".new", "id,name\n1,a\n2,b\n3,c\n").replace(file)
    assert follower.look(part) == [2, 3]


def test_a_file_that_was_read_to_its_end_may_go(tmp_path: Path) -> None:
    file = written(tmp_path / "a.csv", "id,name\n1,a\n")
    follower = Follower(tmp_path, format="csv")
    assert follower.look() == [1]
    token = follower.part.position()
    file.unlink()
    written(tmp_path / "b.csv", "id,name\n2,a\n")
    other = follower.partition()
    other.seek(token or {})
    assert follower.look(other) == [2]


def test_columns_are_found_out_while_the_last_line_is_being_written(tmp_path: Path) -> None:
    written(tmp_path / "a.json", '{"id": 1, "name": "a"}\n{"id": 2, "na')
    assert schema(mapping(tmp_path, follow="true")) == {"id": "BIGINT", "name": "VARCHAR"}
    written(tmp_path / "a.csv", 'id,name\n1,a\n2,"b')
    assert schema(mapping(tmp_path / "a.csv", follow="true")) == {"id": "BIGINT", "name": "VARCHAR"}


def test_folders_of_keys_are_not_followed(tmp_path: Path) -> None:
    with pytest.raises(NotSupportedError, match="can't be followed"):
        mapping(tmp_path, COLUMNS, format="csv", follow="true", hivePartitioning="true")


def test_a_query_follows_what_is_written(tmp_path: Path) -> None:
    with runnel.connect() as connection:
        cursor = connection.cursor()
        cursor.execute(
            f"CREATE MAPPING t (id BIGINT, name VARCHAR) TYPE File OPTIONS "
            f"('path' = '{tmp_path}', 'format' = 'csv', 'follow' = 'true', 'pollMillis' = '1')"
        )
        cursor.execute("SELECT id, name FROM t WHERE id % 2 = 1")
        connection.cursor().execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
        assert [cursor.fetchone(), cursor.fetchone()] == [(1, "a"), (3, "c")]
        append(written(tmp_path / "z.csv", "id,name\n"), "5,e\n")
        assert cursor.fetchone() == (5, "e")
        cursor.close()


def test_a_renamed_file_is_read_on(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As log files that are rotated: none of their lines come twice, and none is lost."""
    caplog.set_level(logging.WARNING)
    file = written(tmp_path / "a.csv", "name,id\na,1\n")
    follower = Follower(tmp_path, format="csv")
    assert follower.look() == [1]
    append(file, "b,2\n")
    file.rename(tmp_path / "a.1.csv")
    written(file, "id,name\n3,c\n")
    assert sorted(follower.look()) == [2, 3]
    (tmp_path / "a.1.csv").rename(tmp_path / "a.2.csv")
    file.rename(tmp_path / "a.1.csv")
    written(file, "id,name\n4,d\n")
    assert follower.look() == [4]
    append(tmp_path / "a.2.csv", "e,5\n")
    (tmp_path / "a.2.csv").rename(tmp_path / "b.csv")
    (tmp_path / "a.1.csv").rename(tmp_path / "a.2.csv")
    (tmp_path / "b.csv").rename(tmp_path / "a.1.csv")
    assert follower.look() == [5], "two that changed names"
    assert follower.look() == []
    assert not caplog.records


def test_a_renamed_file_of_whole_rows_is_not_read_again(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": [1], "name": ["a"]}), tmp_path / "a.parquet")
    follower = Follower(tmp_path, format="parquet")
    assert [follower.look() for _ in range(2)] == [[], [1]]
    (tmp_path / "a.parquet").rename(tmp_path / "b.parquet")
    assert [follower.look() for _ in range(3)] == [[], [], []]


@pytest.mark.parametrize("seed", range(6))
def test_rotated_files_give_every_line_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    names = [tmp_path / f"log{i or ''}.csv" for i in range(12)]
    written(names[0], "id,name\n")
    follower = Follower(tmp_path, format="csv")
    found: list[int] = []
    for number in range(200):
        append(names[0], f"{number},x\n")
        if chance.random() < 0.05 and not names[-1].exists():
            for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
                if newer.exists():
                    newer.rename(older)
            written(names[0], "id,name\n")
        if chance.random() < 0.3:
            found += follower.look()
    found += follower.look()
    assert sorted(found) == list(range(200))


def test_another_file_in_the_place_of_a_removed_one_is_read(tmp_path: Path) -> None:
    """It may have the same number on the disk, and the same text."""
    follower = Follower(tmp_path, format="csv")
    for number in range(5):
        file = written(tmp_path / f"{number}.csv", "id,name\n1,a\n")
        assert follower.look() == [1]
        file.unlink()


@pytest.mark.parametrize("first", ["1\n", "\ufeff1\n"])
def test_a_whole_record_that_is_shorter_than_a_byte_order_mark(tmp_path: Path, first: str) -> None:
    with runnel.connect() as connection:
        connection.execute(
            "CREATE MAPPING s (n BIGINT) TYPE File "
            f"OPTIONS ('path'='{tmp_path}', 'format'='csv', 'header'='false', 'follow'='true')"
        )
        with connection.execute("SELECT n FROM s", timeout=20) as cursor:
            (tmp_path / "a.csv").write_text(first)
            assert cursor.fetchone() == (1,)
