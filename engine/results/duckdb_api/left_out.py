"""The names of DuckDB's module that this module does not have, with their remedies. Loaded when a
name is not found."""

from __future__ import annotations

from collections.abc import Mapping

from runnel.results.calls import REMEDIES

_OF_FRAMES = frozenset("aggregate alias distinct filter limit order project write_csv".split())
_WINDOWS = frozenset(
    "dense_rank first_value lag last_value lead ntile rank row_number".split(),
)

_NAMES: Mapping[str, str] = {
    "Appender": "runnel.append('t', frame)",
    "CSVLineTerminator": "the text '\\\\n' or '\\\\r\\\\n'",
    "DBAPITypeObject": "runnel.NUMBER, STRING, DATETIME and BINARY",
    "DefaultExpression": "DEFAULT in an INSERT",
    "DuckDBPyConnection": "runnel.Connection",
    "DuckDBPyRelation": "runnel.Cursor",
    "ExplainType": "the text 'analyze'",
    "FatalException": "runnel.InternalError",
    "HTTPException": "runnel.IOException",
    "InvalidTypeException": "runnel.BinderException",
    "PythonExceptionHandling": "the text 'return_null'",
    "ResourceInUseException": "runnel.OperationalError",
    "SequenceException": "runnel.DataError",
    "SerializationException": "runnel.IOException",
    "TypeMismatchException": "runnel.BinderException",
    "Value": "a Python value: arguments have the types of their values",
    "count_all": "runnel.FunctionExpression('count', runnel.star())",
    "fn": "runnel.FunctionExpression(name, …)",
    "query_df": "runnel.sql('FROM frame'), by the name of the variable",
    "set_default_connection": "the connection: con.sql(query)",
    "tokenize": "runnel.extract_statements(text)",
    "value": "runnel.lit(value)",
    "version": "runnel.__version__",
    "when": "runnel.CaseExpression(condition, value)",
}


def remedy(name: str) -> str:
    """The words to add to the error for a name of the module; "" if DuckDB does not have it."""
    found = _NAMES.get(name) or REMEDIES.get(name, "").replace("con.", "runnel.")
    if name in _OF_FRAMES:
        found = f"runnel.from_df(frame).{name}(…)"
    elif name in _WINDOWS:
        found = f"runnel.SQLExpression('{name}() OVER (ORDER BY a)')"
    elif name.endswith("Value"):
        found = _NAMES["Value"]
    return f"; write {found}" if found else ""
