"""The relational node classes, and which of them a table or a function dispatches on."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from runnel.planner.operators import passes
from runnel.planner.operators import unnest as unnest_home
from runnel.planner.operators.passes import Pass
from runnel.planner.physical import nodes as physical
from runnel.planner.physical import stream_nodes
from runnel.relation import nodes as logical
from runnel.relation import unnest
from tests.product_modules import defines, file_of, members, modules

ABSTRACT = frozenset(
    {
        logical.Single,
        logical.Pair,
        physical.SingleInput,
        physical.TwoInputs,
        stream_nodes.PhysicalStreamJoin,
        unnest.PerElement,
        unnest_home.PhysicalPerElement,
    }
)
"""Bases that no plan contains."""

PACKAGES = ("planner", "relation", "rendering", "foreign", "connectors.duckdb", "connectors.spark")
"""The packages that dispatch on nodes."""


class Dispatch(NamedTuple):
    """A table or function that distinguishes nodes: `file::name`, and its value."""

    name: str
    value: Any


def subclasses(base: type) -> frozenset[type]:
    """All classes of the product below `base`, without abstract bases."""
    found = [item for item in base.__subclasses__() if item.__module__.startswith("runnel.")]
    return frozenset(found).union(*map(subclasses, found)) - ABSTRACT


def is_node(value: object) -> bool:
    """Whether a value is a node class, or the base of some joins of streams."""
    return isinstance(value, type) and (
        value is stream_nodes.PhysicalStreamJoin or value in _nodes()
    )


@cache
def _nodes() -> frozenset[type]:
    modules(*PACKAGES)  # a class exists once its module is loaded
    return subclasses(logical.Relation) | subclasses(physical.Physical)


def classes_in(value: Any) -> frozenset[type]:
    """The node classes that a table has as keys or members, or that a function tests for by
    `isinstance` or `case`; these with their subclasses."""
    if isinstance(value, Pass):
        _nodes()  # homes and passes register when they are loaded
        return frozenset(value.rules) | frozenset(value.defaulted)
    if isinstance(value, FunctionType):
        found = tested_in(value)
        return found.union(*map(subclasses, found)) - ABSTRACT
    if isinstance(value, Mapping | tuple | frozenset | set):
        return frozenset(item for item in value if is_node(item))
    return frozenset()


def tested_in(function: FunctionType) -> frozenset[type]:
    """The node classes that a function tests for, as it names them."""
    # Reading the source is slow: most functions name no node at all.
    named = {name for code in _codes(function.__code__) for name in code.co_names}
    scopes = [function.__globals__]
    scopes += [vars(item) for item in map(scopes[0].get, named) if isinstance(item, ModuleType)]
    if not any(_is_tested(scope.get(name)) for scope in scopes for name in named):
        return frozenset()
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    return frozenset(
        item
        for tested in _tests(tree)
        for part in ast.walk(tested)
        if isinstance(part, ast.Name | ast.Attribute)
        for item in _nodes_of(_value(part, function.__globals__))
    )


def _codes(code: Any) -> Iterator[Any]:
    """The code of a function and of the functions within it."""
    yield code
    for item in code.co_consts:
        if hasattr(item, "co_names"):
            yield from _codes(item)


def _is_tested(value: object) -> bool:
    return is_node(value) or (isinstance(value, tuple) and any(map(is_node, value)))


def _tests(tree: ast.AST) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.MatchClass):
            yield node.cls
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
            yield node.args[1]


def _value(part: ast.Name | ast.Attribute, scope: dict[str, Any]) -> Any:
    if isinstance(part, ast.Name):
        return scope.get(part.id)
    if isinstance(part.value, ast.Name | ast.Attribute):
        return getattr(_value(part.value, scope), part.attr, None)
    return None


def _nodes_of(value: Any) -> tuple[type, ...]:
    if isinstance(value, tuple):
        return tuple(item for item in value if is_node(item))
    return (value,) if is_node(value) else ()


def dispatches() -> list[Dispatch]:
    """The tables of two node classes or more, and the functions that test for at least four."""
    found = []
    for module in modules(*PACKAGES):
        for name, value in members(module):
            is_function = isinstance(value, FunctionType)
            if isinstance(value, Pass) and module is not passes:
                continue  # a home, which registers in it
            classes = tested_in(value) if is_function else classes_in(value)
            if len(classes) >= (4 if is_function else 2) and defines(module, name):
                found.append(Dispatch(f"{file_of(module)}::{name}", value))
    return found
