"""Expansion of the macros that CREATE MACRO defines: a call becomes the body of the macro, with
copies of the argument trees in the place of the parameters. Loaded on first use.

Names mean what they mean where they are written. A column of an argument has the level of the
call's scope and the number of its lambda parameters in its meta (CALLER): it is looked up there,
although the argument may stand in a subquery or a lambda function of the body. A column of the body
has that level, too (BELOW): it is looked up only in the queries of the body. A call in a body has
the macros around it in its meta (INSIDE), so that a macro that leads back to itself is found, while
an argument may call the same macro again. Calls in the bodies of built-in macros have BUILT_IN
there: no macro of the user changes what these functions mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlglot import exp

from runnel.catalog import NamedText
from runnel.errors import DatabaseError, NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.macros import MacroForm, MacroParameter, forms_of
from runnel.planner.parse.query.allow_list import function_call
from runnel.planner.parse.query.query import parse_expression
from runnel.planner.parse.tokens import tokenize

CALLER = "caller"
BELOW = "below"
INSIDE = "macros"
BUILT_IN = ("",)
"""The value of INSIDE in the body of a built-in macro."""

_POSITIONS = ("start", "end", "line", "col")


def inside(call: Any) -> tuple[str, ...]:
    """The macros whose bodies contain a call, from the outermost one."""
    return call.meta_get(INSIDE) or ()


def body_of(
    macro: NamedText,
    call: Any,
    caller: tuple[int, int],
    position: Position | None,
    *,
    is_in_text: bool = False,
) -> Any:
    """The body of a macro for a call.

    caller: the level of the scope of the call, and the number of lambda parameters in it.
    position: of the call.
    is_in_text: whether the positions of the result are the ones of the macro's text; False: they
        are positions of the statement, and all nodes of the body have the one of the call.
    """
    around = inside(call)
    key = f"{macro.kind} {macro.name.lower()}"
    if key in around:
        raise ProgrammingError(
            f'macro "{macro.name}" refers to itself',
            hint="drop it and create it again; a query can be recursive: WITH RECURSIVE",
            position=position,
        )
    _, arguments = function_call(call) or ("", [])
    form, trees = _matched(macro, arguments, position)
    root = exp.Paren(this=form.body.copy())
    for node in root.find_all(exp.Anonymous):
        node.meta[INSIDE] = (*around, key)
    for column in root.find_all(exp.Column):
        column.meta[BELOW] = caller[0]
    trees = {name: marked(tree, caller) for name, tree in trees.items()}
    if is_in_text:
        trees = {name: without_positions(tree) for name, tree in trees.items()}
    else:
        _with_position(root, position)
    _substitute(macro, root, trees, position)
    return root


def _with_position(tree: Any, position: Position | None) -> None:
    """Sets the position of all nodes to the one of a call."""
    for node in without_positions(tree).walk():
        if position is not None:
            node.meta["start"] = position.offset
            node.meta["end"] = position.offset + position.length - 1


def without_positions(tree: Any) -> Any:
    """The tree, whose nodes have no positions afterwards."""
    for node in tree.walk():
        for key in _POSITIONS:
            node.meta.pop(key, None)
    return tree


def _matched(
    macro: NamedText, arguments: list[Any], position: Position | None
) -> tuple[MacroForm, Mapping[str, Any]]:
    """The form of the macro that fits the arguments, and a tree for each of its parameters, by name
    in lower case."""
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for item in arguments:
        _check_plain(macro, item, position)
        if isinstance(item, (exp.Kwarg, exp.PropertyEQ)):
            name = item.this.name.lower()
            if name in named:
                raise ProgrammingError(f'argument "{name}" is given twice', position=position)
            named[name] = item.expression
        elif named:
            raise ProgrammingError(
                "a named argument can't be followed by one without a name", position=position
            )
        else:
            positional.append(item)
    forms = forms_of(macro.text)
    for form in forms:
        found = _assigned(form, positional, named)
        if found is not None:
            return form, found
    shown = " or ".join(f"{macro.name}({_listed(form)})" for form in forms)
    raise ProgrammingError(
        f'the arguments do not fit macro "{macro.name}"',
        hint=f"call it as {shown}",
        position=position,
    )


def _check_plain(macro: NamedText, item: Any, position: Position | None) -> None:
    inner = item.this if isinstance(item, exp.Order) else item
    what = "DISTINCT" if isinstance(inner, exp.Distinct) else None
    what = "ORDER BY" if inner is not item else what
    what = "*" if isinstance(item, exp.Star) else what
    if what is not None:
        raise NotSupportedError(
            f'{what} is not supported in a call of macro "{macro.name}"',
            hint="write it in the body of the macro",
            position=position,
        )


def _assigned(
    form: MacroForm, positional: list[Any], named: Mapping[str, Any]
) -> Mapping[str, Any] | None:
    """A tree for each parameter; None if the arguments do not fit."""
    if len(positional) > len(form.parameters):
        return None
    trees = dict(named)
    for parameter, tree in zip(form.parameters, positional, strict=False):
        name = parameter.name.text.lower()
        if name in trees:
            return None
        trees[name] = tree
    found = {}
    for parameter in form.parameters:
        tree = trees.pop(parameter.name.text.lower(), parameter.default)
        if tree is None:
            return None
        found[parameter.name.text.lower()] = _typed(parameter, tree)
    return None if trees else found


def _typed(parameter: MacroParameter, tree: Any) -> Any:
    if parameter.type is None:
        return tree
    text = f"CAST(NULL AS {parameter.type})"
    cast = without_positions(parse_expression(tokenize(text), text, {}, Position.at(text, 0)))
    cast.set("this", exp.Paren(this=tree.copy()))
    return cast


def _listed(form: MacroForm) -> str:
    return ", ".join(
        item.name.text if item.default is None else f"{item.name.text} := …"
        for item in form.parameters
    )


def marked(tree: Any, caller: tuple[int, int]) -> Any:
    """A copy of an argument whose columns are looked up in the scope of the call."""
    root = exp.Paren(this=tree.copy())
    for node in root.find_all(exp.Column, exp.Identifier):
        if node.meta_get(CALLER) is None and not _is_bound_inside(node):
            node.meta[CALLER] = caller
    return root


def _is_bound_inside(node: Any) -> bool:
    """Whether a name refers to a lambda parameter of the argument itself, or may refer to a column
    of a subquery in it."""
    outer = node.parent
    while outer is not None:
        if isinstance(outer, exp.Query):
            return True
        if isinstance(outer, (exp.Lambda, exp.Comprehension)) and node.name.lower() in _bound_by(
            outer
        ):
            return True
        outer = outer.parent
    return False


def _bound_by(tree: Any) -> list[str]:
    """The names of the parameters of a lambda function or a list comprehension, in lower case."""
    if isinstance(tree, exp.Lambda):
        return [item.name.lower() for item in tree.expressions]
    names = [tree.args.get("expression"), tree.args.get("position")]
    return [item.name.lower() for item in names if item is not None]


def _substitute(
    macro: NamedText, root: Any, trees: Mapping[str, Any], position: Position | None
) -> None:
    for column in list(root.find_all(exp.Column)):
        name, owner = column.name.lower(), column.table.lower()
        key = owner if owner in trees and not column.args.get("db") else name
        tree = trees.get(key)
        if tree is None or (owner and key != owner) or _is_hidden(column, key, bool(owner)):
            continue
        if tree.find(exp.Query) is not None and _is_in_query(column):
            raise NotSupportedError(
                f'a subquery as an argument of macro "{macro.name}", which reads it in a query of '
                "its own, is not supported",
                hint="compute the value first, in a common table or a variable",
                position=position,
            )
        value: Any = exp.Paren(this=tree.copy())
        for meta in _POSITIONS:
            if column.meta_get(meta) is not None:
                value.meta[meta] = column.meta_get(meta)
        if owner:
            value = exp.Dot(this=value, expression=column.this.copy())
        column.replace(value)


def _is_hidden(column: Any, name: str, is_owner: bool) -> bool:
    """Whether a parameter of a list comprehension of the body, or a table of that name around a
    qualified column, hides the parameter of the macro."""
    outer = column.parent
    while outer is not None:
        if isinstance(outer, exp.Comprehension) and name in _bound_by(outer):
            return True
        if is_owner and isinstance(outer, exp.Query):
            tables = outer.find_all(exp.Table, exp.Subquery, exp.CTE)
            if any(table.alias_or_name.lower() == name for table in tables):
                return True
        outer = outer.parent
    return False


def _is_in_query(column: Any) -> bool:
    return column.find_ancestor(exp.Query) is not None


@contextmanager
def within(
    macro: NamedText, position: Position | None, *, is_in_text: bool = False
) -> Iterator[None]:
    """Names the macro in the errors of an expansion, which point at the call; if not `is_in_text`,
    an error in an argument points at the argument."""
    try:
        yield
    except DatabaseError as error:
        error.position = position if is_in_text else error.position or position
        where = f'in macro "{macro.name}"'
        if where not in (error.detail or ""):
            error.detail = f"{where}; {error.detail}" if error.detail else where
        raise
