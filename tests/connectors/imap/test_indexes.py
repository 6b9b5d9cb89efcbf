"""Secondary indexes of maps: the rows they find, and the order they give."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from runnel import sqltypes
from runnel.catalog import Index
from runnel.connector import IndexLookup, ScanRequest, WriteMode
from runnel.connectors.imap.connector import MapConnector
from runnel.connectors.imap.table import MapTable
from runnel.errors import ProgrammingError
from runnel.expressions.kernels.values import scalar_of
from runnel.expressions.nodes import Literal, Parameter
from runnel.sqltypes import BIGINT, DOUBLE, VARCHAR, SqlType
from tests.connectors.conformance import VALUES, job_context, read_partition, read_source, rows_of
from tests.connectors.imap.maps import open_map, write

NAN = float("nan")


@pytest.fixture
def maps() -> Iterator[MapConnector]:
    connector = MapConnector()
    yield connector
    connector.close()


def index(*columns: str, kind: str = "sorted") -> Index:
    return Index("i", "m", columns, kind)


def found(
    table: MapTable,
    lookup: IndexLookup,
    columns: Sequence[int] | None = None,
    limit: int | None = None,
) -> list[Any]:
    chosen = tuple(range(len(table.columns))) if columns is None else tuple(columns)
    batches = read_source(table.index_scan(ScanRequest(chosen, None, limit), lookup))
    return rows_of(batches, [table.columns[i].type for i in chosen])


def literals(sql_type: SqlType, *values: Any) -> tuple[Literal, ...]:
    return tuple(Literal(type=sql_type, value=value) for value in values)


def smallest_null(value: Any) -> tuple[int, Any]:
    """SQL's order as a sort key: NULL first, NaN last."""
    if value is None:
        return (0, 0)
    return (2, 0) if value != value else (1, value)


