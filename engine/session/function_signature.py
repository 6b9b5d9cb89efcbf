"""The types and options of a Python function, also from its annotations and in DuckDB's words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import NoneType, UnionType
from typing import Any, TypedDict, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from runnel.errors import InterfaceError, NotSupportedError, suggest
from runnel.session.python_function import FunctionOptions


class DuckDBOptions(TypedDict, total=False):
    """Options of `create_function` with DuckDB's names.

    parameters: `parameter_types`.
    type: "native", the function accepts Python values, or "arrow".
    null_handling: "default" is nulls="skip", "special" is nulls="pass".
    exception_handling: "default", or "return_null": the value of a row is NULL if the function
        raised an exception for it; only for a function over Python values.
    side_effects: the function is not deterministic.
    """

    parameters: Sequence[Any] | None
    type: str | None
    null_handling: str | None
    exception_handling: str | None
    side_effects: bool


_Signature = tuple[Sequence[Any], Any, FunctionOptions]


def signature_of(
    function: Callable[..., Any],
    types: Sequence[Any] | None,
    result: Any,
    options: FunctionOptions,
    duckdb: Mapping[str, Any],
) -> _Signature:
    """The types of the parameters and of the result, and the options, all of them decided."""
    unknown = [name for name in duckdb if name not in DuckDBOptions.__annotations__]
    if unknown:
        raise InterfaceError(
            f"create_function has no argument {unknown[0]!r}",
            hint=suggest(unknown[0], (*DuckDBOptions.__annotations__, "scalar", "nulls")),
        )
    if types is None:
        types = duckdb.get("parameters")
    found = _annotations(function) if callable(function) else {}
    hints = {name: _without_none(hint) for name, hint in found.items()}
    if types is None and callable(function):
        types = [_annotated(hints, name) for name in _parameters(function)]
    if result is None and callable(function):
        result = _annotated(hints, "return")
    kind = _word(duckdb.get("type"))
    scalar = options.scalar
    if scalar is None:
        takes_arrays = any(map(_is_array, hints.values()))
        scalar = {"native": True, "arrow": False, "": not takes_arrays}.get(kind)
    if scalar is None:
        raise InterfaceError(f"type must be 'native' or 'arrow', not {duckdb['type']!r}")
    has_none = any(hints[name] is not hint for name, hint in found.items() if name != "return")
    is_annotated = any(map(_is_python, hints.values()))
    skips = scalar and not has_none and (options.scalar is None or is_annotated)
    nulls = options.nulls or _nulls(duckdb, "skip" if skips else "pass")
    decided = replace(
        options,
        scalar=scalar,
        nulls=nulls,
        deterministic=options.deterministic and not duckdb.get("side_effects"),
        returns_null=_returns_null(duckdb, is_scalar=scalar),
    )
    return types or [], result, decided


def _returns_null(duckdb: Mapping[str, Any], *, is_scalar: bool) -> bool:
    """Whether an exception in the function makes the value of its row NULL."""
    word = _word(duckdb.get("exception_handling"))
    if word not in ("", "default", "return_null"):
        raise InterfaceError(
            "exception_handling must be 'default' or 'return_null', not "
            f"{duckdb['exception_handling']!r}"
        )
    if word == "return_null" and not is_scalar:
        raise NotSupportedError(
            "exception_handling='return_null' is for functions over Python values",
            hint="a function over arrays doesn't know the row that failed: catch the exception in "
            "the function, or leave out type='arrow'",
        )
    return word == "return_null"


def _nulls(duckdb: Mapping[str, Any], default: str) -> str:
    word = _word(duckdb.get("null_handling"))
    found = {"": default, "default": "skip", "special": "pass"}.get(word)
    if found is None:
        raise InterfaceError(
            f"null_handling must be 'default' or 'special', not {duckdb['null_handling']!r}"
        )
    return found


def _word(option: Any) -> str:
    """An option in lower case; the name of a member of DuckDB's enumerations."""
    return "" if option is None else str(option).rpartition(".")[2].lower()


def _annotations(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function; {} if they name what is not defined."""
    try:
        return get_type_hints(function)
    except (NameError, TypeError, AttributeError):
        return {}


def _parameters(function: Callable[..., Any]) -> list[str]:
    """The names of the parameters that are passed by position and have no default."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise _no_type("a parameter") from None
    several = [p.name for p in signature.parameters.values() if p.kind == p.VAR_POSITIONAL]
    if several:
        raise InterfaceError(
            f'the number of parameters "*{several[0]}" of the function is not known',
            hint="pass a type for each: parameter_types=['BIGINT', 'BIGINT']",
        )
    return [
        item.name
        for item in signature.parameters.values()
        if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)
        and item.default is item.empty
    ]


def _annotated(hints: Mapping[str, Any], name: str) -> Any:
    if name not in hints or not _is_python(hints[name]):
        raise _no_type("the result" if name == "return" else f'parameter "{name}"')
    return hints[name]


def _no_type(subject: str) -> InterfaceError:
    return InterfaceError(
        f"the type of {subject} of the function is not known",
        hint="pass parameter_types=['BIGINT'] and return_type='BIGINT', or annotate the function: "
        "def f(x: int) -> int",
    )


def _is_python(hint: Any) -> bool:
    """Whether an annotation is a class of single values."""
    if get_origin(hint) is list:
        return True
    return isinstance(hint, type) and not _is_array(hint) and hint.__module__ in _MODULES


def _is_array(hint: Any) -> bool:
    """Whether an annotation is a class of arrays: of Arrow, NumPy or a data frame library."""
    if get_origin(hint) is not None and get_origin(hint) is not list:
        hint = get_origin(hint)
    return isinstance(hint, type) and (
        issubclass(hint, pa.Array | pa.ChunkedArray)
        or (hint.__name__, hint.__module__.partition(".")[0]) in _ARRAYS
    )


_ARRAYS = (("ndarray", "numpy"), ("Series", "pandas"), ("Series", "polars"))
_MODULES = ("builtins", "datetime", "decimal")


def _without_none(hint: Any) -> Any:
    """X of `X | None`; another annotation as it is."""
    if get_origin(hint) in (Union, UnionType):
        others = [item for item in get_args(hint) if item is not NoneType]
        return others[0] if len(others) == 1 else hint
    return hint
