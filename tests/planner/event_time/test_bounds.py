"""Which columns a watermark bounds."""

from __future__ import annotations

import pytest

from runnel.connectors.pushed.table import StreamTable
from runnel.expressions import build
from runnel.expressions.nodes import Column, Literal
from runnel.planner.event_time.bounds import union_watermarks
from runnel.planner.event_time.expressions import bound_of
from runnel.relation.nodes import Join, JoinKind, Relation, Union
from runnel.relation.streams import ImposeOrder, TimeBound
from runnel.sqltypes import BIGINT, DATE, INTEGER, SqlType
from tests.planner.relations import column, project, scan

DAY = 86_400_000_000


@pytest.mark.parametrize(("kind", "unit"), [(BIGINT, 1), (DATE, DAY)])
@pytest.mark.parametrize(("function", "sign"), [("add", 1), ("subtract", -1)])
def test_a_number_moves_a_bound_by_units_of_the_columns_type(
    kind: SqlType, unit: int, function: str, sign: int
) -> None:
    time = Column(index=2, name="t", type=kind)
    moved = build.call(
        function, [time, Literal(value=3, type=BIGINT if kind == BIGINT else INTEGER)]
    )
    assert bound_of(moved, {2: TimeBound(7, 5)}) == TimeBound(7, 5 + sign * 3 * unit)


def ordered(watermark: int) -> Relation:
    """A stream whose first column has the watermark of that number."""
    stream = StreamTable("s", {"t": BIGINT})
    return ImposeOrder(input=scan(stream), time=0, lag=0, watermark=watermark)


def test_two_watermarks_of_one_part_of_a_union_do_not_become_one() -> None:
    one = ordered(1)
    both = Join(kind=JoinKind.INNER, left=ordered(2), right=ordered(3), condition=None)
    parts = (
        project(one, t=column(one, "t"), u=column(one, "t")),
        project(both, t=column(both.left, "t"), u=column(both.right, "t", 1)),
    )
    bounds, numbers = union_watermarks(Union(parts=parts))
    assert bounds == {0: TimeBound(1)}
    assert numbers == ({1: 1}, {2: 1}), "else 3 would come as 1 too, and behind what 2 promised"
