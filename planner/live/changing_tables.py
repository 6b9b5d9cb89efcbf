"""Tables at rest whose changes are known, as inputs of a live query: their rows, then their
changes."""

from __future__ import annotations

from runnel.connector import ReadableTable
from runnel.planner.bind.streams.change_logs import current_rows
from runnel.planner.rewriting import project_columns
from runnel.planner.rules.column_pruning import prune
from runnel.relation.nodes import Filter, Relation, Scan, transform


def with_changing_tables(relation: Relation) -> Relation:
    """The relation over the changes of its tables, where they are recorded. A table that a stream
    meets at the arrival of a row stays."""
    return transform(relation, _changing)


def _changing(node: Relation) -> Relation:
    if not isinstance(node, Scan) or node.at_arrival or not isinstance(node.table, ReadableTable):
        return node
    table = node.table.with_changes()
    if table is None or table.events is None:
        return node
    events = table.events
    scan = Scan(table=events, columns=tuple(range(len(events.columns))), position=node.position)
    rows = current_rows(table, scan)
    if node.predicate is not None:
        rows = Filter(input=rows, condition=node.predicate, position=node.position)
    pruned, places = prune(rows, set(node.columns))
    return project_columns(pruned, [places[i] for i in node.columns])
