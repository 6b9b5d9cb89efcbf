"""Joins of all kinds, compared with DuckDB over random data with edge values."""

from __future__ import annotations

from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from runnel.columns.batches import empty_columns
from runnel.errors import DataError, OperationalError
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression
from runnel.processors.joins import build_side as join_table
from runnel.processors.joins import marks as join_marks
from runnel.processors.joins.index import DenseIndex, HashIndex, make_index
from runnel.processors.joins.join import JoinShape, join
from runnel.relation.nodes import LEFT_ONLY, MARKS, Field, JoinKind
from runnel.sqltypes import BIGINT
from runnel.testing import verify_processor
from tests.processors.places import place
from tests.processors.random_tables import columns_of, duckdb_rows, fields_of, random_table

QUICK: dict[str, Any] = {"row_by_row": False, "ordered": False}
SQL_JOINS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.RIGHT: "RIGHT JOIN",
    JoinKind.FULL: "FULL JOIN",
}


def join_of(
    kind: JoinKind, keys: str, left: pa.Table, right: pa.Table, condition: Expression | None = None
) -> Any:
    """A join on equal columns; the columns of `left` are prefixed with l, those of `right` with
    r."""
    columns = {**columns_of(left), **columns_of(right)}
    fields = (
        fields_of(left)
        if kind in LEFT_ONLY or kind in MARKS
        else (*fields_of(left), *fields_of(right))
    )
    names = [field.name for field in fields] + (["matched"] if kind in MARKS else [])
    left_keys, right_keys = (tuple(columns[side + key] for key in keys) for side in "lr")
    return join(
        JoinShape(kind, condition),
        (left_keys, right_keys),
        (fields_of(left), fields_of(right)),
        tuple(names),
    )


def is_less(left: pa.Table, right: pa.Table) -> Expression:
    both = {**columns_of(left), **columns_of(right, left.num_columns)}
    return build.call("lt", [both["ln"], both["rn"]])


def sql_of(kind: JoinKind, keys: str, with_condition: bool) -> str:
    equal = " AND ".join(f"l{key} = r{key}" for key in keys) or "true"
    less = "ln < rn" if with_condition else "true"
    if kind in SQL_JOINS:
        return f"SELECT * FROM l {SQL_JOINS[kind]} r ON {equal} AND {less}"
    exists = f"EXISTS (SELECT 1 FROM r WHERE {equal} AND {less})"
    unknown = f"EXISTS (SELECT 1 FROM r WHERE ({equal}) IS NULL AND {less})"
    return {
        JoinKind.SEMI: f"SELECT * FROM l WHERE {exists}",
        JoinKind.ANTI: f"SELECT * FROM l WHERE NOT {exists}",
        JoinKind.EXISTS_MARK: f"SELECT *, {exists} FROM l",
        JoinKind.MARK: (
            f"SELECT *, CASE WHEN {exists} THEN true WHEN {unknown} THEN NULL ELSE false END FROM l"
        ),
        JoinKind.NULL_ANTI: f"SELECT * FROM l WHERE NOT {exists} AND NOT {unknown}",
    }[kind]


def check_join(
    kind: JoinKind, keys: str, rows: tuple[int, int], with_condition: bool, **options: Any
) -> None:
    left, right = random_table(1, rows[0], "isfwdn", "l"), random_table(2, rows[1], "isfwdn", "r")
    condition = is_less(left, right) if with_condition else None
    inputs = [right.to_batches(max_chunksize=9), left.to_batches(max_chunksize=13)]
    wanted = duckdb_rows(sql_of(kind, keys, with_condition), l=left, r=right)
    verify_processor(
        join_of(kind, keys, left, right, condition), inputs, wanted, **{**QUICK, **options}
    )


KINDS = [kind for kind in JoinKind if kind not in (JoinKind.CROSS, JoinKind.SINGLE)]
KEYED = [*product(KINDS, ["i", "s", "f", "w", "d", "is"])]
UNKEYED = [(kind, "") for kind in KINDS if kind not in (JoinKind.MARK, JoinKind.NULL_ANTI)]


