"""Samples of a query's rows for VERIFY JOB, by the values of some of its columns: whatever the
query does, a row of its result is in the sample or isn't by itself. The fewer of its steps see rows
that aren't, the less there is to do."""

from __future__ import annotations

from collections.abc import Sequence

from runnel.expressions.kernels.samples import in_sample
from runnel.expressions.nodes import Call, Expression
from runnel.expressions.nodes import walk as parts_of
from runnel.planner.rules.predicate_pushdown import push_predicates
from runnel.relation.nodes import Filter, Relation, Scan, references, walk


def sample_columns(rows: Relation, usable: Sequence[int]) -> tuple[int, ...]:
    """The `usable` columns by which to sample: columns that remove rows as early as possible, and
    as many of these as there are, since a single column may have few values."""
    chosen: list[int] = []
    best: int | None = None
    for column in sorted(usable, key=lambda item: _rows_below(rows, [item])):
        cost = _rows_below(rows, [*chosen, column])
        if best is None or cost <= best:
            best = cost
            chosen.append(column)
    return tuple(sorted(chosen))


def sampled(rows: Relation, columns: Sequence[int], share: float) -> Relation:
    """That share of the rows, by the values of some columns."""
    there = references(rows.fields)
    return Filter(input=rows, condition=in_sample(share, [there[i] for i in columns]))


def _rows_below(rows: Relation, columns: Sequence[int]) -> int:
    """How many steps of the query see rows that aren't in the sample, but for their scans."""
    pushed = push_predicates(sampled(rows, columns, 0.5))
    filters = [
        node for node in walk(pushed) if isinstance(node, Filter) and _is_sample(node.condition)
    ]
    return sum(not isinstance(below, Scan) for node in filters for below in walk(node.input))


def _is_sample(condition: Expression) -> bool:
    return any(
        isinstance(part, Call) and part.function == "in_sample" for part in parts_of(condition)
    )