def fill(table: MapTable, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Rows in several segments, some of them dead."""
    rows = [(i, value) for i, value in enumerate(values)]
    third = max(1, len(rows) // 3)
    write(table, WriteMode.SINK, [(number, None) for number, _ in rows[:third]] + rows[third:])
    for row in rows[:third]:
        table.put(row, WriteMode.UPDATE)
    table.put((-1, values[0]), WriteMode.INSERT)
    table.put((-1, None), WriteMode.DELETE)
    return rows


def same(left: Any, right: Any) -> bool:
    return left == right or (left != left and right != right)


@pytest.mark.parametrize("descending", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize(
    "sql_type", [item for item in VALUES if not item.is_nested and item != sqltypes.JSON], ids=str
)
def test_order_and_points_of_every_type(
    maps: MapConnector, sql_type: SqlType, descending: bool
) -> None:
    table = open_map(maps, ("__key", BIGINT), ("v", sql_type), value="json-flat")
    values = [None, *VALUES[sql_type], *VALUES[sql_type], None] + (
        [NAN, NAN] if sql_type.is_approximate else []
    )
    rows = fill(table, values)
    got = found(table, IndexLookup(index("v"), ordered=True, descending=descending))
    expected = sorted(values, key=smallest_null, reverse=descending)
    assert all(same(value, other) for (_, value), other in zip(got, expected, strict=True))
    assert sorted(number for number, _ in got) == [number for number, _ in rows]
    for value in values:
        points = found(
            table, IndexLookup(index("v", kind="hash"), points=literals(sql_type, value))
        )
        wanted = [] if value is None else [number for number, other in rows if same(value, other)]
        assert sorted(number for number, _ in points) == wanted


@pytest.mark.parametrize("lower", [None, -1, 3, 5])
@pytest.mark.parametrize("upper", [None, 3, 7, 99])
@pytest.mark.parametrize("inclusive", [False, True])
def test_ranges(maps: MapConnector, lower: int | None, upper: int | None, inclusive: bool) -> None:
    if lower is None and upper is None:
        pytest.skip("no range")
    table = open_map(maps)
    rows = fill(table, [3, 1, None, 5, 7, 3, 9, None, 5, 2, 7, 0])

    def bound(value: int | None) -> Literal | None:
        return None if value is None else Literal(type=BIGINT, value=value)

    def within(value: int | None) -> bool:
        if value is None:
            return False
        low = lower is None or value > lower or (inclusive and value == lower)
        return low and (upper is None or value < upper or (inclusive and value == upper))

    lookup = IndexLookup(index("this"), None, bound(lower), bound(upper), inclusive, inclusive)
    assert sorted(found(table, lookup)) == [row for row in rows if within(row[1])]


def test_nan_and_zero_in_ranges(maps: MapConnector) -> None:
    table = open_map(maps, value="double")
    fill(table, [1.0, NAN, -0.0, 0.0, None, -math.inf, math.inf, NAN])

    def numbers(**bounds: Any) -> list[int]:
        given = {
            k: Literal(type=DOUBLE, value=v) if isinstance(v, float) else v
            for k, v in bounds.items()
        }
        return sorted(number for number, _ in found(table, IndexLookup(index("this"), **given)))

    assert numbers(points=literals(DOUBLE, 0.0)) == [2, 3]
    assert numbers(points=literals(DOUBLE, -0.0, NAN)) == [1, 2, 3, 7]
    assert numbers(lower=1.0) == [0, 1, 6, 7]
    assert numbers(lower=NAN) == [1, 7]
    assert numbers(lower=NAN, lower_inclusive=False) == []
    assert numbers(upper=NAN) == [0, 1, 2, 3, 5, 6, 7]
    assert numbers(upper=NAN, upper_inclusive=False) == [0, 2, 3, 5, 6]
    assert numbers(upper=0.0, upper_inclusive=False) == [5]


def test_a_null_bound_finds_nothing(maps: MapConnector) -> None:
    table = open_map(maps)
    fill(table, [1, None, 2])
    null = Literal(type=BIGINT, value=None)
    assert found(table, IndexLookup(index("this"), lower=null)) == []
    assert found(table, IndexLookup(index("this"), lower=literals(BIGINT, 1)[0], upper=null)) == []
    assert found(table, IndexLookup(index("this"), points=(null,))) == []


def test_parameters_are_put_in_when_the_statement_starts(maps: MapConnector) -> None:
    table = open_map(maps, value="decimal")
    fill(table, [Decimal(1), Decimal(2), Decimal(3)])
    item = table.columns[1].type
    lookup = IndexLookup(index("this"), lower=Parameter(type=item, index=1), ordered=True)
    source = table.index_scan(ScanRequest((0,)), lookup)
    for bound, expected in ((2, [(1,), (2,)]), (3, [(2,)])):
        arguments = [scalar_of(None, VARCHAR), scalar_of(Decimal(bound), item)]
        assert rows_of(read_source(source, arguments), [BIGINT]) == expected


def test_points_in_order(maps: MapConnector) -> None:
    table = open_map(maps)
    fill(table, [5, 1, 4, 2, 1, 3, None])
    points = literals(BIGINT, 4, 1, 1, 9, 3)
    assert [
        v for _, v in found(table, IndexLookup(index("this"), points=points, ordered=True))
    ] == [1, 1, 3, 4]
    down = IndexLookup(index("this"), points=points, ordered=True, descending=True)
    assert [v for _, v in found(table, down)] == [4, 3, 1, 1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [None, 0, 1, 10, 1000])
def test_many_rows_in_order_with_ties(
    maps: MapConnector, descending: bool, limit: int | None
) -> None:
    chance = random.Random(3)
    table = open_map(maps, ("__key", BIGINT), ("a", BIGINT), ("b", VARCHAR), value="json-flat")
    oracle = {}
    for size in (9000, 3000, 1200, 700, 5):
        rows = [
            (
                chance.randrange(20_000),
                chance.choice([None, *range(20)]),
                chance.choice([None, "x", "y", "z"]),
            )
            for _ in range(size)
        ]
        write(table, WriteMode.SINK, rows)
        oracle.update({row[0]: row for row in rows})
    assert len(table._store._locations[1]) > 1
    got = found(
        table, IndexLookup(index("a", "b"), ordered=True, descending=descending), limit=limit
    )

    def key(row: tuple[Any, ...]) -> Any:
        return smallest_null(row[1]), smallest_null(row[2])

    expected = sorted(oracle.values(), key=key, reverse=descending)[:limit]
    assert [key(row) for row in got] == [key(row) for row in expected]
    assert len({row[0] for row in got}) == len(got)
    assert all(oracle[row[0]] == row for row in got)


def test_segments_of_rising_values(maps: MapConnector) -> None:
    table = open_map(maps)
    for start in (0, 20_000, 29_000):
        write(
            table,
            WriteMode.INSERT,
            [(i, i) for i in range(start, start + (20_000 if start == 0 else 9000))],
        )
    got = [value for _, value in found(table, IndexLookup(index("this"), ordered=True))]
    assert got == list(range(38_000))


def test_the_first_batches_are_short(maps: MapConnector) -> None:
    table = open_map(maps)
    write(table, WriteMode.INSERT, [(i, -i) for i in range(10_000)])
    sizes = [
        batch.num_rows
        for batch in read_source(
            table.index_scan(ScanRequest((0,)), IndexLookup(index("this"), ordered=True))
        )
    ]
    assert sizes[0] <= 300
    assert sizes == sorted(sizes[:-1]) + sizes[-1:]
    assert sum(sizes) == 10_000


def test_an_index_scan_counts_rows_without_columns(maps: MapConnector) -> None:
    table = open_map(maps)
    fill(table, [1, 2, 2, 3, None])
    batches = read_source(
        table.index_scan(ScanRequest(()), IndexLookup(index("this"), points=literals(BIGINT, 2)))
    )
    assert sum(batch.num_rows for batch in batches) == 2


def test_an_index_scan_is_of_one_moment(maps: MapConnector) -> None:
    table = open_map(maps)
    rows = fill(table, [3, 1, 2])
    partitions = table.index_scan(
        ScanRequest((0, 1)), IndexLookup(index("this"), ordered=True)
    ).split(job_context())
    table.put((0, 99), WriteMode.SINK)
    table.clear()
    batches = [batch for part in partitions for batch in read_partition(part)]
    assert rows_of(batches, [BIGINT, BIGINT]) == sorted(rows, key=lambda row: row[1])
    assert found(table, IndexLookup(index("this"), ordered=True)) == []


def test_a_predicate_takes_the_limit_away(maps: MapConnector) -> None:
    from tests.connectors.conformance import at_least

    table = open_map(maps)
    fill(table, [1, 1, 1, 1])
    lookup = IndexLookup(index("this"), points=literals(BIGINT, 1))
    batches = read_source(table.index_scan(ScanRequest((0,), at_least(3), 1), lookup))
    assert (3,) in rows_of(batches, [BIGINT])


def test_indexes_that_cannot_be(maps: MapConnector) -> None:
    table = open_map(
        maps,
        ("__key", BIGINT),
        ("price", DOUBLE),
        ("j", sqltypes.JSON),
        ("l", sqltypes.array(BIGINT)),
        value="json-flat",
    )
    table.validate_index(index("PRICE", "__key"))
    with pytest.raises(
        ProgrammingError, match='column "prize" of index "i" not found in "m"'
    ) as caught:
        table.validate_index(index("prize"))
    assert caught.value.hint == 'did you mean "price"?'
    for name, text in (("j", "JSON"), ("l", r"BIGINT\[\]")):
        with pytest.raises(
            ProgrammingError, match=f'column "{name}" is {text} and can\'t be in index "i"'
        ):
            table.validate_index(index(name))
    with pytest.raises(ProgrammingError, match='column "price" comes twice'):
        table.validate_index(index("price", "Price"))
