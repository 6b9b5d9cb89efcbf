"""Name resolution: the names that are visible in an expression, and the columns they refer to.

A scope lists the columns of the FROM clause in the order of `*`. Names match without regard to
case. A name that is not found is looked up in the enclosing query (a correlated subquery), then in
the query around that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from runnel.base.frozen import frozen
from runnel.base.schemas import (
    CATALOG,
    INFORMATION_SCHEMA,
    ONLY_SCHEMAS,
    OWN_CATALOGS,
    PUBLIC,
    is_within,
)
from runnel.errors import (
    AmbiguousColumn,
    NotSupportedError,
    Position,
    ProgrammingError,
    UndefinedColumn,
    suggest,
)
from runnel.expressions.nodes import STORED, Column, Expression, LambdaVariable, stored_name
from runnel.relation.nodes import Field, Relation
from runnel.relation.subqueries import OuterColumn, WorkingTable
from runnel.sqltypes import Kind, SqlType

if TYPE_CHECKING:
    from runnel.planner.bind.select_parts import Collector

_WINDOWS_HINT = (
    "the table of the window has windows itself: give their columns other names, as in "
    "TABLE(TUMBLE((SELECT window_time AS ts, n FROM …), DESCRIPTOR(ts), …))"
)


class Aliases(Protocol):
    """The aliases of a select list (`select_list/aliases.py`), for the expressions that may refer
    to them.

    limit: only items with a smaller number can be referred to.
    rows_only: whether expressions with aggregates and window functions can't be referred to.
    """

    limit: int
    rows_only: bool

    def bound(
        self, name: str, bind: Callable[[Any], Expression], position: Position | None
    ) -> Expression | None:
        """The expression that a name refers to; None if no alias has the name."""


@frozen
class ScopeColumn:
    """A column that can be referred to as `name` or as `qualifier.name`.

    name: references to it ignore case.
    type: the SQL type of the column.
    index: the column's index in the relation.
    qualifier: the alias or name of the table that the column belongs to; None: there is none.
    hidden: whether `*` omits the column.
    qualified_only: whether a reference needs the qualifier, because USING merged the column with
        another column.
    schema: the key of the schema of the table, which may precede the qualifier in a reference.
    """

    name: str
    type: SqlType
    index: int
    qualifier: str | None = None
    hidden: bool = False
    qualified_only: bool = False
    schema: str = ""

    def expression(self, position: Position | None = None) -> Column:
        return Column(index=self.index, name=self.name, type=self.type, position=position)


@frozen
class Scope:
    """The columns of a relation by name.

    columns: the columns that names can refer to, in the order of `*`.
    outer: the scope of the enclosing query; None: there is no enclosing query.
    has_tables: whether there is a FROM clause.
    collector: collects aggregates that belong to this query but are written in a subquery; None in
        FROM, where aggregates are not allowed.
    aliases: the aliases of the select list, to which names that no column has can refer.
    variables: the parameters of the lambda functions around the expression, innermost last.
    """

    columns: tuple[ScopeColumn, ...] = ()
    outer: Scope | None = None
    has_tables: bool = True
    collector: Collector | None = field(default=None, compare=False, repr=False)
    aliases: Aliases | None = field(default=None, compare=False, repr=False)
    variables: tuple[LambdaVariable, ...] = ()

    def of_schema(
        self,
        catalog: str,
        schema: str,
        position: Position | None,
        names_own: Callable[[str], bool],
    ) -> Scope:
        """The scope for references that are qualified by a schema, and a catalog or "": it has only
        the columns of the schema's tables. ProgrammingError if no table is in another schema than
        public. `names_own`: whether a name is the one of the connection's file."""
        if names_own(catalog or schema):
            catalog, schema = CATALOG, schema if catalog else PUBLIC
        found = self._within(catalog, schema)
        is_known = schema.lower() in (INFORMATION_SCHEMA, *ONLY_SCHEMAS)
        is_known = is_known and catalog.lower() in ("", *OWN_CATALOGS)
        scope: Scope | None = found
        while scope is not None and not is_known:
            is_known, scope = bool(scope.columns), scope.outer
        if not is_known:
            raise ProgrammingError(
                f'no table in FROM is in a schema "{f"{catalog}." if catalog else ""}{schema}"',
                hint="a column is named as column, table.column or schema.table.column; for a "
                "field of a column write (t.column).field",
                position=position,
            )
        return found

    def _within(self, catalog: str, schema: str) -> Scope:
        columns = tuple(c for c in self.columns if is_within(c.schema, catalog, schema))
        outer = None if self.outer is None else self.outer._within(catalog, schema)
        return replace(self, columns=columns, outer=outer)

    @cached_property
    def _by_name(self) -> dict[str, list[ScopeColumn]]:
        """The columns by name in lower case."""
        found: dict[str, list[ScopeColumn]] = {}
        for column in self.columns:
            found.setdefault(column.name.lower(), []).append(column)
        return found

    def find(self, name: str, qualifier: str | None) -> list[ScopeColumn]:
        """The columns that a name can refer to."""
        lower = name.lower()
        found = self._by_name.get(lower, [])
        if not found and lower.startswith(STORED):
            found = [c for c in self.columns if stored_name(c.name).lower() == lower]
        if qualifier is None:
            found = [c for c in found if not c.qualified_only]
            # A shown column hides the other names of the column of a table function.
            return [c for c in found if not c.hidden] or found
        table = qualifier.lower()
        return [c for c in found if (c.qualifier or "").lower() == table]

    def has(self, name: str) -> bool:
        """Whether a column of this scope or of a scope around it has the name."""
        scope: Scope | None = self
        while scope is not None:
            if scope.find(name, None) or scope.variable(name) is not None:
                return True
            scope = scope.outer
        return False

    def variable(self, name: str) -> LambdaVariable | None:
        """The parameter of a lambda function that a name refers to; None if it refers to none."""
        lower = name.lower()
        found = (item for item in reversed(self.variables) if item.name.lower() == lower)
        return next(found, None)

    def resolve(self, name: str, qualifier: str | None, position: Position | None) -> Expression:
        """The column or the parameter of a lambda function that a name refers to; ProgrammingError
        if there is none or more than one."""
        variable = None if qualifier is not None else self.variable(name)
        if variable is not None:
            return replace(variable, position=position)
        found = self.find(name, qualifier)
        if len(found) == 1:
            return found[0].expression(position)
        if len(found) > 1:
            owners = sorted({c.qualifier for c in found if c.qualifier})
            raise AmbiguousColumn(
                f'column "{name}" is ambiguous',
                detail="it is in " + " and ".join(f'"{owner}"' for owner in owners)
                if len(owners) > 1
                else None,
                hint="write the table's name before it"
                if len(owners) > 1
                else _WINDOWS_HINT
                if name.lower() in ("window_start", "window_end", "window_time")
                else "give the columns different names",
                position=position,
            )
        if self.outer is not None:
            return self.resolve_outside(name, qualifier, position)
        raise self.unknown(name, qualifier, position)

    def around(self, level: int, variables: int) -> tuple[int, Scope | None]:
        """The scope of that level around this one, with that number of lambda parameters, and how
        many queries it is away; None if there is no such scope."""
        depth, scope = 0, self
        while scope.level > level:
            if scope.outer is None:
                return depth + 1, None
            depth, scope = depth + 1, scope.outer
        return depth, scope if depth else replace(scope, variables=scope.variables[:variables])

    def below(self, level: int) -> Scope:
        """This scope with the scopes around it that are above the level."""
        if self.outer is None or self.level <= level:
            return self
        inner = self.outer.below(level) if self.outer.level > level else None
        return replace(self, outer=inner)

    def resolve_outside(
        self,
        name: str,
        qualifier: str | None,
        position: Position | None,
        first: int = 1,
    ) -> Expression:
        """The column of an enclosing query that a name refers to; the nearest query that is looked
        into is `first` queries away."""
        depth, scope = first, self.outer
        for _ in range(first - 1):
            scope = None if scope is None else scope.outer
        while scope is not None:
            if qualifier is None and scope.variable(name) is not None:
                raise NotSupportedError(
                    f'a subquery can\'t refer to "{name}", a parameter of a lambda function',
                    hint="use UNNEST in place of the lambda function",
                    position=position,
                )
            found = scope.find(name, qualifier)
            if len(found) == 1:
                column = found[0]
                return OuterColumn(
                    index=column.index,
                    name=column.name,
                    type=column.type,
                    depth=depth,
                    position=position,
                )
            if found:
                return scope.resolve(name, qualifier, position)
            depth, scope = depth + 1, scope.outer
        raise self.unknown(name, qualifier, position)

    @property
    def level(self) -> int:
        """The number of nested queries, including this one."""
        return 1 if self.outer is None else 1 + self.outer.level

    def unknown(
        self, name: str, qualifier: str | None, position: Position | None
    ) -> ProgrammingError:
        """The error for a name that no scope has; the hint suggests the most similar name."""
        scopes = [self]
        while scopes[-1].outer is not None:
            scopes.append(scopes[-1].outer)
        names = [c.name for scope in scopes for c in scope.variables]
        names += [c.name for scope in scopes for c in scope.columns]
        tables = {c.qualifier for scope in scopes for c in scope.columns if c.qualifier}
        if qualifier is not None and qualifier.lower() not in {table.lower() for table in tables}:
            rows = [
                c
                for s in scopes
                for c in s.columns
                if c.type.kind is Kind.ROW and c.name.lower() == qualifier.lower()
            ]
            hint = (
                f"for a field of a column write ({rows[0].name}).{name}"
                if rows
                else suggest(qualifier, tables)
            )
            return ProgrammingError(
                f'table "{qualifier}" is not in the FROM clause', hint=hint, position=position
            )
        where = f' of table "{qualifier}"' if qualifier is not None else ""
        if qualifier is not None:
            names = [
                c.name
                for s in scopes
                for c in s.columns
                if (c.qualifier or "").lower() == qualifier.lower()
            ]
        hidden = {c.name for scope in scopes for c in scope.columns if c.hidden}
        shown = [item for item in names if item not in hidden]
        known = ", ".join(dict.fromkeys(shown[:20]))
        otherwise = f"the columns are: {known}" if known else "no column is visible here"
        return UndefinedColumn(
            f'column "{name}"{where} does not exist',
            hint=suggest(name, names, suggest(name, ("DISTINCT",), otherwise)),
            position=position,
        )

    def star(self, qualifier: str | None, position: Position | None) -> list[ScopeColumn]:
        """The columns of `*` or `qualifier.*`."""
        if qualifier is None:
            if not self.has_tables:
                raise ProgrammingError("* needs a FROM clause", position=position)
            return [c for c in self.columns if not c.hidden and not c.qualified_only]
        table = qualifier.lower()
        shown = [c for c in self.columns if not c.hidden and (c.qualifier or "").lower() == table]
        if not shown:
            tables = {c.qualifier for c in self.columns if c.qualifier}
            raise ProgrammingError(
                f'table "{qualifier}" is not in the FROM clause',
                hint=suggest(qualifier, tables),
                position=position,
            )
        return shown

    def shifted(self, by: int) -> tuple[ScopeColumn, ...]:
        """The columns with `by` added to their indexes."""
        return tuple(replace(column, index=column.index + by) for column in self.columns)

    def joined_with(self, right: Scope, width: int, position: Position | None) -> Scope:
        """The scope of a join whose left side has `width` columns; ProgrammingError if a table name
        is on both sides."""
        mine = {c.qualifier.lower() for c in self.columns if c.qualifier}
        for column in right.columns:
            if column.qualifier and column.qualifier.lower() in mine:
                raise ProgrammingError(
                    f'table name "{column.qualifier}" is used more than once',
                    hint="give one of them an alias",
                    position=position,
                )
        return Scope((*self.columns, *right.shifted(width)), self.outer)


