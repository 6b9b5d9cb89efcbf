"""The example of docs/contributing.md: an aggregate."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import runnel
from runnel.expressions.aggregates import registry
from runnel.expressions.aggregates.function import AggregateFunction, integral, same
from runnel.expressions.aggregates.states import Extreme
from runnel.expressions.context import EvaluationContext
from runnel.expressions.nodes import AggregateCall
from runnel.sqltypes import to_arrow


def width(columns: list[pa.Array], call: AggregateCall, context: EvaluationContext) -> pa.Array:
    """The value of each group from its states: the largest minus the smallest argument."""
    smallest, largest = columns
    return pc.subtract(largest, smallest)


SPAN = AggregateFunction(
    "span",
    accepts=integral,
    result=same,
    states=lambda kind: (Extreme("min", to_arrow(kind)), Extreme("max", to_arrow(kind))),
    finish=width,
    ignores_distinct=True,
)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> runnel.Connection:
    """A connection that knows the aggregate: in the code, an entry of AGGREGATES."""
    monkeypatch.setitem(registry.AGGREGATES, "span", SPAN)  # type: ignore[arg-type]
    monkeypatch.setitem(registry._SQL_NAMES, "span", "span")
    return runnel.connect()


ROWS = "(VALUES (1, 5), (1, 9), (2, 4), (2, NULL), (3, NULL)) AS t(k, v)"


def test_span(connection: runnel.Connection) -> None:
    with connection:
        grouped = connection.execute(f"SELECT k, SPAN(v) FROM {ROWS} GROUP BY k ORDER BY k")
        assert grouped.fetchall() == [(1, 4), (2, 0), (3, None)]
        over = connection.execute(f"SELECT DISTINCT k, SPAN(v) OVER () FROM {ROWS} ORDER BY k")
        assert over.fetchall() == [(1, 5), (2, 5), (3, 5)]
        filtered = connection.execute(f"SELECT SPAN(DISTINCT v) FILTER (WHERE k = 1) FROM {ROWS}")
        assert filtered.fetchall() == [(4,)]
