"""Binding of INSERT with ON CONFLICT, UPDATE … FROM, DELETE … USING and MERGE, and of all writes
with RETURNING, as a query of the rows that the statement changes.

Each row has the action (`plans.INSERTED` …), the address of the row if the table has row numbers,
and the visible columns of the table: with the new values, or the old ones of a deleted row.

    UPDATE t SET v = s.v FROM s WHERE t.id = s.id     over t(id, v), with row numbers:

    action   rowid  id  v
    UPDATED  0      1   10
    UPDATED  2      3   30
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from runnel.base.frozen import frozen
from runnel.catalog import dependency_version
from runnel.connector import KeyedTable, RowAddressedTable, WriteMode
from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.expressions import build
from runnel.expressions.nodes import Column, Expression, Literal
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import BoundRelation, Scope, ScopeColumn
from runnel.planner.bind.tables.definitions import default_of
from runnel.planner.bind.tables.from_clause import FromBinder
from runnel.planner.bind.tables.generated import (
    check_assigned,
    check_written,
    is_computed,
    recomputed,
)
from runnel.planner.bind.tables.joins import joined
from runnel.planner.bind.write import (
    bind_insert,
    changed_table,
    column_index,
    target_scope,
)
from runnel.planner.parse.dml import is_default
from runnel.planner.parse.merge import MergeBranch, MergeInto
from runnel.planner.parse.syntax import ColumnAssignment, Delete, Insert, Name, Update
from runnel.planner.plans import DELETED, INSERTED, UPDATED, InsertRule, RowChanges
from runnel.relation.nodes import Filter, JoinKind, Project, Relation, Scan, references
from runnel.sqltypes import BIGINT, BOOLEAN, INTEGER, NULL

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder

Target = KeyedTable | RowAddressedTable


@frozen
class BoundChange:
    """The rows that a statement changes.

    relation: the rows.
    table, columns, rule, key, allows_repeats: as in `plans.ChangePlan`.
    """

    table: Target
    relation: Relation
    columns: tuple[int, ...]
    rule: InsertRule = InsertRule.FAIL
    key: tuple[str, ...] = ()
    allows_repeats: bool = False


def bind_change(
    binder: StatementBinder, statement: Insert | Update | Delete | MergeInto
) -> BoundChange:
    """The rows that a statement changes."""
    if binder.environment.in_job:
        raise NotSupportedError(
            "a job can't run ON CONFLICT, RETURNING, MERGE, UPDATE and DELETE",
            hint="use SINK INTO, which inserts or replaces by key",
            position=statement.position,
        )
    match statement:
        case Insert():
            bound = _Insert(binder, statement).bound()
        case Update():
            bound = _Update(binder, statement).bound()
        case Delete():
            bound = _Delete(binder, statement).bound()
        case MergeInto():
            bound = _Merge(binder, statement).bound()
    if bound.relation.is_unbounded:
        raise NotSupportedError(
            "the rows of a source without an end can't be changed or returned",
            hint="use CREATE JOB j AS SINK INTO t SELECT …, which inserts or replaces by key",
            position=statement.position,
        )
    return bound


class _Change:
    """The target of a change."""

    def __init__(
        self, binder: StatementBinder, name: Name, alias: Name | None, mode: WriteMode
    ) -> None:
        self.binder = binder
        self.name = name
        self.table: Target = changed_table(binder, name, mode)
        if not isinstance(self.table, KeyedTable | RowChanges):
            raise NotSupportedError(
                f"ON CONFLICT, RETURNING, MERGE, FROM and USING of a change are not supported by "
                f"connector {self.table.connector}",
                hint="write INSERT, UPDATE or DELETE without them",
                position=name.position,
            )
        self.columns = tuple(i for i, c in enumerate(self.table.columns) if not c.hidden)
        self.written = tuple(i for i in self.columns if not is_computed(self.table, i))
        self._scope = target_scope(binder, self.table, name, alias)

    def scan(self) -> BoundRelation:
        """All rows of the target, with all columns."""
        table = self.table
        relation = Scan(table=table, columns=tuple(range(len(table.columns))))
        return BoundRelation(relation, self._scope)

    @property
    def marker(self) -> int:
        """The index of a column of the target that is never NULL."""
        table = self.table
        return table.row_id if isinstance(table, RowAddressedTable) else table.key_columns[0]

    def old(self, offset: int = 0) -> dict[int, Expression]:
        """The target's own values of its visible columns, as columns of a relation where they begin
        at `offset`."""
        return {i: self.column(i, offset) for i in self.columns}

    def column(self, index: int, offset: int = 0) -> Expression:
        column = self.table.columns[index]
        return Column(index=index + offset, name=column.name, type=column.type)

    def projected(
        self, source: Relation, action: Expression, values: Mapping[int, Expression], offset: int
    ) -> Relation:
        """The rows of the change; in `source` the target's columns begin at `offset`."""
        table = self.table
        expressions, names = [action], ["action"]
        if isinstance(table, RowAddressedTable):
            expressions.append(
                self.column(table.row_id, offset) if offset >= 0 else _null_address()
            )
            names.append("address")
        positions = {i: len(names) + n for n, i in enumerate(self.columns)}
        expressions += [values[i] for i in self.columns]
        names += [table.columns[i].name for i in self.columns]
        rows = Project(input=source, expressions=tuple(expressions), names=tuple(names))
        return recomputed(self.binder, table, rows, positions)

    def assigned(self, items: Sequence[ColumnAssignment], scope: Scope) -> dict[int, Expression]:
        """The values of SET by column index."""
        found: dict[int, Expression] = {}
        for item in items:
            index = column_index(self.table, self.name, item.column)
            if index in self.table.key_columns or index not in self.columns:
                what = "the key" if index in self.table.key_columns else "the address of a row"
                raise ProgrammingError(
                    f'cannot update "{item.column.text}", which is {what}',
                    hint="delete the row and insert it with its new key",
                    position=item.column.position,
                )
            check_assigned(self.table, self.name, index, item)
            found[index] = self.value(index, item.value, scope, "SET")
        return found

    def value(self, index: int, tree: Any, scope: Scope, clause: str) -> Expression:
        """A written value of a column; DEFAULT is its default."""
        if is_default(tree):
            return self.default(index)
        column = self.table.columns[index]
        bound = ExpressionBinder(self.binder, scope, clause).bind(tree)
        return build.assign(bound, column.type, column.name)

    def default(self, index: int) -> Expression:
        """The value of a column that a new row does not set."""
        column = self.table.columns[index]
        return default_of(
            self.binder, getattr(self.table, "definition", None), column.name, column.type
        )

    def with_source(self, tree: Any | None, where: Any | None) -> tuple[Relation, Scope]:
        """The target joined with the items of FROM or USING, filtered by the condition."""
        bound = self.scan()
        if tree is not None:
            items = _source(self.binder, tree)
            width = len(bound.relation.fields)
            scope = bound.scope.joined_with(items.scope, width, self.name.position)
            bound = BoundRelation(joined(JoinKind.CROSS, bound, items, None, None), scope)
        if where is None:
            return bound.relation, bound.scope
        condition = ExpressionBinder(self.binder, bound.scope, "WHERE").condition(where)
        return Filter(input=bound.relation, condition=condition), bound.scope


