"""The names of an engine's types: a table for the simple ones, and how the nested ones are put
together."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from runnel.base.frozen import frozen
from runnel.foreign.fragment import Unrenderable
from runnel.sqltypes import Kind, SqlType


@frozen
class TypeNames:
    """How one engine writes types. `array`, `map`, `row` and `field` are templates for the texts of
    their parts."""

    simple: Mapping[Kind, str]
    array: str
    map: str
    row: str
    field: str
    quote: Callable[[str], str]

    def of(self, sql_type: SqlType) -> str:
        """The type in which values of a SQL type travel; Unrenderable where there is none."""
        kind = sql_type.kind
        if kind is Kind.DECIMAL:
            return f"DECIMAL({sql_type.precision}, {sql_type.scale})"
        if kind is Kind.ARRAY and sql_type.element is not None:
            return self.array.format(self.of(sql_type.element))
        if kind is Kind.MAP and sql_type.key is not None and sql_type.element is not None:
            return self.map.format(self.of(sql_type.key), self.of(sql_type.element))
        if kind is Kind.ROW and _has_distinct_names(sql_type):
            fields = (
                self.field.format(self.quote(name), self.of(item)) for name, item in sql_type.fields
            )
            return self.row.format(", ".join(fields))
        found = self.simple.get(kind)
        if found is None:
            raise Unrenderable(f"type {sql_type}")
        return found


def _has_distinct_names(sql_type: SqlType) -> bool:
    """Whether an engine for which case doesn't matter can tell the fields apart."""
    names = [name.lower() for name, _ in sql_type.fields]
    return len(set(names)) == len(names) and "" not in names
