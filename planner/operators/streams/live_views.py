"""The home of the operators of materialized views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from runnel.base.frozen import frozen
from runnel.catalog import Table
from runnel.planner.estimates import Of
from runnel.planner.lower.dag_builder import PUBLICATION, VIEW_INPUT, Lowering, VertexOutput
from runnel.planner.operators import passes
from runnel.planner.operators.passes import by_default, not_met
from runnel.planner.operators.streams.live import cut_epochs, epochs_text
from runnel.planner.physical.choose import choose_as
from runnel.planner.physical.nodes import SingleInput, column_names
from runnel.relation.live import Publication, ViewInput
from runnel.sqltypes import to_arrow

if TYPE_CHECKING:
    from runnel.planner.explain.parts import Description
    from runnel.planner.identity.nodes import Identity


@frozen(kw_only=True)
class PhysicalViewInput(SingleInput):
    """The changes of a view. The fields are as in ViewInput."""

    family = "streams.live_views"

    view: str


@frozen(kw_only=True)
class PhysicalPublication(SingleInput):
    """The rows of a view, published epoch by epoch. The fields are as in Publication."""

    family = "streams.live_views"

    table: Table
    is_changing: bool
    distance: int


passes.CHOICES.add(choose_as(PhysicalViewInput), ViewInput)
passes.CHOICES.add(choose_as(PhysicalPublication), Publication)


@passes.ESTIMATES.of(ViewInput, Publication)
def _estimate(node: Any, of: Of) -> int | None:
    return None


@passes.EXPLAIN.of(ViewInput, PhysicalViewInput)
def _describe_input(node: ViewInput | PhysicalViewInput) -> Description:
    return f"Changes of {node.view}", {"emits": "its content, then its changes"}


@passes.EXPLAIN.of(Publication, PhysicalPublication)
def _describe_publication(node: Publication | PhysicalPublication) -> Description:
    names = [column.name for column in node.table.columns]
    return f"Publish {node.table.name}", {
        "emits": "changes" if node.is_changing else "appended rows",
        "unique": ", ".join(names[i] for i in node.table.key_columns),
        "epochs": epochs_text(node.distance),
    }


@passes.STATE_TEXTS.of(PhysicalViewInput)
def _state_of_input(node: PhysicalViewInput) -> str:
    return f"all rows of {node.view}"


@passes.STATE_TEXTS.of(PhysicalPublication)
def _state_of_publication(node: PhysicalPublication) -> str:
    return "all rows of the view, without bound"


@passes.LOWERING.of(PhysicalViewInput)
def _lower_input(to: Lowering, node: PhysicalViewInput) -> VertexOutput:
    from runnel.processors.live.views.input import view_input

    rows = to.lower(node.input)
    names = column_names(node.fields)
    schema = pa.schema(
        [pa.field(name, to_arrow(f.type)) for name, f in zip(names, node.fields, strict=True)]
    )
    return to.follow(rows, f"{VIEW_INPUT}{node.view}", view_input(schema), 1, names)


@passes.LOWERING.of(PhysicalPublication)
def _lower_publication(to: Lowering, node: PhysicalPublication) -> VertexOutput:
    from runnel.processors.live.views.publish import publish
    from runnel.processors.live.views.table import MaterializedTable

    assert isinstance(node.table, MaterializedTable)
    rows = to.lower(node.input)
    cut_epochs(to, node.distance)
    supplier = publish(node.table.store, is_changing=node.is_changing)
    return to.follow(rows, f"{PUBLICATION}{node.table.name}", supplier, 1)


@passes.IDENTITY.of(PhysicalViewInput)
def _identify_input(node: PhysicalViewInput) -> Identity:
    from runnel.planner.identity.nodes import arranged

    return "Changes of a view", {"view": node.view.lower(), "rows": arranged(node.input)}


@passes.IDENTITY.of(PhysicalPublication)
def _identify_publication(node: PhysicalPublication) -> Identity:
    from runnel.planner.identity.nodes import types_text

    return "Publication", {"rows": types_text(node.fields)}


not_met((ViewInput, Publication), passes.PRUNING)
by_default(
    (ViewInput, Publication),
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
    (PhysicalViewInput, PhysicalPublication),
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