class _Update(_Change):
    def __init__(self, binder: StatementBinder, statement: Update) -> None:
        super().__init__(binder, statement.table, statement.alias, WriteMode.UPDATE)
        self._statement = statement

    def bound(self) -> BoundChange:
        statement = self._statement
        source, scope = self.with_source(statement.source, statement.where)
        values = {**self.old(), **self.assigned(statement.assignments, scope)}
        relation = self.projected(source, _action(UPDATED), values, 0)
        return BoundChange(self.table, relation, self.columns, allows_repeats=True)


class _Delete(_Change):
    def __init__(self, binder: StatementBinder, statement: Delete) -> None:
        super().__init__(binder, statement.table, statement.alias, WriteMode.DELETE)
        self._statement = statement

    def bound(self) -> BoundChange:
        source, _ = self.with_source(self._statement.source, self._statement.where)
        relation = self.projected(source, _action(DELETED), self.old(), 0)
        return BoundChange(self.table, relation, self.columns, allows_repeats=True)


class _Insert(_Change):
    def __init__(self, binder: StatementBinder, statement: Insert) -> None:
        super().__init__(binder, statement.table, statement.alias, statement.mode)
        self._statement = statement

    def bound(self) -> BoundChange:
        statement, conflict = self._statement, self._statement.conflict
        written = bind_insert(self.binder, statement)
        assert written.relation is not None
        given = dict(zip(written.columns, references(written.relation.fields), strict=True))
        values = {i: given[i] if i in given else self.default(i) for i in self.columns}
        rule = InsertRule.FAIL
        if statement.replaces or statement.mode is WriteMode.SINK:
            rule = InsertRule.REPLACE
        if conflict is None:
            relation = self.projected(written.relation, _action(INSERTED), values, -1)
            return BoundChange(self.table, relation, self.columns, rule)
        key = self._key(conflict.columns, conflict.position, conflict.assignments is not None)
        if conflict.assignments is None:
            relation = self.projected(written.relation, _action(INSERTED), values, -1)
            return BoundChange(self.table, relation, self.columns, InsertRule.IGNORE, key)
        new = Project(
            input=written.relation,
            expressions=tuple(values[i] for i in self.columns),
            names=tuple(self.table.columns[i].name for i in self.columns),
        )
        return self._updating(new, key)

    def _key(
        self, listed: Sequence[Name], position: Position, is_required: bool
    ) -> tuple[str, ...]:
        """The columns of the key by which rows conflict; () for any key."""
        keys = self._keys()
        if not keys:
            raise ProgrammingError(
                f'table "{self.name.text}" has no PRIMARY KEY or UNIQUE',
                hint="no row of it conflicts with another: leave the clause out",
                position=position,
            )
        if listed:
            names = {
                self.table.columns[column_index(self.table, self.name, item)].name.lower()
                for item in listed
            }
            found = [key for key in keys if {name.lower() for name in key} == names]
            if not found:
                raise ProgrammingError(
                    f'table "{self.name.text}" has no key with the columns of ON CONFLICT',
                    hint="its keys are " + ", ".join(f"({', '.join(key)})" for key in keys),
                    position=listed[0].position,
                )
            return found[0]
        if is_required and len(keys) > 1:
            raise ProgrammingError(
                f'table "{self.name.text}" has several keys: DO UPDATE needs one of them',
                hint="write " + " or ".join(f"ON CONFLICT ({', '.join(key)})" for key in keys),
                position=position,
            )
        return keys[0] if is_required else ()

    def _keys(self) -> list[tuple[str, ...]]:
        table = self.table
        if isinstance(table, RowChanges):
            snapshot, found = self.binder.snapshot, self.binder.snapshot.find(self.name.text)
            name = self.name.text if found is None else found.name
            self.binder.note("indexes", name, dependency_version(snapshot, "indexes", name))
            return list(table.unique_keys())
        return [tuple(table.columns[i].name for i in table.key_columns)]

    def _updating(self, new: Relation, key: tuple[str, ...]) -> BoundChange:
        """ON CONFLICT DO UPDATE: the new rows with the existing row of their key, if there is
        one."""
        conflict = self._statement.conflict
        assert conflict is not None and conflict.assignments is not None
        width, existing = len(new.fields), self.scan()
        excluded = tuple(
            ScopeColumn(item.name, item.type, i, "excluded", qualified_only=True)
            for i, item in enumerate(new.fields)
        )
        scope = Scope((*excluded, *existing.scope.shifted(width)))
        position = {self.table.columns[i].name.lower(): n for n, i in enumerate(self.columns)}
        equal = []
        for name in key:
            left = references(new.fields)[position[name.lower()]]
            right = self.column(self.columns[position[name.lower()]], width)
            equal.append(build.call("eq", [left, right], conflict.position))
        condition = equal[0] if len(equal) == 1 else build.call("and", equal, conflict.position)
        left_side = BoundRelation(new, Scope(excluded))
        relation = joined(JoinKind.LEFT, left_side, existing, condition, None)
        is_new = build.call("is_null", [self.column(self.marker, width)], conflict.position)
        if conflict.where is not None:
            matches = ExpressionBinder(self.binder, scope, "WHERE").condition(conflict.where)
            relation = Filter(
                input=relation, condition=build.call("or", [is_new, matches], conflict.position)
            )
        changed = {**self.old(width), **self.assigned(conflict.assignments, scope)}
        inserted = references(new.fields)
        values = {
            i: build.case([is_new], [inserted[n]], changed[i]) for n, i in enumerate(self.columns)
        }
        action = build.case([is_new], [_action(INSERTED)], _action(UPDATED))
        return BoundChange(
            self.table, self.projected(relation, action, values, width), self.columns, key=key
        )


