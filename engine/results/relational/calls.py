"""The aggregates and window functions that are methods of relations."""

from __future__ import annotations

from typing import Any

from runnel.errors import InterfaceError

AGGREGATES = {
    **{
        name: name
        for name in (
            *("count", "sum", "avg", "min", "max", "median", "mode", "first", "last", "list"),
            *("product", "stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"),
            *("any_value", "string_agg", "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or"),
            *("arg_max", "arg_min", "quantile_cont", "quantile_disc", "histogram", "geomean"),
            *("favg", "fsum", "first_value", "last_value", "nth_value", "lag", "lead"),
        )
    },
    "mean": "avg",
    "std": "stddev",
    "var": "variance",
    "quantile": "quantile_disc",
}
"""The function in SQL of each method whose first argument is an expression."""

WINDOWS = {
    "row_number": "row_number",
    "rank": "rank",
    "dense_rank": "dense_rank",
    "rank_dense": "dense_rank",
    "percent_rank": "percent_rank",
    "cume_dist": "cume_dist",
    "n_tile": "ntile",
}
"""The function in SQL of each method whose first argument is the window."""

_SECOND = {
    "string_agg": ("sep", ","),
    "quantile": ("q", 0.5),
    "quantile_cont": ("q", 0.5),
    "quantile_disc": ("q", 0.5),
    "arg_max": ("value_column", None),
    "arg_min": ("value_column", None),
}
"""The name of the second argument of a method, and its value if it is left out."""

_SHIFTS = ("lag", "lead", "nth_value")
_OPTIONS = ("groups", "window_spec", "projected_columns")


def call_text(method: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[str, str]:
    """The select list with the call of a method, and the keys of GROUP BY ("": none)."""
    values = dict(options)
    names = [name for name in _names(method) if name not in values]
    if len(arguments) > len(names):
        raise InterfaceError(f"{method} has {len(arguments)} arguments, and accepts {len(names)}")
    values.update(zip(names, arguments, strict=False))
    unknown = [name for name in values if name not in _names(method)]
    if unknown:
        raise InterfaceError(f"{method} has no argument {unknown[0]!r}")
    groups, window, projected = (str(values.get(name) or "") for name in _OPTIONS)
    text = _call(method, values)
    if window:
        text += f" {window}" if window.lower().startswith("over") else f" OVER ({window})"
    return (f"{projected}, {text}" if projected else text), groups


def _names(method: str) -> tuple[str, ...]:
    """The names of a method's arguments, in order."""
    if method == "n_tile":
        return ("window_spec", "num_buckets", "projected_columns")
    if method in WINDOWS:
        return ("window_spec", "projected_columns")
    if method in ("lag", "lead"):
        return ("expression", "window_spec", "offset", "default_value", "projected_columns")
    if method == "nth_value":
        return ("expression", "window_spec", "offset", "projected_columns")
    if method in ("first_value", "last_value"):
        return ("expression", "window_spec", "projected_columns")
    second = _SECOND.get(method)
    return ("expression", *([second[0]] if second else []), *_OPTIONS)


def _call(method: str, values: dict[str, Any]) -> str:
    if method == "n_tile":
        return f"ntile({_whole(values.get('num_buckets', 1))})"
    if method in WINDOWS:
        return f"{WINDOWS[method]}()"
    items = [str(values.get("expression") or ("*" if method == "count" else ""))]
    if not items[0]:
        raise InterfaceError(f"{method} needs a column", hint=f"write {method}('a')")
    if method in _SHIFTS:
        items.append(_whole(values.get("offset", 1)))
        if values.get("default_value") not in (None, "NULL"):
            items.append(str(values["default_value"]))
    second = _SECOND.get(method)
    if second:
        items.append(_second(method, values.get(second[0], second[1])))
    return f"{AGGREGATES[method]}({', '.join(items)})"


def _second(method: str, value: Any) -> str:
    """The second argument of a call: a separator as a literal, numbers, or an expression."""
    if method == "string_agg":
        return "'" + str(value).replace("'", "''") + "'"
    if value is None:
        raise InterfaceError(f"{method} needs two columns", hint=f"write {method}('a', 'b')")
    return str(value)


def _whole(value: Any) -> str:
    if not isinstance(value, int):
        raise InterfaceError(f"a whole number is needed, not {value!r}")
    return str(value)
