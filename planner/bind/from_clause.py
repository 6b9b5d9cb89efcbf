"""Binding of the FROM clause: tables, views, CTEs, table functions, UNNEST, derived tables and
joins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.frozen import frozen
from runnel.catalog import INFORMATION_SCHEMA, EventTime, Table, View, check_schema
from runnel.connector import ReadableTable
from runnel.errors import DatabaseError, NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression, Literal, transform
from runnel.planner.bind.convert import exact_cast, renamed
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import Bound, Scope, ScopeColumn, scope_of
from runnel.planner.parse.query.allow_list import function_call, position_of
from runnel.planner.parse.query.table_arguments import WINDOW_FUNCTIONS
from runnel.relation.nodes import (
    Join,
    JoinKind,
    Project,
    Relation,
    Scan,
    Unnest,
    Values,
    references,
)
from runnel.relation.streams import ImposeOrder
from runnel.relation.subqueries import DependentJoin, UnnestTogether, deepened, outer_columns
from runnel.sqltypes import BOOLEAN, VARCHAR, Kind, common_type, loses_digits

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

ONE_ROW = Values(rows=((),), columns=())
_SIDES = {"": JoinKind.INNER, "LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT, "FULL": JoinKind.FULL}
_FILE_FUNCTIONS = frozenset(
    {
        *(
            "csv_file",
            "json_file",
            "json_flat_file",
            "parquet_file",
            "arrow_file",
            "avro_file",
            "lines_file",
        ),
        *("job_state", "snapshot_state"),
    }
)
"""Those whose tables the environment opens."""


@frozen
class LateralBound(Bound):
    """A relation that reads columns of the item left of it."""


class FromBinder:
    """Binds the FROM clause of one SELECT. `outer` is the scope of the query around, for correlated
    subqueries."""

    def __init__(self, binder: StatementBinder, outer: Scope | None) -> None:
        self._binder = binder
        self._outer = outer

    def bind(self, source: Any, joins: list[Any]) -> Bound:
        """The relation and the scope of `FROM source joins…`; one row of no columns where there is
        no FROM."""
        if source is None:
            return Bound(ONE_ROW, Scope((), self._outer, has_tables=False))
        bound = self._item(source.this, None)
        for join in [*(source.this.args.get("joins") or []), *joins]:
            bound = self._join(bound, join)
        return bound

    def _at(self, tree: Any) -> Position | None:
        return position_of(tree, self._binder.sql)

    def _item(self, tree: Any, left: Bound | None) -> Bound:
        if isinstance(tree, exp.Lateral):
            tree = without_lateral(tree)
        if isinstance(tree, exp.Unnest):
            return self._unnest(tree, left or Bound(ONE_ROW, Scope((), self._outer)), is_left=False)
        alias, names = _alias(tree)
        relation: Relation
        if isinstance(tree, exp.Table):
            call = function_call(tree.this)
            if call is not None and call[0] in WINDOW_FUNCTIONS:
                return self._windows(tree, alias, names)
            if call is not None and call[0] == "CHANGES":
                from runnel.planner.bind.streams.changes import changes_of

                return self._scan(
                    changes_of(self._binder, *call[1:], self._at(tree)),
                    alias or "changes",
                    names,
                    self._at(tree),
                )
            if call is not None:
                relation, name = self._table_function(tree, *call), call[0].lower()
                if isinstance(relation, Scan):
                    return self._scan(relation.table, alias or name, names, self._at(tree))
            else:
                return self._table(tree, alias, names)
        elif isinstance(tree, exp.Values):
            relation, name = self._binder.values(tree, self._outer), ""
        elif isinstance(tree, exp.Subquery) and isinstance(tree.this, exp.Table):
            return self._parenthesised(tree, alias)
        elif isinstance(tree, (exp.Subquery, exp.Query)):
            relation, name = self._binder.query(tree, self._outer), ""
        else:
            raise NotSupportedError(
                f"{tree.key.upper()} is not supported in FROM", position=self._at(tree)
            )
        relation = renamed(relation, names, f'"{alias or name}"', self._at(tree))
        return Bound(relation, scope_of(relation.fields, alias or name or None, self._outer))

    def item(self, tree: Any) -> Bound:
        """The relation and the scope of one table, query or table function, as an argument of
        another."""
        return self._item(tree, None)

    def _windows(self, tree: Any, alias: str | None, names: tuple[str, ...]) -> Bound:
        # Loaded on first use: few statements have windows over time.
        from runnel.planner.bind.streams.time_windows import WindowBinder

        position = self._at(tree)
        if tree.args.get("ordinality"):
            raise NotSupportedError(
                "WITH ORDINALITY goes with GENERATE_SERIES and UNNEST", position=position
            )
        bound = WindowBinder(self._binder, self.item, self._outer).bind(tree.this)
        shown = sum(not column.hidden for column in bound.scope.columns)
        if len(names) > shown:
            raise ProgrammingError(
                f'"{alias}" has {shown} columns, but {len(names)} names are given',
                position=position,
            )
        given = iter(names)
        columns = tuple(
            replace(
                column,
                name=column.name if column.hidden else next(given, column.name),
                qualifier=column.qualifier if alias is None else alias,
                qualified_only=column.qualified_only and alias is None,
            )
            for column in bound.scope.columns
        )
        return Bound(bound.relation, Scope(columns, self._outer))

    def _parenthesised(self, tree: Any, alias: str | None) -> Bound:
        inner = tree.this
        bound = self._item(inner, None)
        for join in [*(inner.args.get("joins") or []), *(tree.args.get("joins") or [])]:
            bound = self._join(bound, join)
        if alias is None:
            return bound
        columns = tuple(
            replace(c, qualifier=alias, qualified_only=False) for c in bound.scope.columns
        )
        return Bound(bound.relation, Scope(columns, self._outer))

    def _table(self, tree: Any, alias: str | None, names: tuple[str, ...]) -> Bound:
        position = self._at(tree)
        if tree.args.get("version") is not None:
            raise NotSupportedError(
                "FOR SYSTEM_TIME is supported for the right side of a JOIN only",
                hint=(
                    "write FROM orders o JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency "
                    "= r.currency"
                ),
                position=position,
            )
        check_schema(tree.text("catalog"), tree.text("db"), position)
        if tree.text("db").lower() == INFORMATION_SCHEMA:
            # Loaded on first use: few statements ask for it.
            from runnel.planner.bind.information_schema import schema_table

            bound = self._scan(
                schema_table(tree.name, self._binder, position), alias or tree.name, names, position
            )
            columns = tuple(
                replace(column, schema=INFORMATION_SCHEMA) for column in bound.scope.columns
            )
            return Bound(bound.relation, Scope(columns, self._outer))
        name = self._binder.unqualified(tree)
        common = None if tree.text("db") else self._binder.common_table(name, self._outer)
        if common is not None:
            relation = renamed(common, names, f'"{alias or name}"', position)
            return Bound(relation, scope_of(relation.fields, alias or name, self._outer))
        found = self._binder.lookup(name, position)
        if isinstance(found, View):
            relation = renamed(self._view(found, position), names, f'"{alias or name}"', position)
            return Bound(relation, scope_of(relation.fields, alias or found.name, self._outer))
        return self._scan(found.table, alias or found.name, names, position)

    def _scan(
        self, table: Table, qualifier: str, names: tuple[str, ...], position: Position | None
    ) -> Bound:
        """All columns of a table; `names` are new names for those that are not hidden."""
        divert = None
        if isinstance(table, ReadableTable) and table.divert_to is not None:
            from runnel.planner.bind.streams.malformed_records import divert_of

            divert = divert_of(self._binder, table, position)
        scan: Relation = Scan(
            table=table, columns=tuple(range(len(table.columns))), divert=divert, position=position
        )
        if table.event_time is not None and table.is_unbounded:
            scan = in_order(scan, table.event_time, next(self._binder.watermarks))
        shown = [c for c in table.columns if not c.hidden]
        if len(names) > len(shown):
            raise ProgrammingError(
                f'"{qualifier}" has {len(shown)} columns, but {len(names)} names are given',
                position=position,
            )
        given = iter(names)
        columns = tuple(
            ScopeColumn(
                column.name if column.hidden else next(given, column.name),
                column.type,
                i,
                qualifier,
                column.hidden,
            )
            for i, column in enumerate(table.columns)
        )
        return Bound(scan, Scope(columns, self._outer))

    def _view(self, view: View, position: Position | None) -> Relation:
        try:
            relation = self._binder.view_query(view)
            return renamed(relation, view.columns, f'view "{view.name}"', None)
        except DatabaseError as error:
            if error.position is position and position is not None:
                raise
            error.position = position
            error.detail = f'in view "{view.name}"' + (f"; {error.detail}" if error.detail else "")
            raise

    def _table_function(self, tree: Any, name: str, arguments: list[Any]) -> Relation:
        binder = ExpressionBinder(self._binder, Scope((), self._outer), "a table function")
        positional: list[Expression] = []
        named: dict[str, Expression] = {}
        for argument in arguments:
            if isinstance(argument, exp.Kwarg):
                key = argument.this.name.lower()
                if key in named:
                    raise ProgrammingError(
                        f'argument "{key}" is given twice', position=self._at(argument)
                    )
                named[key] = binder.bind(argument.expression)
            elif named:
                raise ProgrammingError(
                    "a named argument can't be followed by one without a name",
                    position=self._at(argument),
                )
            else:
                positional.append(binder.bind(argument))
        lower = name.lower()
        if lower in ("generate_series", "generate_stream"):
            from runnel.planner.bind.series import generator

            with_ordinality = bool(tree.args.get("ordinality"))
            return generator(lower, positional, named, with_ordinality, self._at(tree.this))
        if tree.args.get("ordinality"):
            raise NotSupportedError(
                "WITH ORDINALITY goes with GENERATE_SERIES and UNNEST", position=self._at(tree)
            )
        if lower in _FILE_FUNCTIONS:
            return self._file(lower, positional, named, self._at(tree))
        from runnel.planner.bind.hints import table_function_hint

        raise ProgrammingError(
            f'table function "{name}" does not exist',
            hint=table_function_hint(name),
            position=self._at(tree),
        )

    def _file(
        self,
        name: str,
        positional: list[Expression],
        named: dict[str, Expression],
        position: Position | None,
    ) -> Relation:
        for argument in (*positional, *named.values()):
            if not isinstance(argument, Literal):
                raise ProgrammingError(
                    f"{name.upper()} takes literals only", position=argument.position or position
                )
        try:
            environment = self._binder.environment
            table = environment.file_table(
                name,
                [_value(item) for item in positional],
                {key: _value(item) for key, item in named.items()},
                environment.is_confined,
            )
        except DatabaseError as error:
            error.position = error.position or position
            raise
        return Scan(table=table, columns=tuple(range(len(table.columns))), position=position)

    def _unnest(self, tree: Any, left: Bound, is_left: bool) -> Bound:
        position = self._at(tree)
        binder = ExpressionBinder(self._binder, left.scope, "UNNEST")
        arrays = tuple(binder.bind(item) for item in tree.expressions)
        for array in arrays:
            if array.type.kind is not Kind.ARRAY:
                raise ProgrammingError(
                    f"UNNEST needs an ARRAY, not {array.type}", position=array.position or position
                )
        alias, given = _alias(tree)
        wants_ordinality = bool(tree.args.get("offset"))
        names = list(given[: len(arrays)])
        if not names and len(arrays) == 1:
            names = [alias or "unnest"]
        names += [f"unnest_{i + 1}" for i in range(len(names), len(arrays))]
        ordinality = (
            (given[len(arrays)] if len(given) > len(arrays) else "ordinality")
            if wants_ordinality
            else None
        )
        relation: Relation
        if len(arrays) == 1:
            relation = Unnest(
                input=left.relation,
                array=arrays[0],
                name=names[0],
                outer=is_left,
                ordinality=ordinality,
                position=position,
            )
        else:
            relation = UnnestTogether(
                input=left.relation,
                arrays=arrays,
                names=tuple(names),
                outer=is_left,
                ordinality=ordinality,
                position=position,
            )
        width = len(left.relation.fields)
        if len(arrays) == 1 and len(given) > 1 + wants_ordinality:
            relation = self._fields_of(relation, given, wants_ordinality, position)
        elif len(given) > len(arrays) + wants_ordinality:
            count = "one column" if len(arrays) == 1 else f"{len(arrays)} columns"
            raise ProgrammingError(
                f"UNNEST gives {count}, but {len(given)} names are given", position=position
            )
        added = [
            ScopeColumn(f.name, f.type, width + i, alias)
            for i, f in enumerate(relation.fields[width:])
        ]
        return Bound(relation, Scope((*left.scope.columns, *added), self._outer))

    def _fields_of(
        self,
        relation: Relation,
        names: tuple[str, ...],
        wants_ordinality: bool,
        position: Position | None,
    ) -> Relation:
        """An UNNEST of rows with a name for each of their fields: the fields as columns."""
        columns = references(relation.fields)
        row = columns[-1 - wants_ordinality]
        wanted = len(names) - wants_ordinality
        if row.type.kind is not Kind.ROW or len(row.type.fields) != wanted:
            what = f"{len(row.type.fields)} fields" if row.type.kind is Kind.ROW else "one column"
            raise ProgrammingError(
                f"UNNEST gives {what}, but {len(names)} names are given", position=position
            )
        fields = [
            build.call("field", [row, Literal(value=item[0], type=VARCHAR)], position)
            for item in row.type.fields
        ]
        first = len(columns) - 1 - wants_ordinality
        expressions = (*columns[:first], *fields, *columns[first + 1 :])
        return Project(
            input=relation,
            expressions=expressions,
            names=(*(item.name for item in columns[:first]), *names),
            position=position,
        )

    def _join(self, left: Bound, join: Any) -> Bound:
        tree, side = join.this, (join.args.get("side") or "").upper()
        position = self._at(tree)
        if isinstance(tree, exp.Lateral) and isinstance(tree.this, exp.Unnest):
            join = join.copy()
            join.set("this", without_lateral(tree))
            tree = join.this
        if isinstance(tree, exp.Unnest):
            return self._join_unnest(left, join, side)
        version = None
        if isinstance(tree, exp.Table) and tree.args.get("version") is not None:
            version, tree = tree, tree.copy()
            tree.set("version", None)
        is_lateral = isinstance(tree, exp.Lateral) or (
            isinstance(tree, exp.Table) and function_call(tree.this) is not None
        )
        right = (
            self._lateral(tree, left, _SIDES[side]) if is_lateral else self._independent(tree, left)
        )
        for nested in tree.args.get("joins") or [] if not isinstance(tree, exp.Subquery) else []:
            right = self._join(right, nested)
        if version is not None or join.args.get("method") == "ASOF":
            return self._join_as_of(left, right, join, version)
        if join.args.get("using") or join.args.get("method") == "NATURAL":
            return self._join_using(left, right, join, _SIDES[side])
        scope = left.scope.beside(right.scope, len(left.relation.fields), position)
        on = join.args.get("on")
        if on is None:
            if side or (join.args.get("kind") or "").upper() == "INNER":
                raise ProgrammingError(
                    "this JOIN needs ON or USING", hint="or write CROSS JOIN", position=position
                )
            return Bound(_joined(JoinKind.CROSS, left, right, None, position), scope)
        condition = ExpressionBinder(self._binder, scope, "ON").condition(on)
        return Bound(_joined(_SIDES[side], left, right, condition, position), scope)

    def _join_as_of(self, left: Bound, right: Bound, join: Any, version: Any) -> Bound:
        # Loaded on first use: few statements have one.
        from runnel.planner.bind.streams.as_of import as_of, at_version, version_of

        position = self._at(join.this)
        kind = _SIDES[(join.args.get("side") or "").upper()]
        width = len(left.relation.fields)
        scope = left.scope.beside(right.scope, width, position)
        if join.args.get("using") is not None and version is None:
            names = [item.name for item in join.args["using"]]
            found = [
                (
                    left.scope.resolve(name, None, position),
                    right.scope.resolve(name, None, position),
                )
                for name in names
            ]
            pairs = [
                (first, transform(second, lambda item: _shifted(item, width)))
                for first, second in found
            ]
            equal = [build.call("eq", [*pair], position) for pair in pairs[:-1]]
            condition = build.call(
                "and", [*equal, build.call("ge", [*pairs[-1]], position)], position
            )
            return self._merged(
                as_of(kind, left.relation, right.relation, condition, position),
                scope,
                names,
                pairs,
                kind,
            )
        on = join.args.get("on")
        if on is None:
            raise ProgrammingError(
                "FOR SYSTEM_TIME AS OF needs ON", hint="write ON a.k = b.k", position=position
            )
        condition = ExpressionBinder(self._binder, scope, "ON").condition(on)
        if version is not None:
            moment = ExpressionBinder(self._binder, left.scope, "FOR SYSTEM_TIME").bind(
                version_of(version, position)
            )
            condition = at_version(left.relation, right.relation, moment, condition, position)
        return Bound(
            as_of(kind, left.relation, right.relation, condition, position, version is not None),
            scope,
        )

    def _independent(self, tree: Any, left: Bound) -> Bound:
        """An item that knows nothing of the columns left of it."""
        try:
            return self._item(tree, left)
        except ProgrammingError as error:
            if isinstance(tree, exp.Subquery):
                from runnel.planner.bind.hints import lateral_hint

                error.hint = lateral_hint(error, left.scope) or error.hint
            raise

    def _lateral(self, tree: Any, left: Bound, kind: JoinKind) -> Bound:
        """An item that may refer to the columns left of it; a `LateralBound` where it does."""
        around = Scope(left.scope.columns, self._outer)
        bound = FromBinder(self._binder, around)._item(tree, None)
        scope = Scope(bound.scope.columns, self._outer)
        used = [column for column in outer_columns(bound.relation) if column.depth == 1]
        if not used:
            return Bound(deepened(bound.relation, -1), scope)
        if kind in (JoinKind.RIGHT, JoinKind.FULL):
            raise ProgrammingError(
                f'the right side of a {kind.name} JOIN can\'t refer to column "{used[0].name}" of '
                "its left side",
                hint="use an INNER or a LEFT JOIN",
                position=used[0].position or self._at(tree),
            )
        return LateralBound(bound.relation, scope)

    def _join_unnest(self, left: Bound, join: Any, side: str) -> Bound:
        on = join.args.get("on")
        if side not in ("", "LEFT"):
            raise NotSupportedError(
                f"{side} JOIN with UNNEST is not supported", position=self._at(join.this)
            )
        if on is None or (isinstance(on, exp.Boolean) and on.this):
            return self._unnest(join.this, left, is_left=side == "LEFT")
        right = self._lateral(join.this, left, _SIDES[side])
        scope = left.scope.beside(right.scope, len(left.relation.fields), self._at(join.this))
        condition = ExpressionBinder(self._binder, scope, "ON").condition(on)
        return Bound(_joined(_SIDES[side], left, right, condition, self._at(join.this)), scope)

    def _join_using(self, left: Bound, right: Bound, join: Any, kind: JoinKind) -> Bound:
        position = self._at(join.this)
        if join.args.get("using"):
            named = [(item.name, self._at(item)) for item in join.args["using"]]
        else:
            theirs = {c.name.lower() for c in right.scope.columns if not c.hidden}
            named = [
                (c.name, position)
                for c in left.scope.star(None, position)
                if c.name.lower() in theirs
            ]
        width = len(left.relation.fields)
        scope = left.scope.beside(right.scope, width, position)
        pairs = []
        for name, at in named:
            first = left.scope.resolve(name, None, at)
            second = right.scope.resolve(name, None, at)
            pairs.append((first, transform(second, lambda item: _shifted(item, width))))
        equal = [build.call("eq", [a, b], position) for a, b in pairs]
        condition = (
            build.call("and", equal, position) if len(equal) > 1 else (equal[0] if equal else None)
        )
        if condition is None and kind is JoinKind.INNER:
            relation = _joined(JoinKind.CROSS, left, right, None, position)
        else:
            relation = _joined(kind, left, right, condition or _true(), position)
        return self._merged(relation, scope, [name for name, _ in named], pairs, kind)

    def _merged(
        self,
        relation: Relation,
        scope: Scope,
        names: list[str],
        pairs: list[tuple[Expression, Expression]],
        kind: JoinKind,
    ) -> Bound:
        merged = []
        for name, (first, second) in zip(names, pairs, strict=True):
            shared = common_type(first.type, second.type)
            assert shared is not None
            sides = [first, second]
            if not loses_digits(first.type, second.type):
                sides = [build.cast(side, shared, implicit=True) for side in sides]
            elif kind is JoinKind.FULL:
                sides = [exact_cast(side, shared) for side in sides]
            if kind is JoinKind.FULL:
                merged.append((name, build.coalesce(sides, first.position)))
            else:
                merged.append((name, sides[1] if kind is JoinKind.RIGHT else sides[0]))
        count = len(merged)
        fields = relation.fields
        project = Project(
            input=relation,
            expressions=(*(item for _, item in merged), *references(fields)),
            names=(*(name for name, _ in merged), *(item.name for item in fields)),
        )
        used = {name.lower() for name in names}
        columns = [ScopeColumn(name, item.type, i) for i, (name, item) in enumerate(merged)]
        for column in scope.columns:
            only = column.qualified_only or column.name.lower() in used
            columns.append(replace(column, index=column.index + count, qualified_only=only))
        return Bound(project, Scope(tuple(columns), scope.outer))


def in_order(scan: Relation, time: EventTime, watermark: int) -> Relation:
    """A scan of all columns of a table, with the watermark that its event time makes."""
    return ImposeOrder(
        input=scan,
        time=time.column,
        lag=time.lag,
        watermark=watermark,
        idle_timeout=time.idle_timeout,
        position=scan.position,
    )


def without_lateral(tree: Any) -> Any:
    """What stands behind LATERAL, with the alias that stands around it."""
    inner = tree.this.copy()
    if not isinstance(inner, exp.Unnest | exp.Subquery):
        inner = exp.Table(this=inner, ordinality=tree.args.get("ordinality"))
    if tree.args.get("alias") is not None:
        inner.set("alias", tree.args["alias"].copy())
    return inner


def _joined(
    kind: JoinKind,
    left: Bound,
    right: Bound,
    condition: Expression | None,
    position: Position | None,
) -> Relation:
    join = DependentJoin if isinstance(right, LateralBound) else Join
    return join(
        kind=kind, left=left.relation, right=right.relation, condition=condition, position=position
    )


def _shifted(item: Expression, by: int) -> Expression:
    return replace(item, index=item.index + by) if isinstance(item, Column) else item


def _true() -> Expression:
    return Literal(value=True, type=BOOLEAN)


def _value(argument: Expression) -> Any:
    assert isinstance(argument, Literal)
    return argument.value


def _alias(tree: Any) -> tuple[str | None, tuple[str, ...]]:
    alias = tree.args.get("alias")
    if alias is None:
        return None, ()
    if isinstance(alias, exp.TableAlias):
        name = alias.this.name if alias.this is not None else None
        return name, tuple(column.name for column in alias.args.get("columns") or [])
    return str(alias.name), ()
