"""Binding of queries: a sqlglot tree becomes relational nodes with names and types resolved.

A common table expression or a view is bound once, and its uses share the relation (`bound_tables`).
This module adds the clauses after a query body (ORDER BY, LIMIT). `select.py` binds one SELECT,
`set_operations.py` UNION, INTERSECT and EXCEPT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.schemas import PUBLIC, SCHEMA_KIND, candidates, database_of
from runnel.catalog import (
    CatalogObject,
    Dependency,
    NamedText,
    Snapshot,
    View,
    dependency_version,
)
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Expression, UnnamedColumn, distinct_names, stored_name
from runnel.planner.bind.convert import renamed
from runnel.planner.bind.ordering import checked_ordinal, is_all, ordinal, sort_key
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import CommonTable, Scope, scope_of
from runnel.planner.bind.select import SelectBinder
from runnel.planner.environment import Environment
from runnel.planner.parse.query.allow_list import function_call, position_of
from runnel.planner.parse.statement import parse
from runnel.planner.parse.syntax import Query
from runnel.relation.nodes import Field, Limit, Relation, Sort, Values, references
from runnel.relation.subqueries import deepened
from runnel.sqltypes import BIGINT, NULL, SqlType

if TYPE_CHECKING:
    from runnel.expressions.python.function import PythonFunction
    from runnel.planner.bind.bound_tables import BoundTables

_SETS = (
    *("unnest", "generate_s", "_to_table", "object_keys", "list_", "aggr"),
    *("_elements", "_each", "regexp_matches", "path_query", "_ancestors"),
)
"""In lower case, what the name of each function contains that returns sets, or is a composition
with UNNEST."""


MOST_EXPANSIONS = 2_000
"""The maximum number of calls of macros of CREATE MACRO in a statement, with calls in bodies."""

_BUILT_IN = ("",)
"""As `BUILT_IN` of `macros/user_macros.py`, which is loaded on first use."""


class Numbers:
    """Yields the numbers 0, 1, 2, …; `count` is the number of yielded numbers."""

    def __init__(self) -> None:
        self.count = 0

    def __iter__(self) -> Numbers:
        return self

    def __next__(self) -> int:
        self.count += 1
        return self.count - 1


@dataclass(slots=True)
class Binder:
    """Binds the queries of one statement.

    sql: the text of the statement, into which all positions point.
    snapshot: the catalog in which names are looked up.
    parameter_types: the type of each argument as it was passed, by the number of its `?`.
    environment: settings and functions of the session.
    dependencies: collects the catalog objects that are used, by kind and name.
    common_tables: the common tables that can be referred to, by name in lower case.
    views: the views that are being bound, from the outermost one.
    watermarks: numbers for all watermarks of the statement, including views and common tables.
    bound_tables: the common tables and views that were bound; None before the first one.
    is_in_hinted: whether this binds a view in a statement that may have hints.
    _may_have_sets: whether `sql` has the name of a set-returning function; None: not computed yet.
    emits: whether the statement has EMIT EVERY, ALLOWED LATENESS or LATE DATA INTO, so that
        window_final is a column.
    expansions: numbers for all expansions of macros of the statement, including views.
    """

    sql: str
    snapshot: Snapshot
    parameter_types: tuple[SqlType, ...]
    environment: Environment
    dependencies: dict[tuple[str, str], Dependency] = field(default_factory=dict)
    common_tables: Mapping[str, CommonTable] = field(default_factory=dict)
    views: tuple[str, ...] = ()
    watermarks: Numbers = field(default_factory=Numbers)
    bound_tables: BoundTables | None = None
    is_in_hinted: bool = False
    _may_have_sets: bool | None = None
    emits: bool = False
    expansions: Numbers = field(default_factory=Numbers)

    def statement_query(self, query: Query) -> Relation:
        """The relation of a statement's query, with its emission clauses. NotSupportedError for a
        query with EMIT CHANGES, whose rows can only be fetched."""
        if query.changes is not None:
            raise NotSupportedError(
                "EMIT CHANGES is supported only in a query whose rows are fetched",
                detail="the changes of a query can't be written or stored by a statement",
                hint="run the query by itself, or leave EMIT CHANGES out",
                position=query.changes.position,
            )
        if query.emission is None:
            return self.query(query.expression, None)
        # Loaded on first use: few statements have these clauses.
        from runnel.planner.bind.streams.emission import with_emission

        self.emits = True
        return with_emission(self, self.query(query.expression, None), query.emission)

    def query(self, tree: Any, outer: Scope | None) -> Relation:
        """The relation of any query expression; `outer` is the scope around a correlated
        subquery."""
        self.environment.check()
        with_ = tree.args.get("with_")
        if with_ is not None:
            return self._with(with_, tree, outer)
        if isinstance(tree, exp.Select):
            relation = SelectBinder(self, outer).bind(tree)
            return (
                self._with_state_name(relation, tree)
                if self.environment.in_job and self._has_hints
                else relation
            )
        if isinstance(tree, exp.Values):
            return self._ordered(self.values(tree, outer), tree)
        if isinstance(tree, (exp.Subquery, exp.Paren)):
            return self._ordered(self.query(tree.this, outer), tree)
        if isinstance(tree, exp.Query):
            # Loaded on first use: few queries have set operations, the other class of exp.Query.
            from runnel.planner.bind.set_operations import set_operation

            return self._ordered(set_operation(self, tree, outer), tree)
        if isinstance(tree, exp.Table):
            return SelectBinder(self, outer).bind(
                exp.Select(expressions=[exp.Star()], from_=exp.From(this=tree))
            )
        raise NotSupportedError(
            f"{tree.key.upper()} is not supported as a query", position=position_of(tree, self.sql)
        )

    def _with_state_name(self, relation: Relation, tree: Any) -> Relation:
        # Loaded on first use: few statements have such a hint.
        from runnel.planner.bind.streams.state_names import with_state_name

        return with_state_name(relation, tree, self.sql)

    @property
    def may_have_sets(self) -> bool:
        """Whether the statement's text contains the name of a set-returning function."""
        if self._may_have_sets is None:
            words = self.sql.lower()
            has_macros = bool(self.snapshot.definitions)
            self._may_have_sets = has_macros or any(word in words for word in _SETS)
        return self._may_have_sets

    @property
    def may_have_columns(self) -> bool:
        """Whether the statement's text contains the name COLUMNS."""
        return "columns" in self.sql.lower()

    @property
    def _has_hints(self) -> bool:
        return self.is_in_hinted or "/*+" in self.sql

    def subquery(self, tree: Any, outer: Scope) -> Relation:
        """The relation of a subquery in an expression, whose columns may refer to `outer`."""
        return self.query(tree, outer)

    def table_name(self, tree: Any) -> str:
        """The name of a table for `lookup`: with its schema, unless that is public."""
        name, schema = str(tree.name), tree.text("db")
        if not schema:
            return name
        position = position_of(tree, self.sql)
        key = self.snapshot.schema_key(tree.text("catalog"), schema, position)
        if not key:
            return f"{PUBLIC}.{name}" if self.snapshot.path else name
        return f"{key}.{name}"

    def lookup(self, name: str, position: Position | None) -> CatalogObject:
        """The catalog object of that name, recorded as a dependency."""
        try:
            found = self.snapshot.get(name, position)
        except ProgrammingError as error:
            from runnel.planner.bind.hints import file_hint, variable_of

            variable = variable_of(self.environment, name, error, in_view=bool(self.views))
            if variable is not None:
                return variable
            error.hint = file_hint(name) or error.hint
            raise
        self.note("object", found.name, found.version)
        if self.snapshot.path or found.name.lower() != name.lower():
            self._note_hidden(name.lower(), found.name.lower())
        return found

    def _note_hidden(self, name: str, found: str) -> None:
        """Records the names that the search path passed over before it came to the object: what
        gets one of them later would be used instead."""
        snapshot = self.snapshot
        earlier = takewhile(
            lambda key: key != found, candidates(snapshot.schemas, snapshot.path, name)
        )
        hidden = [("hidden", key) for key in {name, *earlier} - {found}]
        schema, dot, _ = name.partition(".")
        if dot and snapshot.path:
            hidden.append((SCHEMA_KIND, f"{database_of(snapshot.path[0])}.{schema}"))
        for kind, key in hidden:
            self.note(kind, key, dependency_version(snapshot, kind, key))

    def python_function(self, name: str) -> PythonFunction | None:
        """The user function of that name, recorded as a dependency; None if there is none."""
        found = self.snapshot.functions.get(name.lower())
        if found is not None:
            self.note("function", found.name, found.version)
        return found

    def macro(self, kind: str, call: Any) -> NamedText | None:
        """The macro of that kind that a call names; None if there is none. It is recorded as a
        dependency; so is its absence, as a new macro would hide a built-in function."""
        found = function_call(call)
        if found is None or call.meta_get("macros") == _BUILT_IN:
            return None
        macro = self.snapshot.definitions.get((kind, found[0].lower()))
        self.note(kind, found[0], 0 if macro is None else macro.version)
        if macro is not None and next(self.expansions) == MOST_EXPANSIONS:
            raise ProgrammingError(
                f"the statement expands more than {MOST_EXPANSIONS:,} calls of macros",
                hint="compute the inner calls in a common table",
            )
        return macro

    def note(self, kind: str, name: str, version: int) -> None:
        """Records a catalog object (or the indexes of one) as a dependency of the plan."""
        self.dependencies[kind, name.lower()] = Dependency(kind, name, version)

    def common_table(self, name: str, outer: Scope | None) -> Relation | None:
        """The relation of the common table of that name, for a query whose outer scope is `outer`;
        None if there is no such common table."""
        common = self.common_tables.get(name.lower())
        if common is None:
            return None
        if common.working is not None or common.bound is not None:
            return common.working or common.bound
        relation = self._tables.relation(
            common, lambda: self._bound(name, common), self._watermark_count
        )
        if common.outer is not None and outer is not None:
            relation = deepened(relation, outer.level - common.outer.level)
        return (
            relation
            if common.is_recursive
            else renamed(relation, common.columns, f'"{name}"', None)
        )

    def _watermark_count(self) -> int:
        return self.watermarks.count

    def _bound(self, name: str, common: CommonTable) -> Relation:
        if not common.is_recursive:
            return self.inside(common.visible).query(common.tree, common.outer)
        from runnel.planner.bind.recursive import recursion

        return recursion(self, name, common, common.outer)

    @property
    def _tables(self) -> BoundTables:
        if self.bound_tables is None:
            # Loaded on first use: most statements have neither common tables nor views.
            from runnel.planner.bind.bound_tables import BoundTables

            self.bound_tables = BoundTables(may_share=not self.environment.in_job)
        return self.bound_tables

    def view_query(self, view: View) -> Relation:
        """The relation of a view's query."""
        if view.name.lower() in self.views:
            raise ProgrammingError(
                f'view "{view.name}" refers to itself', hint="drop it and create it again"
            )
        return self._tables.relation(view, lambda: self._bound_view(view), self._watermark_count)

    def _bound_view(self, view: View) -> Relation:
        statement = parse(view.sql)
        assert isinstance(statement, Query)
        views = (*self.views, view.name.lower())
        environment = self.environment
        if view.is_confined != environment.is_confined:
            # The view's files are restricted as they were for its creator.
            environment = replace(environment, is_confined=view.is_confined)
        snapshot = self.snapshot
        if snapshot.path != view.path:
            snapshot = replace(snapshot, path=view.path)
        binder = Binder(
            view.sql,
            snapshot,
            (),
            environment,
            self.dependencies,
            {},
            views,
            self.watermarks,
            self._tables,
            expansions=self.expansions,
        )
        binder.is_in_hinted = self._has_hints
        relation = binder.query(statement.expression, None)
        names = tuple(field.name for field in relation.fields)
        shown = (
            tuple(map(stored_name, names)) if view.has_numbered_columns else distinct_names(names)
        )
        return relation if shown == names else renamed(relation, shown, "", None)

    def view_fields(self, view: View) -> tuple[Field, ...]:
        """The columns of a view; its query is bound again."""
        return renamed(self.view_query(view), view.columns, f'view "{view.name}"', None).fields

    def values(self, tree: Any, outer: Scope | None = None) -> Relation:
        """Binds VALUES: each column has the common type of its rows, and the names are col0, col1,
        …"""
        binder = ExpressionBinder(self, Scope((), outer), "VALUES")
        rows = [[binder.bind(item) for item in _row(row)] for row in tree.expressions]
        width = len(rows[0])
        for number, row in enumerate(rows, 1):
            if len(row) != width:
                raise ProgrammingError(
                    f"row {number} of VALUES has {len(row)} values, the first has {width}",
                    position=position_of(tree.expressions[number - 1], self.sql),
                )
        columns = [build.coerce([row[i] for row in rows], "VALUES") for i in range(width)]
        fields = tuple(
            Field(UnnamedColumn(f"col{i}", i), column[0].type) for i, column in enumerate(columns)
        )
        return Values(
            rows=tuple(zip(*columns, strict=True)),
            columns=fields,
            position=position_of(tree, self.sql),
        )

    def limited(self, relation: Relation, tree: Any) -> Relation:
        """The relation with LIMIT, FETCH and OFFSET of a query on top."""
        limit, offset = tree.args.get("limit"), tree.args.get("offset")
        if isinstance(limit, exp.Limit) and isinstance(limit.expression, exp.Var):
            limit = None  # LIMIT ALL
        if limit is None and offset is None:
            return relation
        options = None if limit is None else limit.args.get("limit_options")
        if options is not None and options.args.get("percent"):
            return self._limited_by_percent(relation, limit, offset)
        count = None if limit is None else _limit_count(limit)
        return Limit(
            input=relation,
            count=None if limit is None else self._row_count(count, "LIMIT"),
            offset=None if offset is None else self._row_count(offset.expression, "OFFSET"),
            position=position_of(limit or offset, self.sql),
        )

    def _limited_by_percent(self, relation: Relation, limit: Any, offset: Any) -> Relation:
        # Loaded on first use: few statements have such a LIMIT.
        from runnel.planner.bind.tables.percent import limited_by_percent, percentage

        position = position_of(limit, self.sql)
        bound = ExpressionBinder(self, Scope(), "LIMIT").bind(_limit_count(limit))
        skipped = None if offset is None else self._row_count(offset.expression, "OFFSET")
        share = percentage(bound, "LIMIT", position)
        return limited_by_percent(relation, share, skipped, position)

    def _row_count(self, tree: Any, clause: str) -> Expression:
        position = position_of(tree, self.sql)
        bound = ExpressionBinder(self, Scope(), clause).bind(tree)
        if not (bound.type.is_integer or bound.type == NULL):
            raise ProgrammingError(
                f"{clause} must be a whole number, not {bound.type}", position=position
            )
        return bound if bound.type == BIGINT else build.cast(bound, BIGINT, position, implicit=True)

    def inside(self, common_tables: Mapping[str, CommonTable]) -> Binder:
        """A binder for a section of the statement in which these common tables are visible."""
        return Binder(
            self.sql,
            self.snapshot,
            self.parameter_types,
            self.environment,
            self.dependencies,
            common_tables,
            self.views,
            self.watermarks,
            bound_tables=self._tables,
            expansions=self.expansions,
        )

    def of_macro(self, macro: NamedText) -> Binder:
        """A binder for the query of a table macro. The files that it names are restricted as for
        its creator, and as for its caller."""
        environment = self.environment
        if macro.is_confined:
            environment = replace(environment, is_confined=True)
        return replace(
            self,
            sql=macro.text,
            environment=environment,
            common_tables={},
            bound_tables=self._tables,
            is_in_hinted=self._has_hints,
            _may_have_sets=None,
            emits=False,
        )

    def of_text(self, sql: str) -> Binder:
        """A binder for an expression whose text the catalog has."""
        return replace(self, sql=sql)

    def without_statement(self) -> Binder:
        """A binder over the same catalog that belongs to no statement."""
        return replace(self, sql="", views=(), common_tables={}, dependencies={})

    def _with(self, with_: Any, tree: Any, outer: Scope | None) -> Relation:
        visible = dict(self.common_tables)
        own: set[str] = set()
        for item in with_.expressions:
            name = item.alias
            if name.lower() in own:
                raise ProgrammingError(
                    f'"{name}" is defined twice in WITH', position=position_of(item, self.sql)
                )
            own.add(name.lower())
            alias = item.args["alias"]
            columns = tuple(column.name for column in alias.args.get("columns") or [])
            is_recursive = bool(with_.args.get("recursive")) and _refers_to(item.this, name)
            visible = {
                **visible,
                name.lower(): CommonTable(item.this, columns, visible, outer, is_recursive),
            }
            try:
                self.inside(visible).common_table(name, outer)
            except ProgrammingError as error:
                if (
                    not is_recursive
                    and error.message.lower() == f'object "{name.lower()}" not found'
                ):
                    error.hint = f"for a table that reads itself, write WITH RECURSIVE {name} …"
                raise
        body = tree.copy()
        body.set("with_", None)
        return self.inside(visible).query(body, outer)

    def _ordered(self, relation: Relation, tree: Any) -> Relation:
        """Adds ORDER BY and LIMIT to a query in which only the columns of the result have names."""
        order = tree.args.get("order")
        if order is not None:
            binder = ExpressionBinder(self, scope_of(relation.fields, None), "ORDER BY")
            keys = []
            if is_all(order.expressions):
                keys = [
                    sort_key(column, order.expressions[0], self.environment)
                    for column in references(relation.fields)
                ]
            for item in () if keys else order.expressions:
                number = ordinal(item.this)
                if number is None:
                    key = binder.bind(item.this)
                else:
                    key = references(relation.fields)[
                        checked_ordinal(
                            number, len(relation.fields), "ORDER BY", position_of(item, self.sql)
                        )
                    ]
                keys.append(sort_key(key, item, self.environment))
            relation = Sort(input=relation, keys=tuple(keys), position=position_of(order, self.sql))
        return self.limited(relation, tree)


def _refers_to(tree: Any, name: str) -> bool:
    from runnel.planner.bind.recursive import refers_to

    return refers_to(tree, name)


def _limit_count(limit: Any) -> Any:
    """The count of a LIMIT or FETCH; FETCH FIRST ROW ONLY means 1."""
    if not isinstance(limit, exp.Fetch):
        return limit.expression
    return limit.args.get("count") or exp.Literal.number(1)


def _row(tree: Any) -> list[Any]:
    return list(tree.expressions) if isinstance(tree, exp.Tuple) else [tree]