class _Merge(_Change):
    def __init__(self, binder: StatementBinder, statement: MergeInto) -> None:
        super().__init__(binder, statement.table, statement.alias, WriteMode.UPDATE)
        self._statement = statement

    def bound(self) -> BoundChange:
        statement = self._statement
        if isinstance(self.table, KeyedTable):
            raise NotSupportedError(
                f"MERGE is not supported by connector {self.table.connector}",
                hint="use INSERT … ON CONFLICT (__key) DO UPDATE SET …, or DELETE … USING …",
                position=statement.position,
            )
        source, target = _source(self.binder, statement.source), self.scan()
        marked = Project(
            input=source.relation,
            expressions=(*references(source.relation.fields), _true()),
            names=(*(item.name for item in source.relation.fields), "is source"),
        )
        width = len(marked.fields)
        source_scope = source.scope
        scope = source_scope.joined_with(target.scope, width, statement.table.position)
        condition = self._condition(source_scope, target.scope, scope, width)
        kinds = {branch.kind for branch in statement.branches}
        kind = {
            (False, False): JoinKind.INNER,
            (True, False): JoinKind.LEFT,
            (False, True): JoinKind.RIGHT,
            (True, True): JoinKind.FULL,
        }["by target" in kinds, "by source" in kinds]
        relation = joined(kind, BoundRelation(marked, source_scope), target, condition, None)
        return self._branches(relation, scope, width, source)

    def _condition(self, source: Scope, target: Scope, scope: Scope, width: int) -> Expression:
        statement = self._statement
        if statement.on is not None:
            return ExpressionBinder(self.binder, scope, "ON").condition(statement.on)
        equal = []
        for name in statement.using:
            left = source.resolve(name.text, None, name.position)
            right = target.resolve(name.text, None, name.position)
            assert isinstance(right, Column)
            moved = Column(index=right.index + width, name=right.name, type=right.type)
            equal.append(build.call("eq", [left, moved], name.position))
        return equal[0] if len(equal) == 1 else build.call("and", equal, statement.position)

    def _branches(
        self, relation: Relation, scope: Scope, width: int, source: BoundRelation
    ) -> BoundChange:
        from_source = build.call("is_not_null", [references(relation.fields)[width - 1]], None)
        in_target = build.call("is_not_null", [self.column(self.marker, width)], None)
        conditions, actions = [], []
        values: dict[int, list[Expression]] = {i: [] for i in self.columns}
        for branch in self._statement.branches:
            condition = {
                "matched": build.call("and", [from_source, in_target], None),
                "by target": build.call("not", [in_target], None),
                "by source": build.call("not", [from_source], None),
            }[branch.kind]
            if branch.condition is not None:
                own = ExpressionBinder(self.binder, scope, "WHEN").condition(branch.condition)
                condition = build.call("and", [condition, own], branch.position)
            conditions.append(condition)
            actions.append(_ACTIONS[branch.action])
            new = self._values(branch, scope, width, source)
            for i in self.columns:
                values[i].append(new[i])
        cases = {i: build.case(conditions, items) for i, items in values.items()}
        action = build.case(conditions, actions, _action(None))
        rows = self.projected(relation, action, cases, width)
        changes = Filter(
            input=rows,
            condition=build.call("is_not_null", [references(rows.fields)[0]], None),
        )
        return BoundChange(self.table, changes, self.columns)

    def _values(
        self, branch: MergeBranch, scope: Scope, width: int, source: BoundRelation
    ) -> dict[int, Expression]:
        """The values of the columns of a row to which a branch applies."""
        if branch.action == "insert":
            return self._inserted(branch, scope, source)
        values = self.old(width)
        if branch.assignments is not None:
            values |= self.assigned(branch.assignments, scope)
        elif branch.action == "update":
            values |= self._of_source(branch, source, self.written)
        return values

    def _inserted(
        self, branch: MergeBranch, scope: Scope, source: BoundRelation
    ) -> dict[int, Expression]:
        targets = self.written
        if branch.columns is not None:
            targets = tuple(column_index(self.table, self.name, c) for c in branch.columns)
        values = (None,) * len(targets) if branch.values is None else branch.values
        for i, value in zip(targets, values, strict=False):
            if value is None or not is_default(value):
                check_written(self.table, self.name, i, branch.position)
        if branch.values is None:
            given = self._of_source(branch, source, targets)
        elif len(branch.values) != len(targets):
            raise ProgrammingError(
                f"INSERT of MERGE has {len(branch.values)} values for {len(targets)} columns",
                hint="the columns are " + ", ".join(self.table.columns[i].name for i in targets),
                position=branch.position,
            )
        else:
            given = {
                i: self.value(i, tree, scope, "VALUES")
                for i, tree in zip(targets, branch.values, strict=True)
            }
        return {i: given[i] if i in given else self.default(i) for i in self.columns}

    def _of_source(
        self, branch: MergeBranch, source: BoundRelation, targets: Sequence[int]
    ) -> dict[int, Expression]:
        """The columns of the source, assigned to the target's by position or by name."""
        visible = [item for item in source.scope.columns if not item.hidden]
        columns = self.table.columns
        if branch.is_by_name:
            by_name = {item.name.lower(): item for item in visible}
            pairs = [
                (i, by_name[columns[i].name.lower()])
                for i in targets
                if columns[i].name.lower() in by_name
            ]
        else:
            if len(visible) != len(targets):
                raise ProgrammingError(
                    f"the source has {len(visible)} columns for {len(targets)} of table "
                    f'"{self.name.text}"',
                    hint="list the columns and values, or add BY NAME",
                    position=branch.position,
                )
            pairs = list(zip(targets, visible, strict=True))
        return {
            i: build.assign(item.expression(branch.position), columns[i].type, columns[i].name)
            for i, item in pairs
        }


def _source(binder: StatementBinder, tree: Any) -> BoundRelation:
    """The items of FROM of a sqlglot SELECT."""
    return FromBinder(binder, None).bind(tree.args["from_"], tree.args.get("joins") or [])


def _action(action: int | None) -> Expression:
    return Literal(value=action, type=INTEGER)


def _null_address() -> Expression:
    return build.cast(Literal(value=None, type=NULL), BIGINT, implicit=True)


def _true() -> Expression:
    return Literal(value=True, type=BOOLEAN)


_ACTIONS = {
    "insert": _action(INSERTED),
    "update": _action(UPDATED),
    "delete": _action(DELETED),
    "nothing": _action(None),
}
