"""Binding of the FROM clause: tables, views, common tables, table functions, UNNEST and derived
tables. Joins are in `joins`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.schemas import INFORMATION_SCHEMA, local_name
from runnel.catalog import (
    EventTime,
    Mapping,
    NamedText,
    Table,
    TableColumn,
    View,
    readable_columns,
    visible_columns,
)
from runnel.connector import ReadableTable
from runnel.errors import (
    DatabaseError,
    NotSupportedError,
    Position,
    ProgrammingError,
    UndefinedFunction,
    UndefinedTable,
)
from runnel.expressions.nodes import Expression
from runnel.planner.bind.convert import renamed
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import (
    BoundRelation,
    Scope,
    ScopeColumn,
    scope_of,
    table_alias,
    with_other_names,
)
from runnel.planner.parse.query.allow_list import function_call, position_of
from runnel.planner.parse.query.table_arguments import (
    ROWS_OF_STATEMENT,
    TABLE_OPENERS,
    WINDOW_FUNCTIONS,
)
from runnel.relation.nodes import (
    Relation,
    Scan,
    Values,
)
from runnel.relation.streams import ImposeOrder

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

ONE_ROW = Values(rows=((),), columns=())
SERIES = ("generate_series", "generate_stream", "range")
"""The table functions with one column, whose alias is also the name of the column."""


class FromBinder:
    """Binds the FROM clause of one SELECT.

    binder: of the statement.
    outer: the scope of the enclosing query, for correlated subqueries and LATERAL.
    """

    def __init__(self, binder: StatementBinder, outer: Scope | None) -> None:
        self.binder = binder
        self.outer = outer

    def bind(self, source: Any, joins: list[Any]) -> BoundRelation:
        """The relation and the scope of `FROM source joins…`; without FROM, one row without
        columns."""
        if source is None:
            return BoundRelation(ONE_ROW, Scope((), self.outer, has_tables=False))
        return self._joined(
            self.item(source.this), [*(source.this.args.get("joins") or []), *joins]
        )

    def _joined(self, bound: BoundRelation, joins: list[Any]) -> BoundRelation:
        if joins:
            # Loaded on first use, so that a process whose queries have no join starts sooner.
            from runnel.planner.bind.tables.joins import bind_joins

            return bind_joins(self, bound, joins)
        return bound

    def at(self, tree: Any) -> Position | None:
        """The position of a tree in the statement."""
        return position_of(tree, self.binder.sql)

    def item(self, tree: Any, left: BoundRelation | None = None) -> BoundRelation:
        """The relation and the scope of one table, query or table function.

        `left` has the items before it, whose columns UNNEST may read.
        """
        modified = self._modified(tree, left)
        if modified is not None:
            return modified
        if isinstance(tree, exp.Lateral):
            # Loaded on first use, like all of `joins`.
            from runnel.planner.bind.tables.joins import without_lateral

            tree = without_lateral(tree)
        if self.binder.may_have_sets:
            # Loaded on first use: few statements have UNNEST.
            from runnel.planner.bind.set_returning.unnest import bind_unnest, is_unnest

            if is_unnest(tree):
                one_row = BoundRelation(ONE_ROW, Scope((), self.outer))
                return bind_unnest(self, left or one_row, tree)
        alias, names = table_alias(tree)
        if isinstance(tree, exp.Table) and isinstance(tree.this, exp.Values):
            tree = tree.this  # the first item in parentheses: ((VALUES …) a JOIN …)
        relation: Relation
        if isinstance(tree, exp.Table):
            call = function_call(tree.this)
            macro = self.binder.macro("table macro", tree.this)
            if macro is not None:
                return self._macro(macro, tree, alias, names)
            if call is not None and call[0] in WINDOW_FUNCTIONS:
                return self._windows(tree, alias, names)
            if call is not None and call[0] == "CHANGES":
                from runnel.planner.bind.streams.changes import changes_of

                return self._scan(
                    changes_of(self.binder, *call[1:], self.at(tree)),
                    alias or "changes",
                    names,
                    self.at(tree),
                )
            if call is not None:
                relation, name = self._table_function(tree, *call), call[0].lower()
                if isinstance(relation, Scan):
                    return self._scan(relation.table, alias or name, names, self.at(tree))
                if name in SERIES and not names:
                    return self._series(relation, name, alias, self.at(tree))
            else:
                return self._table(tree, alias, names)
        elif isinstance(tree, exp.Values):
            relation, name = self.binder.values(tree, self.outer), ""
        elif isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Table):
            return self._parenthesised(tree, alias)
        elif isinstance(tree, (exp.Subquery, exp.Query)):
            relation, name = self.binder.query(tree, self.outer), ""
        else:
            raise NotSupportedError(
                f"{tree.key.upper()} is not supported in FROM", position=self.at(tree)
            )
        relation = renamed(relation, names, f'"{alias or name}"', self.at(tree))
        return BoundRelation(relation, scope_of(relation.fields, alias or name or None, self.outer))

    def _series(
        self, relation: Relation, name: str, alias: str | None, position: Position | None
    ) -> BoundRelation:
        """A series: its column is named like its alias, and has the other names, too. The column
        of GENERATE_STREAM is `v`, and the alias is a further name."""
        own = relation.fields[0].name
        if alias is not None and name != "generate_stream":
            relation = renamed(relation, (alias,), f'"{alias}"', position)
        first, *rest = scope_of(relation.fields, alias or name).columns
        columns = (*with_other_names(first, own, name), *rest)
        return BoundRelation(relation, Scope(columns, self.outer))

    def _modified(self, tree: Any, left: BoundRelation | None) -> BoundRelation | None:
        """The relation of an item with PIVOT, UNPIVOT or TABLESAMPLE; None for other items."""
        pivots, sample = tree.args.get("pivots"), tree.args.get("sample")
        if not pivots and sample is None:
            return None
        tree = tree.copy()
        tree.set("pivots", None)
        tree.set("sample", None)
        bound = self.item(tree, left)
        # Loaded on first use: few statements have these clauses.
        if sample is not None:
            from runnel.planner.bind.tables.sample import sampled

            bound = replace(bound, relation=sampled(bound.relation, sample, self.at(sample)))
        if pivots:
            from runnel.planner.bind.tables.pivot import with_pivots

            bound = with_pivots(self, bound, pivots)
        return bound

    def inside(self, outer: Scope) -> FromBinder:
        """A binder of items that may refer to `outer`."""
        return FromBinder(self.binder, outer)

    def _windows(self, tree: Any, alias: str | None, names: tuple[str, ...]) -> BoundRelation:
        # Loaded on first use: few statements have windows over time.
        from runnel.planner.bind.streams.time_windows import WindowBinder

        position = self.at(tree)
        if tree.args.get("ordinality"):
            raise NotSupportedError(
                "WITH ORDINALITY is supported for GENERATE_SERIES and UNNEST", position=position
            )
        bound = WindowBinder(self.binder, self.item, self.outer).bind(tree.this)
        shown = sum(not column.hidden for column in bound.scope.columns)
        if len(names) > shown:
            raise ProgrammingError(
                f'"{alias}" has {shown} columns, but {len(names)} names are given',
                position=position,
            )
        new_names = iter(names)
        columns = tuple(
            replace(
                column,
                name=column.name if column.hidden else next(new_names, column.name),
                qualifier=column.qualifier if alias is None else alias,
                qualified_only=column.qualified_only and alias is None,
            )
            for column in bound.scope.columns
        )
        return BoundRelation(bound.relation, Scope(columns, self.outer))

    def _parenthesised(self, tree: Any, alias: str | None) -> BoundRelation:
        inner = tree.this
        bound = self._joined(
            self.item(inner),
            [*(inner.args.get("joins") or []), *(tree.args.get("joins") or [])],
        )
        if alias is None:
            return bound
        columns = tuple(
            replace(c, qualifier=alias, qualified_only=False) for c in bound.scope.columns
        )
        return BoundRelation(bound.relation, Scope(columns, self.outer))

    def _table(self, tree: Any, alias: str | None, names: tuple[str, ...]) -> BoundRelation:
        position = self.at(tree)
        if tree.args.get("version") is not None:
            raise NotSupportedError(
                "FOR SYSTEM_TIME is supported for the right side of a JOIN only",
                hint=(
                    "write FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency "
                    "= r.currency"
                ),
                position=position,
            )
        if tree.text("db").lower() == "pg_catalog":
            view = self._system_view(tree)
            if view is not None:
                bound = self._scan(view, alias or tree.name, names, position)
                return BoundRelation(bound.relation, _in_schema(bound.scope, "pg_catalog"))
        self._check_schema(tree, position)
        if tree.text("db").lower() == INFORMATION_SCHEMA:
            # Loaded on first use: few statements ask for it.
            from runnel.planner.bind.tables.information_schema import schema_table

            bound = self._scan(
                schema_table(tree.name, self.binder, position), alias or tree.name, names, position
            )
            return BoundRelation(bound.relation, _in_schema(bound.scope, INFORMATION_SCHEMA))
        name = self.binder.table_name(tree)
        options = self._options(tree, position)
        common = None if tree.text("db") else self.binder.common_table(name, self.outer)
        if common is not None:
            if options is not None:
                self._with_options(None, options, position)
            relation = renamed(common, names, f'"{alias or name}"', position)
            return BoundRelation(relation, scope_of(relation.fields, alias or name, self.outer))
        try:
            found = self.binder.lookup(name, position)
            if "." in tree.name and local_name(found.name, found.schema).lower() != name.lower():
                self._check_quoted(tree, position)
        except ProgrammingError:
            # Loaded on first use: few statements name a file.
            from runnel.planner.bind.tables.files import alias_of_file, file_in_from

            table = file_in_from(self.binder, tree, name) or self._system_view(tree)
            if table is None:
                raise
            return self._scan(table, alias or alias_of_file(name), names, position)
        if isinstance(found, View):
            if options is not None:
                self._with_options(found, options, position)
            relation = renamed(self._view(found, position), names, f'"{alias or name}"', position)
            scope = scope_of(
                relation.fields, alias or local_name(found.name, found.schema), self.outer
            )
            return BoundRelation(relation, _in_schema(scope, found.schema))
        table = found.table if options is None else self._with_options(found, options, position)
        bound = self._scan(table, alias or local_name(found.name, found.schema), names, position)
        return BoundRelation(bound.relation, _in_schema(bound.scope, found.schema))

    def _system_view(self, tree: Any) -> Table | None:
        """The view of another system's catalog that an item names; None if there is none."""
        # Loaded on first use: few statements read one.
        from runnel.planner.bind.system_views.views import SHOWN, shown_table, view_table

        if tree.name in SHOWN:
            return shown_table(tree.name, tree.text("catalog"), tree.text("db"), self.binder)
        return view_table(tree.name, tree.text("db"), self.binder)

    def _options(self, tree: Any, position: Position | None) -> dict[str, str] | None:
        """The options of Flink's hint after the name of a table; None without it."""
        if not tree.comments:
            return None
        # Loaded on first use: few statements have hints.
        from runnel.planner.parse.flink.hints import has_hint, options_of

        return options_of(tree, position) if has_hint(tree) else None

    def _with_options(
        self, found: Any, options: dict[str, str] | None, position: Position | None
    ) -> Table:
        """The table of a mapping with other options."""
        if not isinstance(found, Mapping) or found.definition is not None or options is None:
            raise NotSupportedError(
                "the hint OPTIONS is supported for mappings only",
                hint="leave it out, or make a second mapping with these options",
                position=position,
            )
        environment = self.binder.environment
        try:
            return environment.with_options(found, options, environment.is_confined)
        except DatabaseError as error:
            error.position = error.position or position
            raise

    def _check_quoted(self, tree: Any, position: Position | None) -> None:
        """ProgrammingError if a name in quotes, such as a file name, is not qualified but has
        the letters of a qualified name."""
        if not tree.text("db"):
            raise UndefinedTable(f'object "{tree.name}" not found', position=position)

    def _check_schema(self, tree: Any, position: Position | None) -> None:
        try:
            if schema := tree.text("db"):
                self.binder.snapshot.schema_key(tree.text("catalog"), schema, position)
        except ProgrammingError as error:
            from runnel.planner.bind.hints import file_hint

            error.hint = file_hint(f"{tree.text('db')}.{tree.name}") or error.hint
            raise

    def _scan(
        self, table: Table, qualifier: str, names: tuple[str, ...], position: Position | None
    ) -> BoundRelation:
        """All columns of a table; `names` replace the names of the columns that are not hidden."""
        if not self.binder.environment.is_at_rest:
            table = table.as_stream or table
        if self.binder.environment.is_live:
            # Loaded on first use: few queries are maintained.
            from runnel.processors.live.views.table import MaterializedTable

            if isinstance(table, MaterializedTable):
                table = table.changes_of_rows
        events = table.events if isinstance(table, ReadableTable) else None
        read = events or table
        malformed = None
        if isinstance(table, ReadableTable) and table.malformed_target is not None:
            from runnel.planner.bind.streams.malformed_records import malformed_output_of

            malformed = malformed_output_of(self.binder, table, position)
        scan: Relation = Scan(
            table=read,
            columns=tuple(range(len(read.columns))),
            malformed=malformed,
            position=position,
        )
        if events is not None:
            # Loaded on first use: few tables have a log.
            from runnel.planner.bind.streams.change_logs import current_rows

            scan = current_rows(table, scan)
        if table.computed:
            # Loaded on first use: few mappings have computed columns.
            from runnel.planner.bind.tables.computed import with_computed

            scan = with_computed(self.binder, scan, table)
        if table.event_time is not None and table.is_unbounded:
            scan = in_order(scan, table.event_time, next(self.binder.watermarks))
        shown = visible_columns(table)
        if len(names) > len(shown):
            raise ProgrammingError(
                f'"{qualifier}" has {len(shown)} columns, but {len(names)} names are given',
                position=position,
            )
        new_names = iter(names)
        columns = tuple(
            ScopeColumn(
                column.name if column.hidden else next(new_names, column.name),
                column.type,
                i,
                qualifier,
                column.hidden,
            )
            for i, column in _in_order_of_statement(table)
        )
        return BoundRelation(scan, Scope(columns, self.outer))

    def _view(self, view: View, position: Position | None) -> Relation:
        try:
            relation = self.binder.view_query(view)
            return renamed(relation, view.columns, f'view "{view.name}"', None)
        except DatabaseError as error:
            if error.position is position and position is not None:
                raise
            error.position = position
            error.detail = f'in view "{view.name}"' + (f"; {error.detail}" if error.detail else "")
            raise

    def _macro(
        self, macro: NamedText, tree: Any, alias: str | None, names: tuple[str, ...]
    ) -> BoundRelation:
        # Loaded on first use: few statements call a macro.
        from runnel.planner.bind.macros.table_macros import rows_of_macro

        position = self.at(tree.this)
        if tree.args.get("ordinality"):
            raise NotSupportedError(
                "WITH ORDINALITY is supported for GENERATE_SERIES and UNNEST", position=position
            )
        relation = rows_of_macro(self.binder, self.outer, macro, tree.this, position)
        relation = renamed(relation, names, f'"{alias or macro.name}"', position)
        return BoundRelation(relation, scope_of(relation.fields, alias or macro.name, self.outer))

    def _table_function(self, tree: Any, name: str, arguments: list[Any]) -> Relation:
        lower = name.lower()
        if lower in TABLE_OPENERS and not tree.args.get("ordinality"):
            # Loaded on first use: few statements name a file.
            from runnel.planner.bind.tables.files import opened_by

            table = opened_by(self.binder, lower, arguments, self.at(tree))
            return Scan(
                table=table, columns=tuple(range(len(table.columns))), position=self.at(tree)
            )
        if lower.startswith(("duckdb_", "pragma_")) and not tree.args.get("ordinality"):
            # Loaded on first use, as above.
            from runnel.planner.bind.system_views.views import view_function

            view = view_function(lower, arguments, self.binder, self.at(tree))
            if view is not None:
                return Scan(table=view, columns=tuple(range(len(view.columns))))
        if name == ROWS_OF_STATEMENT:
            # Loaded on first use: few statements describe anything.
            from runnel.planner.bind.tables.described import rows_of_statement

            start, _, end = arguments[0].name.partition(":")
            return rows_of_statement(self.binder, int(start), int(end))
        binder = ExpressionBinder(self.binder, Scope((), self.outer), "a table function")
        positional: list[Expression] = []
        named: dict[str, Expression] = {}
        for argument in arguments:
            if isinstance(argument, exp.Kwarg):
                key = argument.this.name.lower()
                if key in named:
                    raise ProgrammingError(
                        f'argument "{key}" is given twice', position=self.at(argument)
                    )
                named[key] = binder.bind(argument.expression)
            elif named:
                raise ProgrammingError(
                    "a named argument can't be followed by one without a name",
                    position=self.at(argument),
                )
            else:
                positional.append(binder.bind(argument))
        if lower in SERIES:
            from runnel.planner.bind.set_returning.series import generator

            with_ordinality = bool(tree.args.get("ordinality"))
            return generator(lower, positional, named, with_ordinality, self.at(tree.this))
        if tree.args.get("ordinality"):
            raise NotSupportedError(
                "WITH ORDINALITY is supported for GENERATE_SERIES and UNNEST",
                position=self.at(tree),
            )
        from runnel.planner.bind.hints import table_function_hint

        raise UndefinedFunction(
            f'table function "{name}" does not exist',
            hint=table_function_hint(name),
            position=self.at(tree),
        )


def _in_order_of_statement(table: Table) -> list[tuple[int, TableColumn]]:
    """The columns with their indexes in the relation of `_scan`, where computed ones are last."""
    numbered = list(enumerate(readable_columns(table)))
    width = len(table.columns)
    found = numbered[:width]
    for item, pair in zip(table.computed, numbered[width:], strict=True):
        found.insert(item.index, pair)
    return found


def in_order(scan: Relation, time: EventTime, watermark: int) -> Relation:
    """A scan of all columns of a table, with the watermark that the table's event time defines."""
    return ImposeOrder(
        input=scan,
        time=time.column,
        lag=time.lag,
        watermark=watermark,
        idle_timeout=time.idle_timeout,
        position=scan.position,
    )


def _in_schema(scope: Scope, key: str) -> Scope:
    """The scope with columns of a schema's table; "": public."""
    if not key:
        return scope
    return Scope(tuple(replace(column, schema=key) for column in scope.columns), scope.outer)
