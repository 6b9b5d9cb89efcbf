"""The home of UNNEST and of GENERATE_SERIES for each input row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.base.frozen import frozen
from runnel.expressions.nodes import Expression
from runnel.planner.operators import passes
from runnel.planner.operators.appending import appends_columns
from runnel.planner.operators.passes import by_default
from runnel.planner.operators.row_by_row import row_by_row
from runnel.planner.physical.choose import choose_as
from runnel.planner.physical.nodes import SingleInput, column_names
from runnel.relation.unnest import PerElement, Series, Unnest

if TYPE_CHECKING:
    from runnel.dag import ProcessorFactory
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity

ELEMENTS_PER_ARRAY = 5


@frozen(kw_only=True)
class PhysicalPerElement(SingleInput):
    """The base of both operators.

    outer, ordinality: as in the relational nodes.
    columns: the indexes of the columns that are returned, of the input's, the elements' and the
        number; None: all.
    """

    family = "unnest"

    outer: bool
    ordinality: str | None
    columns: tuple[int, ...] | None = None


@frozen(kw_only=True)
class PhysicalUnnest(PhysicalPerElement):
    """Each row, repeated for every element of `arrays`."""

    arrays: tuple[Expression, ...]


@frozen(kw_only=True)
class PhysicalSeries(PhysicalPerElement):
    """Each row, repeated for every value of the series (start, stop, step) in `arguments`."""

    arguments: tuple[Expression, ...]


appends_columns(Unnest, Series, retains_rows=lambda node: node.outer)
passes.NARROWABLE.add_classes(PhysicalUnnest, PhysicalSeries)


@passes.ESTIMATES.of(Unnest, Series)
def _estimate(node: PerElement, of: Any) -> int | None:
    rows = of(node.input)
    return None if rows is None else rows * ELEMENTS_PER_ARRAY


passes.CHOICES.add(choose_as(PhysicalUnnest), Unnest)
passes.CHOICES.add(choose_as(PhysicalSeries), Series)


def _outer(node: PerElement | PhysicalPerElement) -> dict[str, str]:
    return {"outer": "yes" if node.outer else ""}


@passes.EXPLAIN.of(Unnest)
def _describe_unnest(node: Unnest) -> Description:
    from runnel.planner.explain.parts import listed

    name = "array" if len(node.arrays) == 1 else "arrays"
    return "Unnest", {name: listed(node.arrays), **_outer(node)}


@passes.EXPLAIN.of(PhysicalUnnest)
def _describe_physical_unnest(node: PhysicalUnnest) -> Description:
    from runnel.planner.explain.parts import listed

    return "Unnest", {"array": listed(node.arrays), **_outer(node)}


@passes.EXPLAIN.of(Series, PhysicalSeries)
def _describe_series(node: Series | PhysicalSeries) -> Description:
    from runnel.planner.explain.parts import listed

    return "Generate_series per row", {"arguments": listed(node.arguments), **_outer(node)}


@passes.IDENTITY.of(PhysicalUnnest)
def _identify_unnest(node: PhysicalUnnest) -> Identity:
    from runnel.planner.identity.expressions import outer_texts

    return "Unnest", {"array": outer_texts(node.arrays), **_outer(node)}


@passes.IDENTITY.of(PhysicalSeries)
def _identify_series(node: PhysicalSeries) -> Identity:
    from runnel.planner.identity.expressions import outer_texts

    return "Generate_series per row", {"arguments": outer_texts(node.arguments), **_outer(node)}


def _unnest(node: PhysicalUnnest) -> ProcessorFactory:
    from runnel.processors.unnest import unnest

    first, *more = node.arrays
    names = column_names(node.fields)
    return unnest(first, node.outer, node.ordinality, names, node.columns, tuple(more))


def _series(node: PhysicalSeries) -> ProcessorFactory:
    from runnel.processors.series import series

    return series(
        node.arguments,
        column_names(node.fields),
        outer=node.outer,
        ordinality=node.ordinality is not None,
        columns=node.columns,
    )


row_by_row(PhysicalUnnest, "unnest", _unnest)
row_by_row(PhysicalSeries, "series", _series)
by_default((PhysicalUnnest, PhysicalSeries), passes.DYNAMIC_FILTERS, passes.STATE_COLUMNS)
passes.RENDERED.add_classes(Unnest)
by_default(Series, passes.RENDERED)
by_default((Series, Unnest), passes.MAINTENANCE)
