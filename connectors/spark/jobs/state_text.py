"""The text of a query over streams by which Spark's state is identified.

A sub-plan over bounded tables has no state there. In the text it is represented by the tables that
it reads and the columns that it returns, since the join order of these tables depends on their
sizes and may differ next time.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from runnel.catalog import Table, TableColumn
from runnel.columns.type_records import type_spelling
from runnel.errors import ERROR_MARK
from runnel.relation.nodes import Relation, Scan, walk
from runnel.relation.streams import ImposeOrder
from runnel.rendering.render import Rendering
from runnel.rendering.spark.dialect import SPARK
from runnel.rendering.spark.streams import render_stream
from runnel.sqltypes import BOOLEAN

_MARKED = rf"'{re.escape(ERROR_MARK)}[^']*'"
_MESSAGE = re.compile(
    rf"raise_error\((?:{_MARKED}|concat\({_MARKED}(?:, (?:'[^']*'|char\(\d+\)))*\))\)"
)


class _Lookup(Table):
    """The result of a sub-plan without streams."""

    connector = "Spark"

    def __init__(self, relation: Relation) -> None:
        names = sorted(node.table.name for node in walk(relation) if isinstance(node, Scan))
        types = ", ".join(type_spelling(field.type) for field in relation.fields)
        self.name = f"{', '.join(names)} ({types})"
        # A table needs columns, even if only the number of its rows is used.
        self.columns = tuple(TableColumn(field.name, field.type) for field in relation.fields) or (
            TableColumn("row", BOOLEAN),
        )

    def row_count(self) -> int | None:
        return None


def state_text(
    relation: Relation,
    scan: Callable[[Scan, tuple[int, ...]], str],
    order: Callable[[ImposeOrder, str], str],
) -> str:
    """The text; `scan` and `order` return the text of a table and of an event time."""

    def scanned(node: Scan, read: tuple[int, ...]) -> str:
        if not isinstance(node.table, _Lookup):
            return scan(node, read)
        return (
            f"(SELECT {', '.join(f'{i} AS c{place}' for place, i in enumerate(read))} "
            f"FROM {node.table.name})"
        )

    return render_stream(_without_lookups(relation), Rendering(SPARK), scanned, order)


def without_messages(text: str) -> str:
    """The text without the messages of errors that it may raise, since no state depends on them."""
    return _MESSAGE.sub("raise_error()", text)


def _without_lookups(relation: Relation) -> Relation:
    """The relation with a table in place of each maximal bounded sub-plan."""
    if isinstance(relation, Scan):
        return relation
    if not relation.is_unbounded:
        return Scan(table=_Lookup(relation), columns=tuple(range(len(relation.fields))))
    return relation.with_inputs(tuple(map(_without_lookups, relation.inputs)))
