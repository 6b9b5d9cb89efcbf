"""Binding of INSERT, SINK, UPDATE and DELETE: the rows, and the table and columns to which they are
written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from runnel.base.frozen import frozen
from runnel.base.schemas import VIEW_TYPE
from runnel.catalog import Mapping, Table, TableColumn, View
from runnel.connector import KeyedTable, ReadableTable, RowAddressedTable, WritableTable, WriteMode
from runnel.errors import NotSupportedError, ProgrammingError, UndefinedColumn, as_written, suggest
from runnel.expressions import build
from runnel.expressions.nodes import Expression, Literal, conjuncts, walk
from runnel.planner.bind.scalars.expression import ExpressionBinder
from runnel.planner.bind.scope import Scope, ScopeColumn
from runnel.planner.environment import JobNeeded
from runnel.planner.parse.dml import is_default
from runnel.planner.parse.syntax import Delete, Insert, Name, Update
from runnel.planner.physical.key_lookup import equated_key
from runnel.planner.plans import RowChanges
from runnel.relation.nodes import Field, Filter, Project, Relation, Scan, Values, references
from runnel.relation.subqueries import Exists, InSubquery, ScalarSubquery
from runnel.sqltypes import NULL

if TYPE_CHECKING:
    from runnel.planner.bind.binders import StatementBinder


@frozen
class BoundWrite:
    """A bound DML statement.

    table: the table that is written.
    mode: how the rows are written.
    columns: the indexes of the table's columns that are written.
    relation: the rows to write; None: all rows are deleted.
    rows: the rows of `relation` as expressions; None if one of them reads a column.
    key: the values of the key columns; None unless it is an UPDATE or DELETE of a single key.
    assignments: of an UPDATE: (index of a column, expression over the table's columns).
    """

    table: WritableTable
    mode: WriteMode
    columns: tuple[int, ...]
    relation: Relation | None
    rows: tuple[tuple[Expression, ...], ...] | None = None
    key: tuple[Expression, ...] | None = None
    assignments: tuple[tuple[int, Expression], ...] = ()


def bind_insert(binder: StatementBinder, statement: Insert) -> BoundWrite:
    """Binds INSERT INTO and SINK INTO."""
    mode = WriteMode.SINK if statement.replaces else statement.mode
    table = writable(binder, statement.table, mode)
    if statement.partition:
        statement = _with_partition(table, statement)
    if mode is WriteMode.SINK and isinstance(table, RowChanges):
        _check_replacement(table.unique_keys(), statement)
    tree = statement.query.expression
    is_values = _is_values(tree) and not statement.by_name
    source = binder.statement_query(statement.query) if not is_values else None
    if statement.has_default_values:
        columns: tuple[int, ...] = ()
    elif statement.by_name and source is not None:
        columns = _named_columns(table, statement, source)
    else:
        columns = target_columns(table, statement.table, statement.columns)
    if is_values:
        columns, tree = _without_defaults(table, _as_wide(table, statement, columns, tree), tree)
    if has_generated(table):
        # Loaded on first use: few tables have computed columns.
        from runnel.planner.bind.tables.generated import check_insert

        check_insert(table, statement, columns, tree if is_values else None)
    others = defaults(binder, table, columns)
    if statement.has_default_values and not others:
        others = _nulls(table)
    if source is None:
        rows = _value_rows(binder, table, columns, tree)
        rows = tuple((*row, *others.values()) for row in rows)
        columns = (*columns, *others)
        fields = tuple(Field(table.columns[i].name, table.columns[i].type) for i in columns)
        write = BoundWrite(table, mode, columns, Values(rows=rows, columns=fields), rows)
        return not_null_checked(binder, statement.table, computed(binder, write))
    if source.is_unbounded and not binder.environment.in_job:
        raise _must_be_job(binder, statement)
    if len(source.fields) != len(columns):
        raise ProgrammingError(
            f"{statement.mode.name} has {len(columns)} target columns, but the query returns "
            f"{len(source.fields)}",
            position=statement.query.position,
        )
    write = computed(binder, rows_of(table, mode, columns, source, others))
    return not_null_checked(binder, statement.table, write)


def not_null_checked(binder: StatementBinder, name: Name, write: BoundWrite) -> BoundWrite:
    """A write of new rows that fails if a column of a mapping with NOT NULL is NULL."""
    found = binder.lookup(name.text, name.position)
    if not isinstance(found, Mapping) or not found.not_null or write.relation is None:
        return write
    # Loaded on first use: few mappings have NOT NULL.
    from runnel.planner.bind.tables.definitions import present_rows

    relation = present_rows(found, name.position, write.columns, write.relation)
    return replace(write, relation=relation, rows=None)


def has_generated(table: Table) -> bool:
    """Whether columns of the table are set by the table."""
    definition = getattr(table, "definition", None)
    return definition is not None and bool(definition.computed or definition.identities)


def computed(binder: StatementBinder, write: BoundWrite) -> BoundWrite:
    """A write of new rows with the values of the computed columns."""
    if not has_generated(write.table) or write.relation is None:
        return write
    # Loaded on first use: few tables have computed columns.
    from runnel.planner.bind.tables.generated import with_computed

    columns, relation = with_computed(binder, write.table, write.columns, write.relation)
    if relation is write.relation:
        return write
    return replace(write, columns=columns, relation=relation, rows=None)


def _as_wide(
    table: Table, statement: Insert, columns: tuple[int, ...], tree: Any
) -> tuple[int, ...]:
    """The target columns of VALUES. Without a list they are the columns that are not computed;
    or all, if the rows are as wide: then DEFAULT is the value of a computed column."""
    visible = tuple(i for i, column in enumerate(table.columns) if not column.hidden)
    if statement.columns is not None or len(columns) == len(visible):
        return columns
    first = tree.expressions[0]
    width = len(first.expressions) if first.key == "tuple" else 1
    return visible if width == len(visible) else columns


def _must_be_job(binder: StatementBinder, statement: Insert) -> NotSupportedError:
    """The error for a write of a stream, with the statement to execute; JobNeeded if the statement
    starts the job."""
    # Loaded on first use: it is an error in most cases.
    from runnel.planner.parse.flink.statement_set import job_statement

    start = 0 if statement.position is None else statement.position.offset
    written = job_statement(statement.sql[start:], statement.table.text)
    named = [
        binder.snapshot.objects.get(name) for kind, name in binder.dependencies if kind == "object"
    ]
    is_of_flink = any(isinstance(item, Mapping) and item.flink_text is not None for item in named)
    kind = JobNeeded if is_of_flink and statement.mode is WriteMode.INSERT else NotSupportedError
    return kind(
        f"{statement.mode.name} from a source without an end must run as a job",
        hint=f"write {written}",
        position=statement.position,
    )


def _with_partition(table: Table, statement: Insert) -> Insert:
    """INSERT INTO t PARTITION (k = 'v') SELECT a, b as INSERT INTO t (a, b, k) SELECT *, 'v' FROM
    (SELECT a, b)."""
    fixed = [item.column for item in statement.partition]
    names = {name.text.lower() for name in fixed}
    columns = statement.columns
    if columns is None:
        columns = tuple(
            Name(column.name, statement.table.position)
            for column in table.columns
            if not column.hidden and column.name.lower() not in names
        )
    query = exp.Select(
        expressions=[exp.Star(), *(item.value for item in statement.partition)],
        from_=exp.From(this=exp.Subquery(this=statement.query.expression)),
    )
    return replace(
        statement,
        columns=(*columns, *fixed),
        query=replace(statement.query, expression=query),
        partition=(),
    )


def _check_replacement(keys: Sequence[tuple[str, ...]], statement: Insert) -> None:
    """Raises ProgrammingError if a table has no key by which OR REPLACE can replace rows, or if it
    has several keys, by which one row could replace several."""
    if statement.replaces and not keys:
        raise ProgrammingError(
            f'table "{statement.table.text}" has no PRIMARY KEY or UNIQUE',
            hint="no row of it is replaced by another: write INSERT INTO",
            position=statement.table.position,
        )
    if len(keys) > 1:
        raise ProgrammingError(
            f'table "{statement.table.text}" has several keys, so a row could replace several rows',
            hint="write INSERT INTO … "
            + " or ".join(f"ON CONFLICT ({', '.join(key)}) DO UPDATE SET …" for key in keys),
            position=statement.table.position,
        )


def rows_of(
    table: WritableTable,
    mode: WriteMode,
    columns: tuple[int, ...],
    source: Relation,
    others: dict[int, Expression],
) -> BoundWrite:
    """The write of the rows of `source` to columns of a table; `others` has the values of the other
    columns, by index."""
    expressions = tuple(
        build.assign(column, table.columns[i].type, table.columns[i].name)
        for column, i in zip(references(source.fields), columns, strict=True)
    )
    columns = (*columns, *others)
    names = tuple(table.columns[i].name for i in columns)
    relation = Project(input=source, expressions=(*expressions, *others.values()), names=names)
    return BoundWrite(table, mode, columns, relation)


def _named_columns(table: Table, statement: Insert, source: Relation) -> tuple[int, ...]:
    """The target columns of the query's columns, by name."""
    if statement.columns is not None:
        raise ProgrammingError(
            "INSERT BY NAME has no list of columns",
            hint="leave the list or BY NAME out",
            position=statement.columns[0].position,
        )
    names = tuple(Name(item.name, statement.query.position) for item in source.fields)
    return target_columns(table, statement.table, names)


def _without_defaults(
    table: Table, columns: tuple[int, ...], tree: Any
) -> tuple[tuple[int, ...], Any]:
    """The columns and VALUES without the columns whose value is DEFAULT in each row."""
    rows = [list(row.expressions) if row.key == "tuple" else [row] for row in tree.expressions]
    written = [[is_default(item) for item in row] for row in rows]
    if not any(map(any, written)) or any(len(row) != len(columns) for row in rows):
        return columns, tree
    dropped = {n for n in range(len(columns)) if all(row[n] for row in written)}
    if len(dropped) == len(columns) or not dropped:
        return columns, tree
    for row in tree.expressions:
        row.set("expressions", [item for n, item in enumerate(row.expressions) if n not in dropped])
    return tuple(i for n, i in enumerate(columns) if n not in dropped), tree


def _nulls(table: Table) -> dict[int, Expression]:
    """NULL for the first visible column: DEFAULT VALUES of a table without defaults."""
    first = _assignable(table)[0]
    column = table.columns[first]
    return {first: build.assign(Literal(value=None, type=NULL), column.type, column.name)}


def defaults(
    binder: StatementBinder, table: Table, columns: tuple[int, ...]
) -> dict[int, Expression]:
    """The values of the columns of a new row that a statement does not set, by index; only of
    columns with DEFAULT."""
    definition = getattr(table, "definition", None)
    if definition is None or not definition.defaults:
        return {}
    # Loaded on first use: few tables have defaults.
    from runnel.planner.bind.tables.definitions import default_of

    return {
        i: default_of(binder, definition, column.name, column.type)
        for i, column in enumerate(table.columns)
        if i not in columns and column.name.lower() in definition.defaults
    }


def bind_update(binder: StatementBinder, statement: Update) -> BoundWrite:
    """Binds UPDATE. The relation has the matching rows, with all columns of the table and with the
    new values."""
    table, scope = _keyed(binder, statement.table, statement.alias, WriteMode.UPDATE)
    assigned = _assigned(binder, table, scope, statement)
    source, condition = _source(binder, table, scope, statement.where)
    if isinstance(table, RowAddressedTable):
        if has_generated(table):
            from runnel.planner.bind.tables.generated import with_recomputed

            source, assigned = with_recomputed(binder, table, source, assigned)
        return _addressed(table, source, assigned)
    expressions = tuple(
        assigned.get(i, column) for i, column in enumerate(references(source.fields))
    )
    names = tuple(column.name for column in table.columns)
    relation = Project(input=source, expressions=expressions, names=names)
    simple = all(not _has_subquery(value) for value in assigned.values())
    key = equated_key(table, conjuncts(condition)) if simple else None
    return BoundWrite(
        table,
        WriteMode.UPDATE,
        tuple(range(len(names))),
        relation,
        key=key,
        assignments=tuple(assigned.items()),
    )


def _assigned(
    binder: StatementBinder, table: KeyedTable | RowAddressedTable, scope: Scope, statement: Update
) -> dict[int, Expression]:
    """The values of SET, over the table's columns, by column index."""
    assigned: dict[int, Expression] = {}
    for item in statement.assignments:
        index = column_index(table, statement.table, item.column)
        if index in table.key_columns:
            raise ProgrammingError(
                f'cannot update "{item.column.text}", which is the key',
                hint="delete the row and insert it with its new key",
                position=item.column.position,
            )
        if isinstance(table, RowAddressedTable) and index == table.row_id:
            raise ProgrammingError(
                f'cannot update "{item.column.text}", which is the address of a row',
                position=item.column.position,
            )
        if index in assigned:
            raise ProgrammingError(
                f'column "{item.column.text}" is assigned twice', position=item.column.position
            )
        if has_generated(table):
            from runnel.planner.bind.tables.generated import check_assigned

            check_assigned(table, statement.table, index, item)
        values = ExpressionBinder(binder, scope, "SET")
        assigned[index] = _value(binder, values, table, item.value, table.columns[index])
    return assigned


def _addressed(
    table: RowAddressedTable, source: Relation, assigned: dict[int, Expression]
) -> BoundWrite:
    """A write of rows by their addresses: UPDATE of the assigned columns, or DELETE if nothing is
    assigned."""
    columns = (table.row_id, *assigned)
    relation = Project(
        input=source,
        expressions=(references(source.fields)[table.row_id], *assigned.values()),
        names=tuple(table.columns[i].name for i in columns),
    )
    return BoundWrite(table, WriteMode.UPDATE if assigned else WriteMode.DELETE, columns, relation)


def bind_delete(binder: StatementBinder, statement: Delete) -> BoundWrite:
    """Binds DELETE. The relation has the keys of the matching rows."""
    table, scope = _keyed(binder, statement.table, statement.alias, WriteMode.DELETE)
    if statement.where is None:
        _check_restart(table, statement)
        return BoundWrite(table, WriteMode.DELETE, table.key_columns, None)
    source, condition = _source(binder, table, scope, statement.where)
    if isinstance(table, RowAddressedTable):
        return _addressed(table, source, {})
    columns = references(source.fields)
    relation = Project(
        input=source,
        expressions=tuple(columns[i] for i in table.key_columns),
        names=tuple(table.columns[i].name for i in table.key_columns),
    )
    return BoundWrite(
        table,
        WriteMode.DELETE,
        table.key_columns,
        relation,
        key=equated_key(table, conjuncts(condition)),
    )


def _check_restart(table: Table, statement: Delete) -> None:
    """NotSupportedError for RESTART IDENTITY of a table with numbers: the rows and the numbers
    would not change at once."""
    definition = getattr(table, "definition", None)
    if statement.restart is None or definition is None or not definition.identities:
        return
    name = next(iter(definition.identities.values())).sequence
    raise NotSupportedError(
        "RESTART IDENTITY is not supported",
        hint=f"write TRUNCATE {as_written(table.name)}, then SELECT setval('{name}', 1, false)",
        position=statement.restart,
    )


def _has_subquery(expression: Expression) -> bool:
    return any(isinstance(node, (Exists, InSubquery, ScalarSubquery)) for node in walk(expression))


def _source(
    binder: StatementBinder, table: ReadableTable, scope: Scope, where: Any
) -> tuple[Relation, Expression | None]:
    scan = Scan(table=table, columns=tuple(range(len(table.columns))))
    if where is None:
        return scan, None
    condition = ExpressionBinder(binder, scope, "WHERE").condition(where)
    return Filter(input=scan, condition=condition), condition


def _is_values(tree: Any) -> bool:
    return tree.key == "values" and not any(
        tree.args.get(k) for k in ("with_", "order", "limit", "offset")
    )


def _value_rows(
    binder: StatementBinder, table: Table, columns: tuple[int, ...], tree: Any
) -> tuple[tuple[Expression, ...], ...]:
    values = ExpressionBinder(binder, Scope(), "VALUES")
    rows = []
    for number, row in enumerate(tree.expressions, 1):
        items = list(row.expressions) if row.key == "tuple" else [row]
        if len(items) != len(columns):
            bound = values.bind(items[0]) if items else None
            raise ProgrammingError(
                f"row {number} of VALUES has {len(items)} values for {len(columns)} columns",
                hint="the columns are " + ", ".join(table.columns[i].name for i in columns),
                position=bound.position if bound is not None else None,
            )
        targets = [table.columns[i] for i in columns]
        pairs = zip(items, targets, strict=True)
        rows.append(tuple(_value(binder, values, table, item, target) for item, target in pairs))
    return tuple(rows)


def _value(
    binder: StatementBinder, values: ExpressionBinder, table: Table, tree: Any, target: TableColumn
) -> Expression:
    """A value of VALUES for a column; DEFAULT is its default."""
    if is_default(tree):
        # Loaded on first use: few statements name DEFAULT.
        from runnel.planner.bind.tables.definitions import default_of

        definition = getattr(table, "definition", None)
        return default_of(binder, definition, target.name, target.type)
    return build.assign(values.bind(tree), target.type, target.name)


def _table(binder: StatementBinder, name: Name) -> Table:
    found = binder.lookup(name.text, name.position)
    if isinstance(found, View):
        raise NotSupportedError(
            f'view "{found.name}" can\'t be written to',
            hint="write to the mappings it reads",
            position=name.position,
        )
    if found.table.connector == VIEW_TYPE:
        raise NotSupportedError(
            f'materialized view "{found.name}" can\'t be written to',
            detail="its rows are the result of its query",
            hint="write to the tables and streams that the query reads",
            position=name.position,
        )
    return found.table


def writable(binder: StatementBinder, name: Name, mode: WriteMode) -> WritableTable:
    """The table of that name; NotSupportedError if the table does not support the mode."""
    table = _table(binder, name)
    if not isinstance(table, WritableTable) or mode not in table.write_modes:
        can_insert = isinstance(table, WritableTable) and WriteMode.INSERT in table.write_modes
        hint = "use INSERT INTO" if can_insert else None
        if isinstance(table, WritableTable) and not table.write_modes:
            hint = "it is read only: ATTACH or map its database without READ_ONLY"
        raise NotSupportedError(
            f'{mode.name} is not supported by table "{name.text}" of connector {table.connector}',
            hint=hint,
            position=name.position,
        )
    return table


def _keyed(
    binder: StatementBinder, name: Name, alias: Name | None, mode: WriteMode
) -> tuple[KeyedTable | RowAddressedTable, Scope]:
    table = changed_table(binder, name, mode)
    return table, target_scope(binder, table, name, alias)


def target_scope(binder: StatementBinder, table: Table, name: Name, alias: Name | None) -> Scope:
    """The names of the columns of a table whose rows are changed."""
    key = binder.lookup(name.text, name.position).schema
    qualifier = (alias or name).local
    return Scope(
        tuple(
            ScopeColumn(c.name, c.type, i, qualifier, c.hidden, schema=key)
            for i, c in enumerate(table.columns)
        )
    )


def changed_table(
    binder: StatementBinder, name: Name, mode: WriteMode
) -> KeyedTable | RowAddressedTable:
    """The table of that name; NotSupportedError if its rows cannot be changed in that way."""
    table = _table(binder, name)
    if not isinstance(table, KeyedTable | RowAddressedTable):
        raise NotSupportedError(
            f'cannot {mode.name} table "{name.text}": '
            f"connector {table.connector} supports no UPDATE and DELETE",
            hint="they work on mappings with keys or row numbers, such as IMap and DuckDB",
            position=name.position,
        )
    if mode not in table.write_modes:
        raise NotSupportedError(
            f'cannot {mode.name} table "{name.text}" of connector {table.connector}: it can only '
            "be read or appended to",
            position=name.position,
        )
    return table


def target_columns(table: Table, name: Name, listed: tuple[Name, ...] | None) -> tuple[int, ...]:
    if listed is None:
        return _assignable(table)
    columns = tuple(column_index(table, name, item) for item in listed)
    for position, index in enumerate(columns):
        if index in columns[:position]:
            raise ProgrammingError(
                f'column "{listed[position].text}" is listed twice',
                position=listed[position].position,
            )
        if isinstance(table, RowAddressedTable) and index == table.row_id:
            raise ProgrammingError(
                f'column "{listed[position].text}" can\'t be written: it is the address of a row',
                position=listed[position].position,
            )
    for key in table.key_columns:
        if key not in columns:
            raise ProgrammingError(
                f'the key column "{table.columns[key].name}" must be among the target columns',
                position=name.position,
            )
    return columns


def _assignable(table: Table) -> tuple[int, ...]:
    """The columns that an INSERT without a list sets: all but the computed ones."""
    definition = getattr(table, "definition", None)
    computed = () if definition is None else definition.computed
    return tuple(
        i
        for i, column in enumerate(table.columns)
        if not column.hidden and column.name.lower() not in computed
    )


def column_index(table: Table, name: Name, column: Name) -> int:
    """The index of a column of the target; ProgrammingError if there is none."""
    for i, candidate in enumerate(table.columns):
        if candidate.name.lower() == column.text.lower():
            return i
    names = [item.name for item in table.columns if not item.hidden]
    if any(item.name.lower() == column.text.lower() for item in table.computed):
        raise UndefinedColumn(
            f'column "{column.text}" of "{name.text}" is computed, and can\'t be written',
            hint=f"leave it out; the columns to write are {', '.join(names[:20])}",
            position=column.position,
        )
    raise UndefinedColumn(
        f'column "{column.text}" of table "{name.text}" does not exist',
        hint=suggest(column.text, names, f"its columns are {', '.join(names[:20])}"),
        position=column.position,
    )
