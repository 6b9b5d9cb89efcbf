"""The SQL types that DuckDB's package makes by functions: `con.list_type('INTEGER')`.

Loaded on first use: types are mostly written as texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runnel.errors import InterfaceError
from runnel.session.python_function import sql_type
from runnel.sqltypes import SqlType, array, decimal, map_of, row


def _string_type(collation: str = "") -> SqlType:
    if collation:
        raise InterfaceError(
            "a text has no collation", hint="compare lower(x), or ORDER BY another column"
        )
    return sql_type("VARCHAR")


def _struct_type(fields: Mapping[str, Any] | Sequence[Any]) -> SqlType:
    named = (
        fields.items()
        if isinstance(fields, Mapping)
        else ((f"v{number}", item) for number, item in enumerate(fields, 1))
    )
    return row(*((name, sql_type(item)) for name, item in named))


TYPES: Mapping[str, Callable[..., SqlType]] = {
    "sqltype": sql_type,
    "dtype": sql_type,
    "type": sql_type,
    "string_type": _string_type,
    "list_type": lambda element: array(sql_type(element)),
    "map_type": lambda key, value: map_of(sql_type(key), sql_type(value)),
    "struct_type": _struct_type,
    "row_type": _struct_type,
    "decimal_type": decimal,
}
"""The function of each name."""
