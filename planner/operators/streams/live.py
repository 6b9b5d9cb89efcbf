"""The home of the operators of live queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from runnel.base.frozen import frozen
from runnel.catalog import Snapshot
from runnel.dag import Epochs
from runnel.expressions.nodes import AggregateCall, Column
from runnel.planner.estimates import Of
from runnel.planner.lower.dag_builder import (
    CHANGELOG,
    CHANGES,
    LIVE_AGGREGATE,
    LIVE_PARTITIONS,
    Lowering,
    VertexOutput,
    key_names,
)
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default, not_met
from runnel.planner.physical.choose import choose, choose_as
from runnel.planner.physical.nodes import (
    Physical,
    PhysicalGenerate,
    SingleInput,
    column_names,
)
from runnel.relation.live import Changelog, ChangeStream, LiveAggregate, LivePartitions

if TYPE_CHECKING:
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity


@frozen(kw_only=True)
class PhysicalLiveAggregate(SingleInput):
    """The changes of the groups of an aggregation. The fields are as in LiveAggregate."""

    family = "streams.live"

    keys: tuple[Column, ...]
    aggregates: tuple[AggregateCall, ...]
    is_changing: bool


@frozen(kw_only=True)
class PhysicalLivePartitions(SingleInput):
    """The changes of the result of an operator that is computed partition by partition.

    keys, is_changing: as in LivePartitions.
    operation: the operator of bounded queries.
    """

    family = "streams.live"

    keys: int
    operation: Physical
    is_changing: bool


@frozen(kw_only=True)
class PhysicalChangeStream(SingleInput):
    """The net changes of each epoch. The fields are as in ChangeStream."""

    family = "streams.live"

    is_changing: bool
    unique: tuple[int, ...] | None
    distance: int


@frozen(kw_only=True)
class PhysicalChangelog(SingleInput):
    """The changes of a result that a job writes. The fields are as in Changelog."""

    family = "streams.live"

    key: tuple[int, ...] | None
    distance: int


passes.CHOICES.add(choose_as(PhysicalLiveAggregate), LiveAggregate)
passes.CHOICES.add(choose_as(PhysicalChangelog), Changelog)


@passes.CHOICES.of(LivePartitions)
def _choose_live_partitions(node: LivePartitions, snapshot: Snapshot) -> Physical:
    return PhysicalLivePartitions(
        fields=node.fields,
        input=choose(node.input, snapshot),
        keys=node.keys,
        operation=choose(node.operation, snapshot),
        is_changing=node.is_changing,
    )


@passes.CHOICES.of(ChangeStream)
def _choose_change_stream(node: ChangeStream, snapshot: Snapshot) -> Physical:
    return PhysicalChangeStream(
        fields=node.fields,
        input=choose(node.input, snapshot),
        is_changing=node.is_changing,
        unique=node.unique,
        distance=node.distance,
    )


@passes.ESTIMATES.of(LiveAggregate, LivePartitions, ChangeStream, Changelog)
def _estimate(node: Any, of: Of) -> int | None:
    return None


@passes.EXPLAIN.of(LiveAggregate, PhysicalLiveAggregate)
def _describe_live_aggregate(node: LiveAggregate | PhysicalLiveAggregate) -> Description:
    from runnel.planner.explain.parts import aggregate, listed

    title, properties = aggregate(node)  # type: ignore[arg-type]
    unique = {"unique": listed(node.keys) or "one row"}
    return f"Live {title[0].lower()}{title[1:]}", properties | unique


@passes.EXPLAIN.of(LivePartitions, PhysicalLivePartitions)
def _describe_live_partitions(node: LivePartitions | PhysicalLivePartitions) -> Description:
    title, properties = passes.EXPLAIN.rule(node.operation)(node.operation)
    return f"Live {title[0].lower()}{title[1:]}", properties


@passes.EXPLAIN.of(ChangeStream, PhysicalChangeStream)
def _describe_change_stream(node: ChangeStream | PhysicalChangeStream) -> Description:
    properties = {"emits": "changes" if node.is_changing else "appended rows"}
    if node.unique is not None:
        names = [field.name for field in node.fields[2:]]
        properties["unique"] = ", ".join(names[i] for i in node.unique) or "one row"
    properties["epochs"] = epochs_text(node.distance)
    return "Changes", properties


@passes.EXPLAIN.of(Changelog, PhysicalChangelog)
def _describe_changelog(node: Changelog | PhysicalChangelog) -> Description:
    properties = {"emits": "inserts, updates and deletes"}
    if node.key is not None:
        properties["unique"] = ", ".join(node.fields[i].name for i in node.key) or "one row"
    properties["epochs"] = epochs_text(node.distance)
    return "Changelog", properties


def epochs_text(distance: int) -> str:
    return f"every {distance // 1_000_000} ms at most"


@passes.STATE_TEXTS.of(PhysicalLiveAggregate)
def _state_of_live_aggregate(node: PhysicalLiveAggregate) -> str:
    from runnel.processors.live.aggregate import needs_rows

    if needs_rows(node.aggregates, is_changing=node.is_changing):
        return "all rows, and a row for each group, without bound"
    return "a row for each group, without bound" if node.keys else "one row"


@passes.STATE_TEXTS.of(PhysicalLivePartitions)
def _state_of_live_partitions(node: PhysicalLivePartitions) -> str:
    return "all rows of the input and of the result, without bound"


@passes.STATE_TEXTS.of(PhysicalChangeStream)
def _state_of_change_stream(node: PhysicalChangeStream) -> str:
    return "the changes of an epoch" if node.is_changing else "nothing"


@passes.STATE_TEXTS.of(PhysicalChangelog)
def _state_of_changelog(node: PhysicalChangelog) -> str:
    return "the changes of an epoch"


@passes.LOWERING.of(PhysicalLiveAggregate)
def _lower_live_aggregate(to: Lowering, node: PhysicalLiveAggregate) -> VertexOutput:
    from runnel.processors.live.aggregate import live_aggregate

    rows = to.lower(node.input)
    names = column_names(node.fields)
    fields = node.input.fields[:-1] if node.is_changing else node.input.fields
    supplier = live_aggregate(
        node.keys, node.aggregates, names[:-1], fields, is_changing=node.is_changing
    )
    keys = key_names(node.keys, rows.names)
    return to.by_key(rows, LIVE_AGGREGATE, supplier, keys, names)


@passes.LOWERING.of(PhysicalLivePartitions)
def _lower_live_partitions(to: Lowering, node: PhysicalLivePartitions) -> VertexOutput:
    from runnel.processors.live.partitions import live_partitions

    rows = to.lower(node.input)
    names = column_names(node.fields)
    fields = node.input.fields[:-1] if node.is_changing else node.input.fields
    supplier = live_partitions(
        passes.STAGES.rule(node.operation)(node.operation).factory,
        node.keys,
        fields,
        names[:-1],
        node.operation.fields,
        is_changing=node.is_changing,
    )
    return to.by_key(rows, LIVE_PARTITIONS, supplier, rows.names[: node.keys], names)


@passes.LOWERING.of(PhysicalChangeStream)
def _lower_change_stream(to: Lowering, node: PhysicalChangeStream) -> VertexOutput:
    from runnel.processors.live.change_stream import change_stream

    rows = to.lower(node.input)
    cut_epochs(to, node.distance)
    supplier = change_stream(node.fields, is_changing=node.is_changing)
    return to.follow(rows, CHANGES, supplier, 1, column_names(node.fields))


@passes.LOWERING.of(PhysicalChangelog)
def _lower_changelog(to: Lowering, node: PhysicalChangelog) -> VertexOutput:
    from runnel.processors.live.changelog import changelog

    rows = to.lower(node.input)
    cut_epochs(to, node.distance)
    names = column_names(node.fields)
    return to.follow(rows, CHANGELOG, changelog(node.key, names), 1, names)


def cut_epochs(to: Lowering, distance: int) -> None:
    """Has the sources without an end below this node cut the epochs of the query."""
    sources = frozenset(name for name, made in to.nodes.items() if _never_ends(made))
    if sources:
        to.dag.epochs = Epochs(sources, distance)


def _never_ends(node: Physical) -> bool:
    """Whether a node is a source without an end."""
    if isinstance(node, PhysicalGenerate):
        return node.function == "generate_stream"
    table = getattr(node, "table", None)
    return not node.inputs and table is not None and bool(table.is_unbounded)


@passes.IDENTITY.of(PhysicalLiveAggregate)
def _identify_live_aggregate(node: PhysicalLiveAggregate) -> Identity:
    from runnel.planner.identity.expressions import outer_texts
    from runnel.planner.identity.nodes import arranged
    from runnel.processors.live.aggregate import needs_rows

    changing = ""
    if node.is_changing:
        changing = "yes" if needs_rows(node.aggregates, is_changing=True) else "subtracted"
    return "Live aggregate", {
        "by": outer_texts(node.keys),
        "compute": outer_texts(node.aggregates),
        "rows": arranged(node.input),
        "changing": changing,
    }


@passes.IDENTITY.of(PhysicalLivePartitions)
def _identify_live_partitions(node: PhysicalLivePartitions) -> Identity:
    from runnel.planner.identity.nodes import arranged

    title, properties = passes.IDENTITY.rule(node.operation)(node.operation)
    more = {
        "keys": str(node.keys),
        "rows": arranged(node.input),
        "changing": "yes" if node.is_changing else "",
    }
    return f"Live {title}", {**properties, **more}


@passes.IDENTITY.of(PhysicalChangelog)
def _identify_changelog(node: PhysicalChangelog) -> Identity:
    from runnel.planner.identity.nodes import types_text

    return "Changelog", {"rows": types_text(node.fields)}


not_met((LiveAggregate, LivePartitions, ChangeStream, Changelog), passes.PRUNING)
by_default(
    (LiveAggregate, LivePartitions, ChangeStream, Changelog),
    passes.PREDICATES,
    passes.EMPTY,
    passes.LIMITS,
    passes.CORRELATION,
    passes.GRAFTING,
    passes.HOISTING,
    passes.BOUNDS,
    passes.ORIGINS,
    passes.STREAM_CHECKS,
    passes.STATE_NAMES,
    passes.REPLAY,
    passes.FINAL_ROWS,
    passes.MAINTENANCE,
    passes.FRAGMENT_INPUTS,
    passes.RENDERED,
    passes.BLOCKING,
    passes.MOST_ROWS,
)
by_default(
    (PhysicalLiveAggregate, PhysicalLivePartitions, PhysicalChangeStream, PhysicalChangelog),
    passes.NARROWABLE,
    passes.STAGES,
    passes.STREAM_SHARING,
    passes.TABLE_SHARING,
    passes.WORTH_SHARING,
    passes.READS_ALL,
    passes.DYNAMIC_FILTERS,
    passes.LATE_ROWS,
    passes.STATE_FORMS,
    passes.STATE_COLUMNS,
)
# A job can't have it.
by_default(PhysicalChangeStream, passes.IDENTITY)
