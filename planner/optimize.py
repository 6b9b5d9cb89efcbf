"""From a bound relation to its physical plan: rules, pushdown, choice of operators, sharing.

Common tables that would be copied too often (`bound_tables`) pass through each of these stages on
their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from runnel.catalog import Snapshot, Table, View, dependency_version
from runnel.connector import IndexedTable, WriteMode
from runnel.errors import NotSupportedError
from runnel.expressions.nodes import walk as expressions_in
from runnel.foreign.fragment import engine_of
from runnel.planner.physical.choose import choose
from runnel.planner.physical.nodes import Physical, tables_of
from runnel.planner.rules import apply
from runnel.relation.nodes import Generate, Join, Limit, Relation, Scan, walk
from runnel.relation.subqueries import Exists, InSubquery, ScalarSubquery, everything

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder
    from runnel.planner.bind.write import BoundWrite
    from runnel.planner.parse.syntax import Query


def tables_in(relation: Relation) -> tuple[Table, ...]:
    """The tables that a relation reads, without duplicates."""
    return tuple(
        dict.fromkeys(node.table for node in everything(relation) if isinstance(node, Scan))
    )


def bounded(binder: StatementBinder, relation: Relation) -> Relation:
    """A bound query in which the number of copies of common tables is bounded."""
    return relation if binder.bound_tables is None else binder.bound_tables.bounded(relation)


def simplified(binder: StatementBinder, bound: Relation) -> Relation:
    """The relation after the rules."""
    check = binder.environment.check
    bound = bounded(binder, bound)
    if not _has_commons(binder):
        return apply(bound, check=check)
    from runnel.planner.bind.bound_tables import copied_where_needed, rewritten

    return rewritten(copied_where_needed(bound), lambda relation: apply(relation, check=check))


def check_streaming(
    relation: Relation, unbounded_state: bool = False, statement: Query | None = None
) -> None:
    """Calls `event_time.check.check_streaming`, which is loaded only for unbounded inputs.

    statement: the query, if EMIT CHANGES may be suggested.
    """
    if not relation.is_unbounded:
        return
    from runnel.planner.event_time.check import check_streaming

    try:
        check_streaming(relation, unbounded_state)
    except NotSupportedError as error:
        if statement is not None:
            from runnel.planner.live.suggestion import suggest_changes

            suggest_changes(error, statement, relation)
        raise


def check_view(relation: Relation, statement: Query) -> None:
    """NotSupportedError if no statement can read the rows of a view over a stream, nor its changes.
    `relation`: its query after the rules."""
    try:
        check_streaming(relation, statement.unbounded_state)
    except NotSupportedError:
        from runnel.planner.live.suggestion import has_changes

        if not has_changes(relation, statement):
            raise


def final_rows(relation: Relation, unbounded_state: bool, write: BoundWrite | None) -> Relation:
    """The rows that a statement writes; in a job whose rows change, their changes.

    write: the statement of a job.
    """
    try:
        check_streaming(relation, unbounded_state)
    except NotSupportedError as error:
        if write is None or write.mode not in (WriteMode.INSERT, WriteMode.SINK):
            raise
        # Loaded on first use: few jobs write results that change.
        from runnel.planner.live.written_changes import written_changes

        return written_changes(
            relation, write.table, write.columns, error, unbounded_state=unbounded_state
        )
    return relation


def pushed_down(binder: StatementBinder, logical: Relation) -> tuple[Relation, str]:
    """Replaces the subplans that other engines run by fragments.

    Returns also which subplans were not pushed down for lack of memory ("" for none). A plan that
    reads no table has nothing to push down, unless the setting asks to try every plan (0 rows).
    """
    pushdown = binder.environment.pushdown
    if pushdown is None:
        return logical, ""
    if (
        pushdown.rows
        and not _has_commons(binder)
        and not any(isinstance(node, Scan) for node in walk(logical))
    ):
        return logical, ""
    from runnel.planner.pushdown.fragments import with_fragments

    if not _has_commons(binder):
        return with_fragments(logical, binder.snapshot, pushdown)
    from runnel.planner.bind.bound_tables import rewritten

    reasons: list[str] = []

    def pushed(relation: Relation) -> Relation:
        found, reason = with_fragments(relation, binder.snapshot, pushdown)
        reasons.append(reason)
        return found

    return rewritten(logical, pushed), next(filter(None, reasons), "")


def chosen(
    binder: StatementBinder,
    relation: Relation,
    logical: Relation,
    choose_root: Callable[[Relation, Snapshot], Physical],
    has_engines: bool = False,
) -> Physical:
    """Chooses the physical plan of a relation.

    logical: the relation before pushdown.
    has_engines: whether other engines may run fragments of it.
    """
    root = choose_root(relation, binder.snapshot)
    commons: dict[int, Physical] = {}
    if _has_commons(binder):
        from runnel.planner.bind.bound_tables import commons_in

        commons = {
            number: choose(node.relation, binder.snapshot)
            for number, node in commons_in(relation).items()
        }
    return _shared(root, logical, has_engines, commons)


def _has_commons(binder: StatementBinder) -> bool:
    """Whether the statement has common tables that are planned on their own."""
    return binder.bound_tables is not None and binder.bound_tables.count > 0


def _shared(
    plan: Physical,
    relation: Relation,
    has_engines: bool = False,
    commons: Mapping[int, Physical] | None = None,
) -> Physical:
    """The plan with shared subplans and with dynamic filters.

    Subplans that occur several times run once. Fragments of other engines get filters from the
    joins above them (`has_engines`). `commons`: the plans of the common tables that run once, by
    number.
    """
    if relation.is_unbounded:
        # Loaded on first use: few statements read streams.
        from runnel.planner.physical.sharing.streams import share

        return share(plan)
    tables = tables_of(plan)
    if commons or len(set(map(id, tables))) != len(tables):
        # Loaded on first use: few statements read a table twice.
        from runnel.planner.physical.sharing.tables import share_tables

        plan = share_tables(plan, commons)
    if not has_engines or not _joins_rows_from_apart(relation):
        return plan
    # Loaded on first use: few statements read tables of two engines.
    from runnel.planner.pushdown.dynamic_filters import with_dynamic_filters

    return with_dynamic_filters(plan)


def _joins_rows_from_apart(relation: Relation) -> bool:
    """Whether there is a join, and a table whose rows are slow to transfer."""
    nodes = list(walk(relation))
    engines = [engine_of(node.table) for node in nodes if isinstance(node, Scan)]
    return any(item is not None and item.is_apart for item in engines) and any(
        isinstance(node, Join) for node in nodes
    )


def is_lasting(snapshot: Snapshot, relation: Relation) -> bool:
    """Whether all tables are the catalog's. The plan of a table that a table function opened is
    not cached: such a table describes its files as they were when it was opened."""
    found = [item.table for item in snapshot if not isinstance(item, View)]
    named = {id(table) for item in found for table in (item, item.as_stream)}
    return all(id(table) in named for table in tables_in(relation))


def has_subquery(relation: Relation) -> bool:
    """Whether an expression of the relation has a subquery."""
    return any(
        isinstance(part, (Exists, InSubquery, ScalarSubquery))
        for node in walk(relation)
        for expression in node.own_expressions
        for part in expressions_in(expression)
    )


def can_end(relation: Relation) -> bool:
    """Whether the query can end: it has a LIMIT, or every source can end."""
    if isinstance(relation, Limit) and relation.count is not None:
        return True
    if isinstance(relation, Scan):
        return relation.table.can_end
    if isinstance(relation, Generate):
        return not relation.unbounded
    return all(can_end(item) for item in relation.inputs)


def note_indexes(binder: StatementBinder, logical: Relation) -> None:
    """Makes the plan depend on the set of indexes of each table that it reads."""
    for table in tables_in(logical):
        if isinstance(table, IndexedTable):
            binder.note(
                "indexes", table.name, dependency_version(binder.snapshot, "indexes", table.name)
            )


def notice(logical: Relation, zone: str) -> str:
    """The message to the user about a query of a stream, or about windows in the session's zone; ""
    for none."""
    if not logical.is_unbounded and zone == "UTC":
        return ""
    from runnel.planner.statement_time import statement_time_notice, window_zone_notice

    found = [statement_time_notice(logical) if logical.is_unbounded else ""]
    found.append(window_zone_notice(logical, zone))
    return "; ".join(filter(None, found))