@pytest.mark.parametrize(
    ("kind", "keys"), [*KEYED, *UNKEYED], ids=lambda item: str(getattr(item, "name", item))
)
def test_agrees_with_duckdb(kind: JoinKind, keys: str) -> None:
    check_join(kind, keys, (25, 20), with_condition=False, snapshots=False)
    check_join(kind, keys, (25, 20), with_condition=True)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("rows", [(12, 0), (0, 12), (0, 0)])
def test_an_empty_side(kind: JoinKind, rows: tuple[int, int]) -> None:
    for keys in ("i", "is"):
        check_join(kind, keys, rows, with_condition=True, snapshots=False)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_candidates_in_many_chunks(kind: JoinKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join_table, "MAX_ROWS", 7)
    monkeypatch.setattr(join_marks, "MAX_ROWS", 7)
    for keys in ("i", "is"):
        check_join(kind, keys, (25, 20), with_condition=True)


def test_cross_join() -> None:
    left, right = random_table(1, 9, "in", "l"), random_table(2, 7, "s", "r")
    inputs = [right.to_batches(max_chunksize=2), left.to_batches(max_chunksize=4)]
    wanted = duckdb_rows("SELECT * FROM l, r", l=left, r=right)
    verify_processor(join_of(JoinKind.CROSS, "", left, right), inputs, wanted, **QUICK)


def test_a_large_cross_join_is_cut_into_batches() -> None:
    left, right = random_table(1, 700, "n", "l"), random_table(2, 700, "n", "r")

    def check_sizes(items: list[Any]) -> None:
        assert sum(item.num_rows for item in items) == 490_000
        assert max(item.num_rows for item in items) <= 65_536

    inputs = [right.to_batches(), left.to_batches()]
    verify_processor(join_of(JoinKind.CROSS, "", left, right), inputs, check_sizes, **QUICK)


def test_sides_without_columns() -> None:
    nothing: tuple[Field, ...] = ()
    number = (Field("n", BIGINT),)
    rows = pa.RecordBatch.from_pydict({"n": [1, 2]})
    supplier = join(JoinShape(JoinKind.CROSS), ((), ()), (nothing, number), ("n",))
    verify_processor(supplier, [[rows], [empty_columns(2)]], [(1,), (1,), (2,), (2,)], **QUICK)
    supplier = join(JoinShape(JoinKind.LEFT), ((), ()), (number, nothing), ("n",))
    verify_processor(supplier, [[], [rows]], [(1,), (2,)], **QUICK)
    verify_processor(supplier, [[empty_columns(3)], [rows]], [(1,)] * 3 + [(2,)] * 3, **QUICK)
    supplier = join(JoinShape(JoinKind.SEMI), ((), ()), (number, nothing), ("n",))
    verify_processor(supplier, [[empty_columns(1)], [rows]], [(1,), (2,)], **QUICK)


def test_nested_payload_and_keys() -> None:
    left, right = random_table(1, 20, "ln", "l"), random_table(2, 20, "ln", "r")
    inputs = [right.to_batches(), left.to_batches()]
    wanted = duckdb_rows("SELECT * FROM l JOIN r ON ll = rl", l=left, r=right)
    verify_processor(join_of(JoinKind.INNER, "l", left, right), inputs, wanted, **QUICK)


def test_a_scalar_subquery() -> None:
    left = pa.table([pa.array([1, 2, 3])], names=["lk"])
    right = pa.table([pa.array([1, 3]), pa.array(["one", "three"])], names=["rk", "rv"])
    supplier = join_of(JoinKind.SINGLE, "k", left, right)
    wanted = [(1, 1, "one"), (2, None, None), (3, 3, "three")]
    verify_processor(supplier, [right.to_batches(), left.to_batches()], wanted, **QUICK)
    verify_processor(
        supplier,
        [right.to_batches() * 2, left.slice(1, 1).to_batches()],
        [(2, None, None)],
        **QUICK,
    )
    with pytest.raises(
        DataError, match="more than one row returned by a subquery used as an expression"
    ):
        verify_processor(supplier, [right.to_batches() * 2, left.to_batches()], [], **QUICK)


