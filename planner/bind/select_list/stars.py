"""Binding of * and t.*, with EXCLUDE, REPLACE, RENAME and LIKE, and of COLUMNS(…).

COLUMNS stands for several columns in one expression: the expression is bound once for each of
them. In a copy of the tree, an exp.PositionalColumn, whose `this` is a bound expression, replaces
the call. (The parser refuses this class, so that it has no other meaning in a tree.)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.errors import DatabaseError, NotSupportedError, Position, ProgrammingError, suggest
from runnel.expressions import build
from runnel.expressions.evaluate import evaluate_constant, is_constant
from runnel.expressions.nodes import Expression, Literal, stored_name
from runnel.planner.bind.select_parts import Item
from runnel.planner.parse.query.allow_list import position_of
from runnel.sqltypes import BOOLEAN, VARCHAR

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder
    from runnel.planner.bind.scope import Scope

Bind = Callable[[Any], Expression]
_CALLS = ("COLUMNS", "*COLUMNS")
_MATCHES = (exp.Like, exp.ILike, exp.SimilarTo)


class StarColumns:
    """The columns that * and COLUMNS stand for in one SELECT.

    scope: the names of FROM.
    bind: binds an expression of the clause.
    query: the binder of the query.
    """

    def __init__(self, scope: Scope, bind: Bind, query: StatementBinder) -> None:
        self._scope = scope
        self._bind = bind
        self._query = query
        self._sql = query.sql

    def _at(self, tree: Any) -> Position | None:
        return position_of(tree, self._sql)

    def of_star(self, tree: Any) -> list[Item]:
        """The columns of `*` or `t.*`, with its EXCLUDE, REPLACE and RENAME."""
        scope, table = self._scope, None
        if isinstance(tree, exp.Column):
            table = tree.table or None
            if schema := tree.text("db"):
                catalog, names_own = tree.text("catalog"), self._query.snapshot.names_own
                scope = scope.of_schema(catalog, schema, self._at(tree), names_own)
            elif table is not None and (fields := self._fields(tree, table)):
                return self._chosen(tree.find(exp.Star), fields, [None] * len(fields))
        shown = scope.star(table, self._at(tree))
        found = [Item(c.expression(self._at(tree)), c.name, None) for c in shown]
        owners = [c.qualifier for c in shown]
        return self._chosen(tree.find(exp.Star), found, owners)

    def _fields(self, tree: Any, name: str) -> list[Item]:
        """The fields of the ROW in the column `name`; [] if a table has that name, or none of it
        is a ROW."""
        lower = name.lower()
        if any((column.qualifier or "").lower() == lower for column in self._scope.columns):
            return []
        if not any(column.name.lower() == lower for column in self._scope.columns):
            return []
        column = tree.args["table"]
        value = self._bind(exp.Column(this=column.copy()))
        return [
            Item(
                self._bind(
                    exp.Column(this=exp.to_identifier(field, quoted=True), table=column.copy())
                ),
                field,
                None,
            )
            for field, _ in value.type.fields
        ]

    def filtered(self, tree: Any) -> list[Item]:
        """The columns of `* LIKE '…'`, `* ILIKE` and `* SIMILAR TO`: the pattern selects names."""
        matching = tree.this if isinstance(tree, exp.Not) else tree
        found = self.of_star(matching.this)
        chosen = [item for item in found if self._is_true(tree, matching.this, item.name)]
        return self._some(chosen, found, tree)

    def expanded(self, tree: Any) -> list[tuple[Any, str]]:
        """For each column that the COLUMNS of `tree` stands for, a copy of the tree and the name
        of the column."""
        inner = tree.this if isinstance(tree, exp.Alias) else tree
        first = next(calls_of_columns(inner))
        for other in calls_of_columns(inner):
            if other.expressions != first.expressions:
                raise NotSupportedError(
                    "an expression with two different COLUMNS is not supported",
                    hint="write COLUMNS once, or list the columns",
                    position=self._at(other),
                )
        items = self._listed(first)
        lists = [call for call in calls_of_columns(inner) if _is_list(call)]
        if lists and len(lists) == sum(1 for _ in calls_of_columns(inner)):
            return [(_with_columns(inner, [item.expression for item in items]), "")]
        return [(_with_columns(inner, [item.expression]), item.name) for item in items]

    def alias(self, tree: Any, column: str) -> str | None:
        """The alias of one column of COLUMNS: \\0 in it is the column's name, \\1 the first group
        of the pattern."""
        if not isinstance(tree, exp.Alias):
            return None
        pattern = next(calls_of_columns(tree.this)).expressions[0]
        if "\\" not in tree.alias:
            return str(tree.alias)
        is_pattern = isinstance(pattern, exp.Literal)
        match = re.search(pattern.this if is_pattern else ".*", column)
        if match is None:
            return str(tree.alias)
        groups = [column, *(text or "" for text in match.groups())]

        def group(found: re.Match[str]) -> str:
            number = int(found[1])
            if number >= len(groups):
                raise ProgrammingError(
                    f"\\{number} is not a group of the pattern of COLUMNS",
                    detail=f"number of groups in parentheses: {len(groups) - 1}",
                    position=self._at(tree.args["alias"]),
                )
            return groups[number]

        return re.sub(r"\\(\d)", group, tree.alias)

    def _listed(self, call: Any) -> list[Item]:
        """The columns that the argument of COLUMNS selects."""
        if len(call.expressions) != 1:
            raise ProgrammingError(
                "COLUMNS has one argument", hint=_ARGUMENTS, position=self._at(call)
            )
        argument = call.expressions[0]
        if isinstance(argument, exp.Star) or (
            isinstance(argument, exp.Column) and isinstance(argument.this, exp.Star)
        ):
            return self.of_star(argument)
        if isinstance(argument, _MATCHES):
            return self.filtered(argument)
        found = self.of_star(exp.Star())
        if isinstance(argument, exp.Literal) and argument.is_string:
            return self._matching(argument, found, call)
        if isinstance(argument, exp.Array):
            indexes = {self._index(item, item.name, found) for item in argument.expressions}
            return [found[index] for index in sorted(indexes)]
        if isinstance(argument, exp.Lambda) and len(argument.expressions) == 1:
            parameter = argument.expressions[0]
            chosen = [item for item in found if self._is_true(argument.this, parameter, item.name)]
            return self._some(chosen, found, call)
        raise ProgrammingError(
            "the argument of COLUMNS must select columns by their names",
            hint=_ARGUMENTS,
            position=self._at(argument) or self._at(call),
        )

    def _matching(self, pattern: Any, found: list[Item], call: Any) -> list[Item]:
        """The columns in whose names the regular expression finds a match."""
        chosen = []
        for item in found:
            operands: list[Expression] = [_text(item.name), _text(pattern.this)]
            matched = build.call("regexp_like", operands, self._at(pattern))
            if self._constant(matched, pattern):
                chosen.append(item)
        return self._some(chosen, found, call)

    def _some(self, chosen: list[Item], found: list[Item], tree: Any) -> list[Item]:
        if chosen:
            return chosen
        raise ProgrammingError(
            "no column has such a name",
            hint=f"the columns are: {', '.join(item.name for item in found[:20])}",
            position=self._at(tree),
        )

    def _is_true(self, condition: Any, name: Any, column: str) -> bool:
        """The value of a condition in which the name of a column replaces the node `name`."""
        text = name.name.lower() if isinstance(name, exp.Identifier) else None

        def replaced(node: Any) -> Any:
            is_name = (
                node is name
                if text is None
                else isinstance(node, exp.Identifier)
                and not isinstance(node.parent, exp.Column)
                and node.name.lower() == text
            ) or (
                text is not None
                and isinstance(node, exp.Column)
                and not node.table
                and node.name.lower() == text
            )
            return exp.Literal.string(column) if is_name else node

        return self._constant(self._bind(_transformed(condition, replaced)), condition)

    def _constant(self, condition: Expression, tree: Any) -> bool:
        if condition.type != BOOLEAN or not is_constant(condition):
            raise ProgrammingError(
                "the condition for the names of columns must be a BOOLEAN without columns",
                hint=_ARGUMENTS,
                position=self._at(tree),
            )
        try:
            return bool(evaluate_constant(condition))
        except DatabaseError as error:
            error.position = error.position or self._at(tree)
            raise

    def _chosen(self, star: Any, found: list[Item], owners: list[str | None]) -> list[Item]:
        """The columns of a * without the EXCLUDE columns, with the expressions of REPLACE and the
        names of RENAME."""
        excluded, replaced, renamed = (
            {
                self._index(name, name.name, found, owners, getattr(name, "table", "")): item
                for item, name in _named(star, key)
            }
            for key in ("except_", "replace", "rename")
        )
        for one, other, words in (
            (excluded, replaced, "excluded and replaced"),
            (excluded, renamed, "excluded and renamed"),
            (replaced, renamed, "replaced and renamed"),
        ):
            both = one.keys() & other.keys()
            if both:
                number = both.pop()
                raise ProgrammingError(
                    f'column "{found[number].name}" is both {words}',
                    position=self._at(other[number]),
                )
        items = []
        for number, item in enumerate(found):
            if number in replaced:
                bound = self._bind(replaced[number].this)
                items.append(replace(item, expression=bound, alias=item.name))
            elif number in renamed:
                alias = renamed[number].alias
                items.append(replace(item, name=alias, alias=alias))
            elif number not in excluded:
                items.append(item)
        return items

    def _index(
        self,
        tree: Any,
        name: str,
        found: list[Item],
        owners: list[str | None] | None = None,
        table: str = "",
    ) -> int:
        """The number of the * column that EXCLUDE, REPLACE, RENAME or COLUMNS names."""
        lower = name.lower()
        matching = [
            i
            for i, item in enumerate(found)
            if lower in (item.name.lower(), stored_name(item.name).lower())
        ]
        if table and owners is not None:
            matching = [i for i in matching if (owners[i] or table).lower() == table.lower()]
        if len(matching) == 1:
            return matching[0]
        names = [item.name for item in found]
        problem = "is ambiguous" if matching else "is not one of *"
        raise ProgrammingError(
            f'column "{name}" {problem}',
            hint="write the table's name before the *" if matching else suggest(name, names),
            position=self._at(tree),
        )


_ARGUMENTS = (
    "write COLUMNS(*), COLUMNS('regular expression'), COLUMNS(['a', 'b']) or "
    "COLUMNS(lambda c: c LIKE 'a%')"
)


def calls_of_columns(tree: Any) -> Iterator[Any]:
    """The calls of COLUMNS in an expression, without its subqueries."""
    for node in tree.walk(prune=lambda node: isinstance(node, exp.Query)):
        if isinstance(node, exp.Anonymous) and node.name.upper() in _CALLS:
            yield node


def is_filtered_star(tree: Any) -> bool:
    """Whether an item of a select list is `* LIKE '…'` or a similar filter of *."""
    matching = tree.this if isinstance(tree, exp.Not) else tree
    if not isinstance(matching, _MATCHES):
        return False
    star = matching.this
    return isinstance(star.this if isinstance(star, exp.Column) else star, exp.Star)


def _named(star: Any, key: str) -> Iterator[tuple[Any, Any]]:
    """The elements of EXCLUDE, REPLACE or RENAME, each with the node of its column's name."""
    for item in star.args.get(key) or ():
        name = item
        if key != "except_":
            name = item.args["alias"] if key == "replace" else item.this
        yield item, name


def _is_list(call: Any) -> bool:
    """Whether the columns are arguments of one call, as in f(*COLUMNS('…'))."""
    return bool(call.name.upper() == "*COLUMNS" and isinstance(call.parent, exp.Anonymous))


def _text(value: str) -> Expression:
    return Literal(value=value, type=VARCHAR)


def _transformed(tree: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a tree in which `change` was applied to each node; `change` gets the original."""
    originals = list(tree.walk())
    copy = tree.copy()
    for original, node in zip(originals, list(copy.walk()), strict=True):
        new = change(original)
        if new is not original:
            if node is copy:
                return new
            node.replace(new)
    return copy


def _with_columns(tree: Any, columns: list[Expression]) -> Any:
    """A copy of a tree with bound columns in the positions of COLUMNS."""
    copy = tree.copy()
    for call in list(calls_of_columns(copy)):
        nodes = [exp.PositionalColumn(this=column) for column in columns]
        if call is copy:
            return nodes[0]
        if call.index is not None:
            siblings = call.parent.args[call.arg_key]
            siblings[call.index : call.index + 1] = nodes
            call.parent.set(call.arg_key, siblings)
        else:
            call.replace(nodes[0])
    return copy
