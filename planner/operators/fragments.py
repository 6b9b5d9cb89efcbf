"""The home of the subplans that another engine runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runnel.catalog import Snapshot
from runnel.foreign.fragment import Fragment, InputRows
from runnel.planner.estimates import estimate
from runnel.planner.lower.dag_builder import FRAGMENT, Lowering, VertexOutput
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default, not_met
from runnel.planner.physical.nodes import NarrowedFragment, Physical, PhysicalFragment, column_names

if TYPE_CHECKING:
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity
    from runnel.planner.pushdown.dynamic_filters import Keys, SmallSide


passes.ESTIMATES.add(lambda node, of: of(node.relation), Fragment)


@passes.CHOICES.of(Fragment)
def _choose_fragment(node: Fragment, snapshot: Snapshot) -> Physical:
    return PhysicalFragment(
        fields=node.fields, rows=estimate(node.relation), source=node.source, stopped=node.stopped
    )


@passes.EXPLAIN.of(PhysicalFragment)
def _describe_fragment(node: PhysicalFragment) -> Description:
    return f"Fragment on {node.source.engine}", {
        "chosen for": node.source.reason,
        "differs": node.source.differs,
        "stopped by": node.stopped,
        "sql": node.source.text,
    }


@passes.EXPLAIN.of(NarrowedFragment)
def _describe_narrowed(node: NarrowedFragment) -> Description:
    from runnel.planner.explain.parts import listed

    title, properties = _describe_fragment(node)
    several = len(node.feeds) > 1
    narrowing = [
        f"{listed(keys)} among the rows of {f'input {number}' if several else 'the input'}"
        for number, keys in enumerate(node.keys, 1)
    ]
    return title, {"only": "; ".join(narrowing), **properties}


@passes.LOWERING.of(PhysicalFragment)
def _lower_fragment(to: Lowering, node: PhysicalFragment) -> VertexOutput:
    from runnel.processors.sources.scan import scan

    names = column_names(node.fields)
    return to.source(f"{FRAGMENT}{node.source.engine}", scan(node.source, None, None, names), names)


@passes.LOWERING.of(NarrowedFragment)
def _lower_narrowed(to: Lowering, node: NarrowedFragment) -> VertexOutput:
    from runnel.processors.sources.narrowed_scan import narrowed_scan

    inputs = [to.lower(feed) for feed in node.feeds]
    names = column_names(node.fields)
    vertex = to.vertex(
        f"{FRAGMENT}{node.source.engine}", narrowed_scan(node.source, node.keys, names), 1
    )
    for ordinal, rows in enumerate(inputs):
        to.connect(rows, vertex, 1, ordinal)
    return VertexOutput(vertex, False, names)


@passes.DYNAMIC_FILTERS.of(PhysicalFragment, NarrowedFragment)
def _narrow_fragment(node: PhysicalFragment, keys: Keys, feed: SmallSide) -> Physical | None:
    from runnel.planner.pushdown.dynamic_filters import FEWEST_ROWS

    is_small = node.rows is not None and node.rows < max(FEWEST_ROWS, feed.rows or 0)
    if is_small or not node.source.can_narrow(keys):
        return None
    feeds: tuple[Physical, ...] = ()
    all_keys: tuple[Keys, ...] = ()
    if isinstance(node, NarrowedFragment):
        feeds, all_keys = node.feeds, node.keys
    return NarrowedFragment(
        fields=node.fields,
        rows=node.rows,
        source=node.source,
        stopped=node.stopped,
        feeds=(*feeds, feed.keys()),
        keys=(*all_keys, keys),
    )


@passes.IDENTITY.of(PhysicalFragment)
def _identify_fragment(node: PhysicalFragment) -> Identity:
    source = node.source
    told = {"chosen for": source.reason, "differs": source.differs, "stopped by": node.stopped}
    return f"Fragment on {source.engine}", {**told, "sql": source.text}


@passes.IDENTITY.of(NarrowedFragment)
def _identify_narrowed(node: NarrowedFragment) -> Identity:
    from runnel.planner.identity.expressions import outer_texts

    title, properties = _identify_fragment(node)
    inputs = (
        [f"input {number}" for number in range(1, len(node.keys) + 1)]
        if len(node.feeds) > 1
        else ["the input"]
    )
    only = [
        f"{outer_texts(keys)} among the rows of {of}"
        for keys, of in zip(node.keys, inputs, strict=True)
    ]
    return title, {"only": "; ".join(only), **properties}


by_default(
    Fragment,
    passes.GRAFTING,
    passes.ORIGINS,
    passes.FRAGMENT_INPUTS,
    passes.BLOCKING,
    passes.MOST_ROWS,
)
by_default(
    InputRows, passes.GRAFTING, passes.ESTIMATES, passes.ORIGINS, passes.BLOCKING, passes.MOST_ROWS
)
by_default(
    (PhysicalFragment, NarrowedFragment),
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.TABLE_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
# It has no input.
by_default((Fragment, InputRows), passes.STREAM_CHECKS)
# It has no input without end.
by_default((Fragment, InputRows), passes.BOUNDS)
# It is made after this rule, for another engine.
by_default(
    (Fragment, InputRows),
    passes.PREDICATES,
    passes.EMPTY,
    passes.LIMITS,
    passes.CORRELATION,
    passes.HOISTING,
    passes.STATE_NAMES,
    passes.REPLAY,
    passes.FINAL_ROWS,
)
# Only the plan of another engine has it.
by_default(InputRows, passes.FRAGMENT_INPUTS)
# It is made after this rule, for another engine.
not_met((Fragment, InputRows), passes.PRUNING, passes.EXPLAIN)
not_met(InputRows, passes.CHOICES)
passes.RENDERED.add_classes(InputRows)
by_default(Fragment, passes.RENDERED)
by_default((InputRows, Fragment), passes.MAINTENANCE)