def test_a_scalar_subquery_with_its_second_match_in_a_later_chunk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(join_table, "MAX_ROWS", 1)
    left, right = (
        pa.table([pa.array([1])], names=["lk"]),
        pa.table([pa.array([1, 1])], names=["rk"]),
    )
    with pytest.raises(DataError, match="more than one row"):
        verify_processor(
            join_of(JoinKind.SINGLE, "k", left, right),
            [right.to_batches(), left.to_batches()],
            [],
            **QUICK,
        )


def test_too_large_a_build_side() -> None:
    left, right = random_table(1, 3, "i", "l"), random_table(2, 30, "i", "r")
    with pytest.raises(OperationalError, match="would hold more than 20 rows"):
        inputs = [right.to_batches(), left.to_batches()]
        verify_processor(
            join_of(JoinKind.INNER, "i", left, right), inputs, [], accumulation_limit=20, **QUICK
        )


def test_the_index_fits_the_keys() -> None:
    assert isinstance(make_index([pa.array([5, None, 70_000])], 3), HashIndex)
    assert isinstance(make_index([pa.array([-5, None, 60_000])], 3), DenseIndex)
    assert isinstance(make_index([pa.array(["a"])], 1), HashIndex)
    assert isinstance(make_index([pa.array([2**63 - 1, -(2**63)])], 2), HashIndex)
    assert isinstance(make_index([pa.nulls(3, pa.int64())], 3), DenseIndex)


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63)])
def test_extreme_keys(value: int) -> None:
    left = pa.table([pa.array([value, 0, value - 1 if value > 0 else value + 1])], names=["lk"])
    right = pa.table([pa.array([value])], names=["rk"])
    inputs = [right.to_batches(), left.to_batches()]
    verify_processor(join_of(JoinKind.INNER, "k", left, right), inputs, [(value, value)], **QUICK)


def test_an_empty_build_side_satisfies_an_inner_join() -> None:
    left, right = random_table(1, 3, "i", "l"), random_table(2, 0, "i", "r")
    for kind, satisfied in ((JoinKind.INNER, True), (JoinKind.LEFT, False), (JoinKind.ANTI, False)):
        processor = join_of(kind, "i", left, right)()
        processor.init(*place())
        assert processor.complete_edge(0)
        assert processor.is_satisfied is satisfied


def test_the_condition_reads_columns_of_both_sides() -> None:
    left, right = random_table(1, 10, "isn", "l"), random_table(2, 10, "isn", "r")
    both = [*columns_of(left).values(), *columns_of(right, 3).values()]
    assert [item.index for item in both if isinstance(item, Column)] == list(range(6))
    condition = build.call("eq", [both[1], both[4]])
    wanted = duckdb_rows("SELECT * FROM l LEFT JOIN r ON ls = rs", l=left, r=right)
    inputs = [right.to_batches(), left.to_batches()]
    verify_processor(join_of(JoinKind.LEFT, "", left, right, condition), inputs, wanted, **QUICK)


@pytest.mark.parametrize("keys", ["i", "s", "is", "fi"])
@pytest.mark.parametrize(
    "kind", [JoinKind.INNER, JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI]
)
def test_null_safe_keys(kind: JoinKind, keys: str) -> None:
    left, right = random_table(5, 40, "isfn", "l"), random_table(6, 30, "isfn", "r")
    columns = {**columns_of(left), **columns_of(right)}
    both = tuple(tuple(columns[side + key] for key in keys) for side in "lr")
    fields = fields_of(left) if kind in LEFT_ONLY else (*fields_of(left), *fields_of(right))
    shape = JoinShape(kind, null_safe=tuple(range(len(keys))))
    supplier = join(
        shape,
        (both[0], both[1]),
        (fields_of(left), fields_of(right)),
        tuple(item.name for item in fields),
    )
    equal = " AND ".join(f"l{key} IS NOT DISTINCT FROM r{key}" for key in keys)
    sql = sql_of(kind, "", False).replace("true AND true", equal)
    wanted = duckdb_rows(sql, l=left, r=right)
    verify_processor(supplier, [right.to_batches(), left.to_batches()], wanted, **QUICK)
