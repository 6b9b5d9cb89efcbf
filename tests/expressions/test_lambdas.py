"""Lambda functions over many rows: compared with Python, in small chunks, and over a stream."""

from __future__ import annotations

import random
from math import fmod
from typing import Any

import pyarrow as pa
import pytest

import runnel
from runnel.expressions.nested import lambdas

ROWS = 3000


@pytest.fixture(scope="module")
def rows() -> list[tuple[int, list[int | None] | None, str]]:
    chosen = random.Random(7)
    return [
        (
            key,
            None
            if chosen.random() < 0.1
            else [
                None if chosen.random() < 0.1 else chosen.randrange(-50, 50)
                for _ in range(chosen.randrange(6))
            ],
            "x" * chosen.randrange(4),
        )
        for key in range(ROWS)
    ]


def _mapped(values: list[Any] | None, change: Any) -> Any:
    return None if values is None else [change(value, i) for i, value in enumerate(values, 1)]


def _sum(key: int, values: list[Any] | None) -> Any:
    if values is None:
        return None
    so_far: int | None = key
    for x in values:
        so_far = None if so_far is None or x is None else int(fmod(so_far * 3, 1000)) + x
    return so_far


def _expected(key: int, values: list[int | None] | None, text: str) -> tuple[Any, ...]:
    return (
        key,
        _mapped(values, lambda x, i: None if x is None else text + str(x + key * i)),
        None if values is None else [x for x in values if x is not None and x > key % 10 - 5],
        _sum(key, values),
        _mapped(values, lambda x, i: sum(i if y is None else y for y in values or [])),
    )


@pytest.mark.parametrize("size", [None, 1, 7])
def test_results_are_those_of_python(
    rows: list[tuple[int, list[int | None] | None, str]],
    size: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if size is not None:
        rows = rows[:200]
        monkeypatch.setattr(lambdas, "_AT_A_TIME", size)
    keys, lists, texts = zip(*rows, strict=True)
    t = pa.table(
        {"k": pa.array(keys, pa.int64()), "l": pa.array(lists, pa.list_(pa.int64())), "s": texts}
    )
    assert t.num_rows
    found = (
        runnel.connect()
        .execute(
            "SELECT k, list_transform(l, (x, i) -> s || (x + k * i)),"
            " list_filter(l, x -> x > k % 10 - 5),"
            " list_reduce(l, (a, x) -> a * 3 % 1000 + x, k),"
            " list_transform(l, (x, i) -> list_reduce(l, (a, y) -> a + coalesce(y, i), 0))"
            " FROM t"
        )
        .fetchall()
    )
    expected = [_expected(*row) for row in rows]
    found.sort(key=lambda row: row[0])
    assert [pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1]][:3] == []


def test_an_outer_text_that_is_large_is_not_repeated_for_all_elements() -> None:
    text = "y" * 1_000_000
    t = pa.table({"s": [text, ""], "n": [300, 10_000]})
    assert t.num_rows
    query = "SELECT list_reduce(list_transform(range(n), x -> length(s)), (a, x) -> a + x) FROM t"
    assert runnel.connect().execute(query).fetchall() == [(300_000_000,), (0,)]


def test_a_lambda_function_over_a_stream() -> None:
    with runnel.connect() as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT v, list_filter(list_transform([v, v + 1], x -> x * 2), x -> x > v + 1)"
            " FROM TABLE(generate_stream(1000)) AS t(v)"
        )
        assert [cursor.fetchone() for _ in range(3)] == [(0, [2]), (1, [4]), (2, [4, 6])]
