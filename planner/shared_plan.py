"""What is done to a physical plan as a whole: what occurs several times in it runs once, and other engines give what the rest
of it wants of them."""

from __future__ import annotations

from runnel.planner.physical import Physical, tables_of
from runnel.relation import Join, Relation, Scan, walk


def shared(plan: Physical, relation: Relation, has_engines: bool = False) -> Physical:
    """The physical plan of `relation`, in which what occurs several times runs once, and other engines, where it has them, give
    what the rest of it wants of them."""
    if relation.is_unbounded:
        # Loaded on first use: few statements read streams.
        from runnel.planner.sharing import share

        return share(plan)
    tables = tables_of(plan)
    if len(set(map(id, tables))) != len(tables):
        # Loaded on first use: few statements read a table twice.
        from runnel.planner.sharing_tables import share_tables

        plan = share_tables(plan)
    if not has_engines or not _joins_engines(relation):
        return plan
    # Loaded on first use: few statements have tables in two places.
    from runnel.planner.dynamic_filters import with_dynamic_filters

    return with_dynamic_filters(plan)


def _joins_engines(relation: Relation) -> bool:
    """Whether tables of another engine and others meet in the query."""
    nodes = list(walk(relation))
    engines = {id(node.table.engine) for node in nodes if isinstance(node, Scan)}
    return bool(engines) and engines != {id(None)} and any(isinstance(node, Join) for node in nodes)
