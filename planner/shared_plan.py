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
    if not has_engines or not _joins_rows_from_apart(relation):
        return plan
    # Loaded on first use: few statements have tables in two places.
    from runnel.planner.dynamic_filters import with_dynamic_filters

    return with_dynamic_filters(plan)


def _joins_rows_from_apart(relation: Relation) -> bool:
    """Whether there is a join, and a table whose rows take long to come over."""
    nodes = list(walk(relation))
    engines = [node.table.engine for node in nodes if isinstance(node, Scan)]
    return any(item is not None and item.is_apart for item in engines) and any(isinstance(node, Join) for node in nodes)
