"""What each kind of state can do: operators derive their rules from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from runnel.errors import Error
from runnel.expressions.aggregates.hyperloglog import Sketch
from runnel.expressions.aggregates.mapped import Mapped
from runnel.expressions.aggregates.moments import Comoments, Folded, HigherMoments
from runnel.expressions.aggregates.registry import AGGREGATES, SPREADS, aggregate_call
from runnel.expressions.aggregates.rows import Best, RowListState
from runnel.expressions.aggregates.states import (
    AggregateState,
    Count,
    Extreme,
    First,
    Items,
    SumDecimal,
    SumDouble,
    SumInteger,
    VarianceState,
)
from runnel.expressions.nodes import AggregateCall, Column, Expression, Literal
from runnel.planner.event_time.ordered_windows import refusal_over_earlier_rows
from runnel.planner.pushdown.memory_need import is_small
from runnel.processors.over.states import has_rule
from runnel.processors.panes.dense_states import dense_state
from runnel.sqltypes import BIGINT, BOOLEAN, DATE, DOUBLE, VARCHAR
from tests.test_layout import ROOT

EXAMPLES: tuple[AggregateState, ...] = (
    Count(),
    SumInteger(),
    SumDecimal(10, 2),
    SumDouble(),
    Extreme("max", pa.int64()),
    Mapped(SumInteger(), lambda columns: pc.utf8_length(columns[0])),
    First(pa.int64()),
    VarianceState(),
    Items(pa.int64(), keeps_nulls=False),
    RowListState((pa.int64(),)),
    Best(pa.int64()),
    Comoments(),
    HigherMoments(),
    Folded("and", pa.int64()),
    Sketch(),
)
"""A state of each class."""

EXPANDED = {Items, RowListState, Best, Comoments, HigherMoments, Folded, Sketch}
"""States without a rule for frames of OVER: their frames are expanded to rows."""

REGROUPED = {First, VarianceState, *EXPANDED}
"""States that windows combine by a group-by, and don't subtract."""

GROWING = {Items, RowListState, Sketch}
"""States whose size depends on the number of rows."""

HERE = "tests/expressions/aggregates/test_state_rules.py"


def classes(base: type[AggregateState] = AggregateState) -> Iterator[type[AggregateState]]:
    for kind in base.__subclasses__():
        if kind.__module__.startswith("runnel."):
            yield kind
            yield from classes(kind)


def test_every_class_has_an_example() -> None:
    missing = set(classes()) - {type(state) for state in EXAMPLES}
    assert not missing, f"add an instance of {missing} to EXAMPLES of {HERE}"


@pytest.mark.parametrize("state", EXAMPLES, ids=lambda state: type(state).__name__)
def test_a_state_has_rules(state: AggregateState) -> None:
    kind = type(state)
    assert has_rule(state) is (kind not in EXPANDED), (
        f"moving frames of OVER: {kind.__name__} needs an entry in _RULES of "
        "engine/processors/over/states.py (or use Mapped over a state that has one). Without, the "
        f"time is quadratic in the length of a frame: then add the class to EXPANDED of {HERE}"
    )
    assert (dense_state(state) is not None) is (kind not in REGROUPED), (
        f"windows that overlap: {kind.__name__} needs a rule in dense_state of engine/processors/"
        "time_windows/dense_states.py (or use Mapped over a state that has one). Without, each "
        f"window combines its panes by a group-by: then add the class to REGROUPED of {HERE}"
    )
    assert state.grows is (kind in GROWING), (
        f"{kind.__name__}.grows says whether a group's state grows with its rows: a memory limit "
        f"and refusals of streams depend on it. If it is right, correct GROWING of {HERE}"
    )


@pytest.mark.parametrize("state", EXAMPLES, ids=lambda state: type(state).__name__)
def test_a_state_that_merges_has_one_column_and_a_rule(state: AggregateState) -> None:
    if state.merge is not None:
        assert len(state.types) == 1
        assert has_rule(state)


X = Column(index=0, name="x", type=BIGINT)
IS_X = Column(index=1, name="b", type=BOOLEAN)
TEXT = Column(index=2, name="s", type=VARCHAR)
DAY = Column(index=3, name="d", type=DATE)
RUNNING = {
    **dict.fromkeys(("count", "sum", "avg", "min", "max"), (X,)),
    **dict.fromkeys(("bool_and", "every", "bool_or"), (IS_X,)),
    "avg_time": (DAY,),
    "count_star": (),
}
SMALL = {
    **RUNNING,
    **dict.fromkeys((*SPREADS, "bit_and", "bit_or", "bit_xor", "product", "any_value"), (X,)),
}
LARGE = {"array_agg": (X,), "string_agg": (TEXT, Literal(value=",", type=VARCHAR)), "mode": (X,)}


ARGUMENTS: tuple[tuple[Expression, ...], ...] = (
    (X,),
    (IS_X,),
    (DAY,),
    (X, X),
    (TEXT, Literal(value=",", type=VARCHAR)),
    (X, Literal(value=0.5, type=DOUBLE)),
)
"""Arguments for every function: the first of these that it accepts."""


def call_of(name: str) -> AggregateCall:
    if name == "count_star":
        return aggregate_call("count", ())
    for arguments in ARGUMENTS:
        with suppress(Error):
            return aggregate_call(name, arguments)
    raise AssertionError(f"add arguments that {name.upper()} accepts to ARGUMENTS of {HERE}")


def test_the_page_and_this_module_list_all_running_aggregates() -> None:
    running = {name for name in AGGREGATES if refusal_over_earlier_rows(call_of(name)) is None}
    assert running == set(RUNNING), f"RUNNING of {HERE} lists other functions"
    page = (ROOT / "docs" / "windows.md").read_text("utf-8")
    found = re.search(r"\| ROW_NUMBER, RANK, DENSE_RANK; (.*) of all rows up to the current", page)
    assert found is not None
    of_rows = {"FIRST_VALUE", "LAST_VALUE"}
    assert {*found[1].split(", ")} == of_rows | {
        name.removesuffix("_star").upper() for name in running
    }, "the line of docs/windows.md for all rows up to the current one lists other aggregates"


@pytest.mark.parametrize("name", SMALL)
def test_small_states(name: str) -> None:
    """A growing aggregate would no longer be offered to a DuckDB with little memory."""
    call = aggregate_call(name.removesuffix("_star"), SMALL[name])
    assert is_small(call)
    refusal = refusal_over_earlier_rows(call)
    assert (refusal is None) is (name in RUNNING)
    if name not in RUNNING:
        assert refusal == f"{name.upper()} can't be computed over all earlier rows of a stream"


def test_distinct_makes_a_state_large() -> None:
    call = aggregate_call("sum", [X], distinct=True)
    assert not is_small(call)
    assert refusal_over_earlier_rows(call) == (
        "SUM(DISTINCT …) over all earlier rows would need all of them as state"
    )


@pytest.mark.parametrize("name", LARGE)
def test_large_states(name: str) -> None:
    call = aggregate_call(name, LARGE[name])
    assert not is_small(call)
    assert refusal_over_earlier_rows(call) == (
        f"{name.upper()} over all earlier rows would need all of them as state"
    )
