"""Types, names and literals in an engine's SQL.

`ValueRendering` has what DuckDB and Spark have in common; a subclass per engine has the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar

from runnel.foreign.fragment import Unrenderable
from runnel.sqltypes import Kind, SqlType

_TEXTS = (Kind.VARCHAR, Kind.JSON, Kind.UUID)
_SPANS = (Kind.INTERVAL, Kind.INTERVAL_MONTH)


class ValueRendering(ABC):
    """How an engine writes types, names and literals. The templates contain `{0}`, …."""

    types: ClassVar[Mapping[Kind, str]] = {
        Kind.BOOLEAN: "BOOLEAN",
        Kind.TINYINT: "TINYINT",
        Kind.SMALLINT: "SMALLINT",
        Kind.BIGINT: "BIGINT",
        Kind.REAL: "FLOAT",
        Kind.DOUBLE: "DOUBLE",
        Kind.DATE: "DATE",
        Kind.INTERVAL: "BIGINT",
    }
    """The types without parameters. An interval is its number of µs or of months, because DuckDB
    counts 30 days as a month."""
    array: ClassVar[str]
    map: ClassVar[str]
    row: ClassVar[str]
    field: ClassVar[str]
    binary: ClassVar[str]
    """The literal of octets, from hexadecimal digits."""
    number: ClassVar[str]
    """The operand of CAST for whole numbers."""
    elements: ClassVar[str]
    """An array of elements."""

    @abstractmethod
    def quote(self, name: str) -> str:
        """An identifier. Raises Unrenderable if the engine cannot have it."""

    @abstractmethod
    def text(self, value: str) -> str:
        """A literal of VARCHAR."""

    @abstractmethod
    def instant(self, value: datetime) -> str:
        """A literal of TIMESTAMP WITH TIME ZONE."""

    def type_name(self, sql_type: SqlType) -> str:
        """The engine's type for values of a SQL type. Raises Unrenderable if there is none."""
        kind = sql_type.kind
        if kind is Kind.DECIMAL:
            return f"DECIMAL({sql_type.precision}, {sql_type.scale})"
        if kind is Kind.ARRAY and sql_type.element is not None:
            return self.array.format(self.type_name(sql_type.element))
        if kind is Kind.MAP and sql_type.key is not None and sql_type.element is not None:
            return self.map.format(self.type_name(sql_type.key), self.type_name(sql_type.element))
        if kind is Kind.ROW and _has_distinct_names(sql_type):
            fields = (
                self.field.format(self.quote(name), self.type_name(item))
                for name, item in sql_type.fields
            )
            return self.row.format(", ".join(fields))
        found = self.types.get(kind)
        if found is None:
            raise Unrenderable(f"type {sql_type}")
        return found

    def literal(self, value: Any, sql_type: SqlType) -> str:
        """A value, as `Literal.value` has it, as an expression of the type."""
        kind, name = sql_type.kind, self.type_name(sql_type)
        if value is None:
            return f"CAST(NULL AS {name})"
        if kind is Kind.BOOLEAN:
            return "TRUE" if value else "FALSE"
        if kind in _TEXTS:
            return self.text(str(value))
        if kind is Kind.VARBINARY:
            return self.binary.format(value.hex())
        if kind is Kind.TIMESTAMP_TZ:
            return self.instant(value)
        if sql_type.is_nested:
            return f"CAST({self.nested(value, sql_type)} AS {name})"
        if sql_type.is_integer or kind in _SPANS:
            whole = value // timedelta(microseconds=1) if kind is Kind.INTERVAL else int(value)
            return f"CAST({self.number.format(whole)} AS {name})"
        return f"CAST('{self.plain(value, sql_type)}' AS {name})"

    def plain(self, value: Any, sql_type: SqlType) -> str:
        """The text of a number, date or time: digits, signs, letters and points only."""
        if sql_type.kind is Kind.DECIMAL:
            return f"{value:f}"
        if sql_type.is_approximate:
            return repr(float(value))
        if sql_type.kind is Kind.TIMESTAMP:
            return str(value.isoformat(" "))
        if sql_type.kind in (Kind.DATE, Kind.TIME):
            return str(value.isoformat())
        raise Unrenderable(f"a literal of type {sql_type}")

    def nested(self, value: Any, sql_type: SqlType) -> str:
        """A nested value, before the CAST to its type."""
        if sql_type.kind is not Kind.ARRAY or sql_type.element is None:
            raise Unrenderable(f"a literal of type {sql_type}")
        items = (self.literal(item, sql_type.element) for item in value)
        return self.elements.format(", ".join(items))

    def key(self, value: str, sql_type: SqlType) -> str:
        """A value as groups and joins compare it. Both engines take −0 for 0, but which of the two
        they return is not defined."""
        if sql_type.is_approximate:
            return f"({value} + CAST({self.number.format(0)} AS {self.type_name(sql_type)}))"
        if not self.compares(sql_type):
            raise Unrenderable(f"a key of type {sql_type}")
        return value

    def compares(self, sql_type: SqlType) -> bool:
        """Whether groups and joins may compare values of the type."""
        return not sql_type.is_nested


def _has_distinct_names(sql_type: SqlType) -> bool:
    """Whether an engine that ignores case can distinguish the fields."""
    names = [name.lower() for name, _ in sql_type.fields]
    return len(set(names)) == len(names) and "" not in names