@frozen
class CommonTable:
    """A common table expression that can be referred to.

    tree: the query in the parentheses, as a sqlglot tree.
    columns: the listed names of its columns; (): the names of the query's columns.
    visible: the common tables that the query in the parentheses may refer to.
    outer: the scope around the query that has the WITH.
    is_recursive: whether the query refers to its own table, under WITH RECURSIVE.
    working: the relation that the table's name refers to within its recursive term; None elsewhere.
    bound: the relation that the table's name refers to, if it has no query of its own.
    """

    tree: Any
    columns: tuple[str, ...]
    visible: Mapping[str, CommonTable]
    outer: Scope | None = None
    is_recursive: bool = False
    working: WorkingTable | None = None
    bound: Relation | None = None


@frozen
class BoundRelation:
    """A relation with the names of its columns.

    relation: the relation.
    scope: the names of the relation's columns.
    """

    relation: Relation
    scope: Scope = field(default_factory=Scope)


def scope_of(fields: tuple[Field, ...], qualifier: str | None, outer: Scope | None = None) -> Scope:
    """The scope of a relation whose columns all have the same qualifier."""
    return Scope(
        tuple(ScopeColumn(f.name, f.type, i, qualifier) for i, f in enumerate(fields)), outer
    )


def with_other_names(column: ScopeColumn, *names: str | None) -> tuple[ScopeColumn, ...]:
    """A column, and hidden columns for further names that refer to it."""
    others = {name: None for name in names if name and name.lower() != column.name.lower()}
    return (column, *(replace(column, name=name, hidden=True) for name in others))


def table_alias(tree: Any) -> tuple[str | None, tuple[str, ...]]:
    """The alias of an item of FROM, and the column names after the alias."""
    alias = tree.args.get("alias")
    if alias is None:
        return None, ()
    if isinstance(alias, exp.TableAlias):
        name = alias.this.name if alias.this is not None else None
        return name, tuple(column.name for column in alias.args.get("columns") or [])
    return str(alias.name), ()
