"""The home of the nodes without an input, and of writes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from runnel.base.frozen import frozen
from runnel.catalog import Snapshot, Table
from runnel.connector import IndexLookup
from runnel.expressions.nodes import Call, Column, Expression, Literal, Parameter, conjuncts
from runnel.foreign.fragment import Unrenderable, engine_of
from runnel.planner.estimates import Of, filtered_rows, literal_count
from runnel.planner.lower.dag_builder import SCAN, VALUES, WRITE, Lowering, VertexOutput, source_of
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default
from runnel.planner.physical.choose import choose_as, source
from runnel.planner.physical.index_choice import choose_index
from runnel.planner.physical.nodes import (
    Calc,
    IndexScan,
    Physical,
    PhysicalFragment,
    PhysicalGenerate,
    SourceScan,
    Write,
    column_names,
)
from runnel.planner.plans import StoredScan
from runnel.planner.rewriting import conjunction, substitute
from runnel.planner.rules.column_pruning import Pruned, unchanged
from runnel.planner.rules.limit_pushdown import rows_needed, with_limit
from runnel.relation.nodes import (
    Expand,
    Generate,
    Limit,
    Project,
    Relation,
    Scan,
    Union,
    Values,
    references,
)
from runnel.relation.unnest import Series
from runnel.sqltypes import BIGINT

if TYPE_CHECKING:
    from runnel.planner.event_time.expressions import Bounds
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity
    from runnel.planner.live.maintained import Maintain, Maintained
    from runnel.planner.pushdown.dynamic_filters import Keys, SmallSide
    from runnel.planner.rules.decorrelation.anchoring import Anchoring
    from runnel.planner.rules.decorrelation.hoisting import Rewrite
    from runnel.planner.rules.decorrelation.laterals import Grafted
    from runnel.planner.rules.decorrelation.pulled import Pulled
    from runnel.planner.verify.replay import Replay


@frozen(kw_only=True)
class PhysicalValues(Physical):
    """Literal rows."""

    family = "sources"

    values: tuple[tuple[Expression, ...], ...]


@passes.PRUNING.of(Scan)
def _prune_scan(node: Scan, needed: set[int]) -> Pruned:
    kept = sorted(needed)
    places = {index: place for place, index in enumerate(kept)}
    if len(kept) == len(node.columns):
        return node, places
    return replace(node, columns=tuple(node.columns[i] for i in kept)), places


@passes.PRUNING.of(Values)
def _prune_values(node: Values, needed: set[int]) -> Pruned:
    kept = sorted(needed)
    if len(kept) == len(node.columns):
        return node, unchanged(len(kept))
    rows = tuple(tuple(row[i] for i in kept) for row in node.rows)
    columns = tuple(node.columns[i] for i in kept)
    return replace(node, rows=rows, columns=columns), {
        index: place for place, index in enumerate(kept)
    }


@passes.PRUNING.of(Generate)
def _prune_generate(node: Generate, needed: set[int]) -> Pruned:
    return node, unchanged(len(node.fields))


@passes.LIMITS.of(Scan)
def _limit_scan(node: Scan, limit: Limit) -> Relation:
    rows = rows_needed(limit)
    found = node if rows is None else with_limit(node, rows)
    return limit if found is node else replace(limit, input=found)


@passes.CORRELATION.of(Values)
def _pull_values(to: Anchoring, node: Values) -> Pulled:
    from runnel.planner.rules.decorrelation.correlation import ONE_ROW
    from runnel.planner.rules.decorrelation.pulled import Pulled

    if len(node.rows) == 1:
        return Pulled(ONE_ROW, node.rows[0])
    return to.pull(
        Union(parts=tuple(replace(node, rows=(row,)) for row in node.rows), position=node.position)
    )


@passes.CORRELATION.of(Generate)
def _pull_generate(to: Anchoring, node: Generate) -> Pulled:
    from runnel.planner.rules.decorrelation.correlation import ONE_ROW

    series = Series(
        input=ONE_ROW, arguments=node.arguments, name=node.columns[0].name, position=node.position
    )
    return to.pull(series)


@passes.GRAFTING.of(Values)
def _graft_values(node: Values, left: Relation) -> Grafted | None:
    """Each left row, repeated for each of the literal rows."""
    from runnel.planner.rules.decorrelation.laterals import over_left

    rows = [[over_left(item, left, ()) for item in row] for row in node.rows]
    if len(rows) < 2:
        return (left, rows[0]) if rows else None
    columns = references(left.fields)
    names = tuple(item.name for item in (*left.fields, *node.columns))
    expanded = Expand(
        input=left,
        projections=tuple((*columns, *row) for row in rows),
        names=names,
        position=node.position,
    )
    return expanded, list(references(expanded.fields)[len(columns) :])


@passes.GRAFTING.of(Generate)
def _graft_generate(node: Generate, left: Relation) -> Grafted | None:
    from runnel.planner.rules.decorrelation.laterals import over_left

    if node.unbounded:
        return None
    series = Series(
        input=left, arguments=node.arguments, name=node.columns[0].name, position=node.position
    )
    moved = series.map_expressions(lambda item: over_left(item, left, ()))
    return moved, [references(moved.fields)[-1]]


@passes.HOISTING.of(Values)
def _hoist_values(node: Values, rewrite: Rewrite) -> Relation:
    """Turns a row with a subquery into a projection of a row without columns."""
    from runnel.planner.rules.decorrelation.subquery_nodes import project_with_subqueries

    parts = []
    for row in node.rows:
        one: Relation = Values(rows=((),), columns=(), position=node.position)
        names = tuple(item.name for item in node.columns)
        project = Project(input=one, expressions=row, names=names, position=node.position)
        parts.append(project_with_subqueries(project, rewrite))
    return parts[0] if len(parts) == 1 else Union(parts=tuple(parts), position=node.position)


passes.ESTIMATES.add(lambda node, of: len(node.rows), Values)


@passes.ESTIMATES.of(Scan)
def _estimate_scan(node: Scan, of: Of) -> int | None:
    rows = None if node.is_unbounded else filtered_rows(node.table.row_count(), node.predicate)
    if rows is not None and _finds_one_row(node):
        rows = min(rows, 1)
    if node.limit is not None:
        return node.limit if rows is None else min(rows, node.limit)
    return rows


@passes.ESTIMATES.of(Generate)
def _estimate_generate(node: Generate, of: Of) -> int | None:
    bounds = [literal_count(item) for item in node.arguments]
    if node.unbounded or any(bound is None for bound in bounds) or len(bounds) < 2:
        return None
    start, stop, *step = (bound for bound in bounds if bound is not None)
    stride = step[0] if step else 1
    return max(0, (stop - start) // stride + 1) if stride else None


def _finds_one_row(node: Scan) -> bool:
    """Whether the predicate equates every key column with a constant."""
    fixed = {
        side.index
        for part in conjuncts(node.predicate)
        if isinstance(part, Call) and part.function == "eq"
        for side, other in (part.arguments, part.arguments[::-1])
        if isinstance(side, Column) and isinstance(other, Literal | Parameter)
    }
    return bool(node.table.key_columns) and fixed.issuperset(node.table.key_columns)


@passes.BOUNDS.of(Scan)
def _bounds_of_scan(node: Scan) -> Bounds:
    return {}


@passes.REPLAY.of(Scan)
def _replay_scan(node: Scan, replay: Replay) -> Relation:
    return replace(node, table=replay.table_of(node), malformed=None)


@passes.REPLAY.of(Generate)
def _replay_generate(node: Generate, replay: Replay) -> Relation:
    if not node.unbounded:
        return node
    count = next(replay.counts)
    if not count:
        return Values(rows=(), columns=node.columns)
    bounds = tuple(Literal(value=value, type=BIGINT) for value in (0, count - 1))
    return Generate(function="generate_series", arguments=bounds, columns=node.columns)


passes.FINAL_ROWS.add(lambda node: True, Scan, Values, Generate)


@passes.MAINTENANCE.of(Scan)
def _maintain_scan(node: Scan, maintain: Maintain) -> Maintained:
    from runnel.planner.live.views import maintained_scan

    return maintained_scan(node)


@passes.MOST_ROWS.of(Scan)
def _most_rows_of_scan(node: Scan) -> int | None:
    rows = node.table.row_count()
    return rows if node.limit is None or rows is None else min(rows, node.limit)


@passes.CHOICES.of(Scan)
def _choose_scan(node: Scan, snapshot: Snapshot) -> Physical:
    return source(node, choose_index(node, snapshot))


@passes.CHOICES.of(Values)
def _choose_values(node: Values, snapshot: Snapshot) -> Physical:
    return PhysicalValues(fields=node.fields, rows=len(node.rows), values=node.rows)


passes.CHOICES.add(choose_as(PhysicalGenerate), Generate)


@passes.EXPLAIN.of(Scan)
def _describe_scan(node: Scan) -> Description:
    from runnel.planner.explain.parts import field_names, optional

    return f"Scan {node.table.name}", {
        "columns": ", ".join(field_names(node.fields)) or "none",
        "where": optional(node.predicate),
        "limit": "" if node.limit is None else str(node.limit),
    }


@passes.EXPLAIN.of(Values)
def _describe_values(node: Values) -> Description:
    from runnel.planner.explain.parts import field_names

    return f"Values, {_rows_text(len(node.rows))}", {"columns": ", ".join(field_names(node.fields))}


@passes.EXPLAIN.of(Generate, PhysicalGenerate)
def _describe_generate(node: Generate | PhysicalGenerate) -> Description:
    from runnel.planner.explain.parts import listed

    return node.function.capitalize(), {"arguments": listed(node.arguments)}


@passes.EXPLAIN.of(SourceScan)
def _describe_source_scan(node: SourceScan) -> Description:
    from runnel.planner.explain.parts import field_names, named, optional, watermark_of

    columns = node.table.columns
    read = tuple(columns[i].name for i in node.request.columns)
    fields = field_names(node.fields)
    output = "" if node.projections is None else named(node.projections, fields)
    return f"Scan {node.table.name}", {
        "read": ", ".join(read) or "none",
        "where": optional(node.condition),
        "pushed down": optional(conjunction(node.table.evaluated(node.request))),
        "columns": "" if node.projections is None else output or "none",
        "watermark": watermark_of(node.time),
        "limit": "" if node.request.limit is None else str(node.request.limit),
    }


@passes.EXPLAIN.of(IndexScan)
def _describe_index_scan(node: IndexScan) -> Description:
    title, properties = _describe_source_scan(node)
    return title, {"index": _lookup(node.table, node.lookup)} | properties


@passes.EXPLAIN.of(PhysicalValues)
def _describe_physical_values(node: PhysicalValues) -> Description:
    from runnel.planner.explain.parts import field_names

    return "Values", {"columns": ", ".join(field_names(node.fields))}


@passes.EXPLAIN.of(Write)
def _describe_write(node: Write) -> Description:
    columns = ", ".join(node.table.columns[i].name for i in node.request.columns)
    return f"Write {node.table.name}", {"mode": node.request.mode.value, "columns": columns}


def _rows_text(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def _lookup(table: Table, lookup: IndexLookup) -> str:
    from runnel.planner.explain.parts import listed

    column = lookup.index.columns[0]
    conditions = []
    if lookup.points is not None:
        one = len(lookup.points) == 1
        conditions.append(
            f"{column} = {lookup.points[0]}" if one else f"{column} IN ({listed(lookup.points)})"
        )
    if lookup.lower is not None:
        conditions.append(f"{column} {'>=' if lookup.lower_inclusive else '>'} {lookup.lower}")
    if lookup.upper is not None:
        conditions.append(f"{column} {'<=' if lookup.upper_inclusive else '<'} {lookup.upper}")
    text = f"{lookup.index.name} ({lookup.index.kind})"
    if conditions:
        text += " where " + " AND ".join(conditions)
    if lookup.ordered:
        text += ", in order" + (" from the last" if lookup.descending else "")
    return text


def stored_scan(plan: Physical) -> StoredScan | None:
    """The scan that the plan consists of, if its rows are in memory as the query returns them."""
    if type(plan) is not SourceScan or plan.time is not None or plan.malformed is not None:
        return None
    request, projections = plan.request, plan.projections
    is_bare = plan.condition is None and request.predicate is None and request.limit is None
    if not is_bare or plan.table.is_unbounded:
        return None
    columns = None
    if projections is not None:
        columns = tuple(item.index for item in projections if type(item) is Column)
        if len(columns) != len(projections):
            return None
    source = plan.table.scan(request)
    return StoredScan(source, columns) if source.is_stored else None


@passes.LOWERING.of(SourceScan)
def _lower_scan(to: Lowering, node: SourceScan) -> VertexOutput:
    from runnel.processors.sources.scan import scan

    names = column_names(node.fields)
    name = f"{SCAN}{node.table.name}"
    read = (source_of(node, to.next_name(name)), node.condition, node.projections, names)
    if node.time is None:
        supplier = scan(*read)
    else:
        # Loaded on first use: only streams have watermarks.
        from runnel.processors.sources.watermark_scan import event_time_scan

        supplier = event_time_scan(*read, node.time)
    return to.source(name, supplier, names, is_parallel=True)


@passes.LOWERING.of(IndexScan)
def _lower_index_scan(to: Lowering, node: IndexScan) -> VertexOutput:
    from runnel.processors.sources.scan import scan

    names = column_names(node.fields)
    source = node.indexed_table.index_scan(node.request, node.lookup)
    supplier = scan(source, node.condition, node.projections, names)
    name = f"{SCAN}{node.table.name} using {node.lookup.index.name}"
    return to.source(name, supplier, names, is_parallel=not node.lookup.ordered)


@passes.LOWERING.of(PhysicalValues)
def _lower_values(to: Lowering, node: PhysicalValues) -> VertexOutput:
    from runnel.processors.sources.values import values

    names = column_names(node.fields)
    return to.source(VALUES, values(node.values, names), names)


@passes.LOWERING.of(PhysicalGenerate)
def _lower_generate(to: Lowering, node: PhysicalGenerate) -> VertexOutput:
    from runnel.processors.sources.generate import generate

    names = column_names(node.fields)
    return to.source(node.function, generate(node.function, node.arguments, names), names)


@passes.LOWERING.of(Write)
def _lower_write(to: Lowering, node: Write) -> VertexOutput:
    from runnel.processors.sinks.write import write

    rows = to.lower(node.input)
    return to.follow(
        rows,
        f"{WRITE}{node.table.name}",
        write(node.table, node.request),
        1,
        column_names(node.fields),
    )


passes.TABLE_SHARING.add_classes(SourceScan, IndexScan, PhysicalValues, PhysicalGenerate)


@passes.DYNAMIC_FILTERS.of(SourceScan)
def _narrow_scan(node: SourceScan, keys: Keys, feed: SmallSide) -> Physical | None:
    """A table whose rows come whole, or are filtered by what its engine can't: the scan itself as a
    fragment."""
    from runnel.planner.pushdown.dynamic_filters import narrow

    engine = engine_of(node.table)
    if engine is None or not engine.is_apart:
        return None
    if node.time is not None or node.malformed is not None or node.request.limit is not None:
        return None
    if node.projections is not None:
        keys = tuple(substitute(key, node.projections) for key in keys)
    scan = Scan(table=node.table, columns=node.request.columns)
    try:
        source = engine.fragment(scan)
    except Unrenderable:
        return None
    whole = PhysicalFragment(fields=scan.fields, rows=node.rows, source=source)
    narrowed = narrow(whole, keys, feed)
    if narrowed is None or (node.condition is None and node.projections is None):
        return narrowed
    return Calc(
        fields=node.fields,
        rows=node.rows,
        input=narrowed,
        condition=node.condition,
        projections=node.projections,
    )


@passes.IDENTITY.of(PhysicalGenerate)
def _identify_physical_generate(node: PhysicalGenerate) -> Identity:
    from runnel.planner.identity.expressions import outer_texts

    return (
        node.function.capitalize(),
        {"arguments": outer_texts(node.arguments)},
    )


@passes.IDENTITY.of(PhysicalValues)
def _identify_physical_values(node: PhysicalValues) -> Identity:
    from runnel.planner.identity.nodes import names_text

    return ("Values", {"columns": names_text(node.fields)})


by_default(
    Scan,
    passes.CORRELATION,
    passes.GRAFTING,
    passes.HOISTING,
    passes.ORIGINS,
    passes.STATE_NAMES,
    passes.BLOCKING,
)
by_default(
    Values,
    passes.EMPTY,
    passes.ORIGINS,
    passes.STATE_NAMES,
    passes.REPLAY,
    passes.BLOCKING,
    passes.MOST_ROWS,
)
by_default(
    Generate, passes.HOISTING, passes.ORIGINS, passes.STATE_NAMES, passes.BLOCKING, passes.MOST_ROWS
)
by_default(
    SourceScan,
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.STAGES,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.IDENTITY,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    IndexScan,
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.DYNAMIC_FILTERS,
    passes.LATE_ROWS,
    passes.IDENTITY,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    (PhysicalValues, PhysicalGenerate),
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.DYNAMIC_FILTERS,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
by_default(
    Write,
    passes.NARROWABLE,
    passes.STATE_TEXTS,
    passes.STREAM_SHARING,
    passes.TABLE_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.LATE_ROWS,
    passes.IDENTITY,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
# It has no column of event time.
by_default(Generate, passes.BOUNDS)
# It has no input.
by_default((Scan, Generate), passes.EMPTY, passes.STREAM_CHECKS, passes.FRAGMENT_INPUTS)
by_default(Values, passes.STREAM_CHECKS, passes.FRAGMENT_INPUTS)
# It has no input to filter.
by_default((Scan, Values, Generate), passes.PREDICATES)
# It has no input without end.
by_default(Values, passes.BOUNDS)
# It has nowhere to put a limit.
by_default((Values, Generate), passes.LIMITS)
# It is made after the stages.
by_default(Write, passes.STAGES)
# It is never below a join.
by_default(Write, passes.DYNAMIC_FILTERS)
# The rule compares its exact class.
by_default(SourceScan, passes.STREAM_SHARING)
passes.RENDERED.add_classes(Generate, Scan, Values)
by_default((Values, Generate), passes.MAINTENANCE)
