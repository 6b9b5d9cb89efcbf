"""Tables at rest whose changes are known, as inputs of a live query: their rows, then their
changes."""

from __future__ import annotations

from runnel.connector import ReadableTable
from runnel.planner.bind.streams.change_logs import current_rows
from runnel.planner.rewriting import project_columns
from runnel.planner.rules.column_pruning import prune
from runnel.relation.nodes import Filter, Relation, Scan, transform


def with_changing_tables(relation: Relation, millis: int | None) -> Relation:
    """The relation over the changes of its tables, where they are recorded, or found by reading a
    table again. A table that a stream meets at the arrival of a row stays.

    millis: the interval at which tables are read again; None: only tables that state one are.
    """
    return transform(relation, lambda node: _changing(node, millis))


def _changing(node: Relation, millis: int | None) -> Relation:
    if not isinstance(node, Scan) or node.at_arrival or not isinstance(node.table, ReadableTable):
        return node
    if node.table.is_unbounded:
        return node
    millis = node.table.poll_millis or millis
    table = node.table.with_changes(millis)
    if table is None and millis is not None:
        # Loaded on first use: few tables are read again.
        from runnel.processors.live.tables.repeated_reads import read_again

        table = read_again(node.table, millis)
    if table is None or table.events is None:
        return node
    events = table.events
    scan = Scan(table=events, columns=tuple(range(len(events.columns))), position=node.position)
    rows = current_rows(table, scan)
    if node.predicate is not None:
        rows = Filter(input=rows, condition=node.predicate, position=node.position)
    pruned, places = prune(rows, set(node.columns))
    return project_columns(pruned, [places[i] for i in node.columns])
