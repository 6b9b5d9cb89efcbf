"""Set-returning functions of FROM: a call such as `json_each(t.j) AS e` becomes UNNEST of an array,
so that it is lateral, and has WITH ORDINALITY and LEFT JOIN, as UNNEST has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlglot import exp


class SetFunction(NamedTuple):
    """A set-returning function.

    array: the function that returns the elements as an ARRAY.
    columns: the names of its columns; (): one column with the name of the alias or the function.
    """

    array: str
    columns: tuple[str, ...] = ()


_KEYS_AND_VALUES = ("key", "value")
_BY_NAME = {
    "STRING_TO_TABLE": SetFunction("STRING_TO_ARRAY"),
    "REGEXP_SPLIT_TO_TABLE": SetFunction("REGEXP_SPLIT_TO_ARRAY"),
    "REGEXP_MATCHES": SetFunction("REGEXP_MATCH_ALL"),
    "GENERATE_SUBSCRIPTS": SetFunction("ARRAY_SUBSCRIPTS"),
    "PG_PARTITION_ANCESTORS": SetFunction("PG_PARTITION_ANCESTORS_ARRAY"),
    "JSON_OBJECT_KEYS": SetFunction("JSON_KEYS"),
    "JSON_ARRAY_ELEMENTS": SetFunction("JSON_ELEMENTS", ("value",)),
    "JSON_ARRAY_ELEMENTS_TEXT": SetFunction("JSON_ELEMENTS_TEXT", ("value",)),
    "JSONB_PATH_QUERY": SetFunction("JSON_FOUND"),
    "JSON_EACH": SetFunction("JSON_ENTRIES", _KEYS_AND_VALUES),
    "JSON_EACH_TEXT": SetFunction("JSON_ENTRIES_TEXT", _KEYS_AND_VALUES),
}
SET_FUNCTIONS = {
    **_BY_NAME,
    **{
        f"JSONB{name.removeprefix('JSON')}": item
        for name, item in _BY_NAME.items()
        if name.startswith("JSON_")
    },
}
"""The functions, by name in upper case."""


OWN_COLUMNS = "own columns"
"""The key in `meta` of an exp.Unnest whose columns have the names of a set-returning function: the
name of its table is its value, if it has one column."""


def as_unnest(call: Any) -> None:
    """Replaces an item of FROM that is a call of a set-returning function by exp.Unnest; does
    nothing to any other call.

    call: an exp.Anonymous under an exp.Table or an exp.Lateral.
    """
    found = SET_FUNCTIONS.get(call.name.upper())
    if found is None:
        return
    holder = call.parent
    arguments = call.expressions
    if found.columns == _KEYS_AND_VALUES and len(arguments) == 2:
        # JSON_EACH(j, path) has the members of the value at the path.
        arguments = [exp.Anonymous(this="JSON_EXTRACT", expressions=arguments)]
    inner = exp.Anonymous(this=found.array, expressions=arguments)
    inner.meta.update(call.meta)
    unnest = exp.Unnest(expressions=[inner], offset=bool(holder.args.get("ordinality")))
    unnest.meta[OWN_COLUMNS] = True
    alias = _alias(holder.args.get("alias"), call.name.lower(), found.columns)
    if isinstance(holder, exp.Lateral):
        holder.set("this", unnest)
        holder.set("alias", alias)
        holder.set("ordinality", None)
        return
    for key, value in holder.args.items():
        if key not in ("this", "alias", "ordinality"):
            unnest.set(key, value)
    unnest.set("alias", alias)
    holder.replace(unnest)


def _alias(alias: Any, name: str, columns: Sequence[str]) -> Any:
    """The alias with a name for each column."""
    if alias is None:
        alias = exp.TableAlias()
    if alias.args.get("this") is None:
        alias.set("this", exp.to_identifier(name))
    written = list(alias.args.get("columns") or [])
    added = [exp.to_identifier(column) for column in columns[len(written) :]]
    alias.set("columns", [*written, *added])
    return alias


__all__ = ["OWN_COLUMNS", "SET_FUNCTIONS", "as_unnest"]
