"""Plans of Flink's statements that other statements make up: CREATE TABLE … LIKE and … AS with
options, INSERT OVERWRITE, and statement sets."""

from __future__ import annotations

from collections.abc import Mapping as Items
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlglot import exp

from runnel.base.schemas import PUBLIC, local_name
from runnel.catalog import CatalogObject, Mapping, View, visible_columns
from runnel.connector import ReadableTable
from runnel.errors import Error, ErrorCode, NotSupportedError, ProgrammingError
from runnel.planner.bind.tables.alterations import AlteredTable, not_alterable
from runnel.planner.bind.tables.information_schema import view_fields
from runnel.planner.bind.write import BoundWrite, bind_insert
from runnel.planner.environment import JobNeeded
from runnel.planner.explain.ddl import table_items, type_text
from runnel.planner.parse.flink.alterations import AlterOptions
from runnel.planner.parse.flink.altered_items import AlterItems, changed
from runnel.planner.parse.flink.statement_set import StatementSet
from runnel.planner.parse.flink.tables import FlinkColumns
from runnel.planner.parse.flink.written import (
    COLUMN,
    OPTIONS,
    PARTITIONS,
    WATERMARKS,
    Clauses,
    ComposedTable,
    CopiedColumns,
    TableItem,
    quoted,
    read_written,
)
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.statement import parse
from runnel.planner.parse.syntax import CreateMapping, Insert, Name, Query, Statement
from runnel.planner.parse.tables import CreateTable
from runnel.planner.parse.tokens import tokenize
from runnel.planner.plans import (
    AlterTablePlan,
    CreateJobPlan,
    CreateMappingPlan,
    CreateTablePlan,
    FilledMappingPlan,
    KeyPutPlan,
    NothingPlan,
    Plan,
    StatementSetPlan,
    WritePlan,
)
from runnel.processors.sinks.written_files import WritableFiles
from runnel.sqltypes import Kind, SqlType

if TYPE_CHECKING:
    from runnel.planner.bind.query import Binder
    from runnel.planner.planning import Planning


def plan_flink_statement(binder: Binder, statement: Statement, planning: Planning) -> Plan:
    """The plan of one of these statements."""
    if isinstance(statement, Insert):
        return _overwrite(binder, statement, planning)
    if isinstance(statement, StatementSet):
        return _statement_set(binder, statement, planning)
    if isinstance(statement, AlterOptions | AlterItems):
        return _altered(binder, statement, planning)
    assert isinstance(statement, ComposedTable)
    if isinstance(statement.source, Query):
        return _filled(binder, statement, statement.source, planning)
    text = (
        _with_copied(binder, statement)
        if statement.source is None
        else _like(binder, statement, statement.source)
    )
    return _composed(binder, statement, text, planning)


def _composed(binder: Binder, statement: ComposedTable, text: str, planning: Planning) -> Plan:
    """The plan of the CREATE TABLE of this text, with the name and the flags of the statement."""
    try:
        made = parse(text, keeps_public=bool(binder.snapshot.path))
        assert isinstance(made, CreateMapping | CreateTable)
        made = replace(
            made,
            name=statement.name,
            or_replace=statement.or_replace,
            if_not_exists=statement.if_not_exists,
            is_temporary=statement.is_temporary,
        )
        return planning.plan(made)
    except Error as error:
        # The position in the composed text is none in the statement.
        error.position = statement.name.position
        raise


def _with_copied(binder: Binder, statement: ComposedTable) -> str:
    """The text of CREATE TABLE (LIKE …) with the columns of the other tables."""
    texts: list[str] = []
    for item in statement.clauses.items:
        texts += [item.text] if item.copied is None else _copied(binder, item.copied)
    return f"CREATE TABLE {quoted(statement.name.local)} ({', '.join(texts)})"


def _copied(binder: Binder, copied: CopiedColumns) -> list[str]:
    """The columns of a table, and the constraints that LIKE includes. A column of a primary key is
    NOT NULL also without the key."""
    found = binder.lookup(copied.source.text, copied.source.position)
    if not isinstance(found, Mapping) or found.definition is None:
        return [item.text for item in _columns(binder, found)]
    definition = found.definition
    has_keys = "INDEXES" in copied.included
    names = [column.name.lower() for column in visible_columns(found.table)]
    defaults = {
        name: text
        for name, text in definition.defaults.items()
        if "DEFAULTS" in copied.included and name not in definition.identities
    }
    filtered = replace(
        definition,
        defaults=defaults,
        not_null=definition.not_null
        if has_keys
        else frozenset(name for name in names if not definition.is_nullable(name)),
        keys=definition.keys if has_keys else (),
        checks=definition.checks if "CONSTRAINTS" in copied.included else (),
        identities=definition.identities if "IDENTITY" in copied.included else {},
        computed=definition.computed if "GENERATED" in copied.included else {},
    )
    return table_items(found, filtered)


def _like(binder: Binder, statement: ComposedTable, source: Name) -> str:
    """The text of CREATE TABLE … LIKE without LIKE."""
    found = binder.lookup(source.text, source.position)
    own, merging = statement.clauses, statement.merging
    if isinstance(found, Mapping) and found.flink_text is not None:
        if merging[OPTIONS] != "EXCLUDING":
            _check_options(binder, found, source)
        base = read_written(found.flink_text)
        _check_connector(base, statement, source)
        merged = _merged(base, own, merging)
        if not merged.options:
            merged = replace(merged, items=tuple(map(_own_column, merged.items)))
        return merged.text(statement.name.local)
    if own.options:
        base = Clauses(_columns(binder, found), "", {})
        return _merged(base, own, merging).text(statement.name.local)
    if not isinstance(found, Mapping) or found.definition is None:
        raise ProgrammingError(
            f'"{found.name}" has no options for another table',
            hint="add the options: CREATE TABLE … WITH ('connector' = '…', …) LIKE "
            f"{quoted(found.name)}",
            position=source.position,
        )
    items = [*table_items(found, found.definition), *(item.text for item in own.items)]
    return f"CREATE TABLE {quoted(statement.name.local)} ({', '.join(items)})"


def _own_column(item: TableItem) -> TableItem:
    """A column of Flink's types as a table without options declares it."""
    if item.feature != COLUMN:
        return item
    text = f"({item.text})"
    columns = FlinkColumns(StatementReader(tokenize(text), text, {}))
    columns.read()
    column = columns.columns[0]
    not_null = " NOT NULL" if column.is_not_null else ""
    return replace(item, text=f"{quoted(column.name.text)} {type_text(column.type)}{not_null}")


def _check_connector(base: Clauses, statement: ComposedTable, source: Name) -> None:
    """The options of a connector are none of another one."""
    connectors = [clauses.connector for clauses in (base, statement.clauses)]
    if statement.merging[OPTIONS] != "EXCLUDING" and all(connectors) and len(set(connectors)) > 1:
        raise ProgrammingError(
            f"LIKE would give options of connector '{connectors[0]}' to connector "
            f"'{connectors[1]}'",
            hint=f"leave them out: LIKE {source} (EXCLUDING OPTIONS)",
            position=source.position,
        )


def _check_options(binder: Binder, found: Mapping, source: Name) -> None:
    """A caller within bounds does not use the options, which may hold secrets, of a mapping without
    bounds; and a caller without bounds does not lift the bounds of another one."""
    if binder.environment.is_confined is not found.is_confined:
        raise ProgrammingError(
            f'the options of "{found.name}" can\'t be repeated: it has other bounds',
            code=ErrorCode.NOT_ALLOWED,
            hint="write the options: CREATE TABLE … WITH (…) LIKE "
            f"{quoted(found.name)} (EXCLUDING OPTIONS)",
            position=source.position,
        )


def _columns(binder: Binder, found: CatalogObject) -> tuple[TableItem, ...]:
    if isinstance(found, View):
        fields = [(field.name, field.type) for field in view_fields(binder, found)]
    else:
        fields = [(column.name, column.type) for column in visible_columns(found.table)]
    return tuple(_column(name, kind) for name, kind in fields)


def _column(name: str, kind: SqlType) -> TableItem:
    if kind.kind is Kind.NULL:
        raise ProgrammingError(
            f'column "{name}" has no type', hint=f"write CAST(NULL AS VARCHAR) AS {quoted(name)}"
        )
    return TableItem(COLUMN, name.lower(), f"{quoted(name)} {type_text(kind)}")


def _merged(base: Clauses, own: Clauses, merging: Items[str, str]) -> Clauses:
    """The clauses of a table and the clauses of the statement, by the actions of LIKE."""
    own_names = {item.name for item in own.items if item.name}
    has_watermark = any(item.feature == WATERMARKS for item in own.items)
    items = []
    for item in base.items:
        action = merging.get(item.feature, "INCLUDING")
        is_replaced = has_watermark if item.feature == WATERMARKS else item.name in own_names
        if action != "EXCLUDING" and not (action == "OVERWRITING" and is_replaced):
            items.append(item)
    options = {} if merging[OPTIONS] == "EXCLUDING" else dict(base.options)
    repeated = {name.lower() for name in own.options}
    if merging[OPTIONS] == "INCLUDING":
        for name in options:
            if name.lower() in repeated:
                raise ProgrammingError(
                    f"option '{name}' is an option of both tables", hint="use OVERWRITING OPTIONS"
                )
    options = {name: value for name, value in options.items() if name.lower() not in repeated}
    inherited = "" if merging[PARTITIONS] == "EXCLUDING" else base.partition
    return Clauses((*items, *own.items), own.partition or inherited, {**options, **own.options})


def _altered(binder: Binder, statement: AlterOptions | AlterItems, planning: Planning) -> Plan:
    """ALTER TABLE of a table with options: the CREATE OR REPLACE TABLE after the changes."""
    name = statement.name
    if statement.if_exists and binder.snapshot.find(name.text) is None:
        return NothingPlan()
    found = binder.lookup(name.text, name.position)
    if not isinstance(found, Mapping) or found.flink_text is None:
        raise _not_alterable(found, statement)
    _check_options(binder, found, name)
    written = read_written(found.flink_text)
    new_name = statement.new_name if isinstance(statement, AlterItems) else None
    own = tuple(found.schema.split(".")) if found.schema else (PUBLIC,)
    qualifiers = own if new_name is None else new_name.qualifiers or own
    target = local_name(found.name, found.schema) if new_name is None else new_name.local
    composed = ComposedTable(
        sql=statement.sql,
        position=statement.position,
        name=Name(target, (new_name or name).position, qualifiers, target),
        clauses=written,
        source=name,
        merging={},
        or_replace=new_name is None,
        if_not_exists=False,
        is_temporary=found.is_temporary,
    )
    after = (
        changed(written, statement.changes)
        if isinstance(statement, AlterItems)
        else replace(written, options=_changed_options(written, statement))
    )
    made = _composed(binder, composed, after.text(target), planning)
    if new_name is None:
        return made
    assert isinstance(made, CreateMappingPlan)
    return replace(made, renamed=found.name)


def _not_alterable(found: CatalogObject, statement: AlterOptions | AlterItems) -> Error:
    if isinstance(statement, AlterItems) and statement.refusal is not None:
        if not isinstance(found, Mapping) or found.definition is None:
            return not_alterable(found, statement.name.position)
        return statement.refusal
    return ProgrammingError(
        f"\"{found.name}\" was not created by CREATE TABLE … WITH ('connector' = …)",
        hint="a mapping is changed by CREATE OR REPLACE MAPPING",
        position=statement.name.position,
    )


def _changed_options(written: Clauses, statement: AlterOptions) -> dict[str, str]:
    changed_names = {option.lower() for option in statement.options}
    options = {
        key: value for key, value in written.options.items() if key.lower() not in changed_names
    }
    options.update((key, value) for key, value in statement.options.items() if value is not None)
    return options


def _filled(binder: Binder, statement: ComposedTable, query: Query, planning: Planning) -> Plan:
    """CREATE TABLE … WITH (…) AS query."""
    source = binder.statement_query(query)
    own = statement.clauses
    columns = tuple(_column(field.name, field.type) for field in source.fields)
    items = _with_declared(statement, columns)
    text = replace(own, items=items).text(statement.name.local)
    made = _composed(binder, statement, text, planning)
    assert isinstance(made, CreateMappingPlan)
    names = ", ".join(quoted(field.name) for field in source.fields)
    return FilledMappingPlan(
        mapping=made,
        insert=f"INSERT INTO {_qualified(made)} ({names}) {query.text}",
        parameters=planning.parameters(source),
    )


def _with_declared(
    statement: ComposedTable, columns: tuple[TableItem, ...]
) -> tuple[TableItem, ...]:
    """The items of a CREATE TABLE … AS whose query has these columns. Names without types order the
    columns; columns with types are further ones, before the columns of the query."""
    items = statement.clauses.items
    declared = [item for item in items if item.feature == COLUMN]
    others = [item for item in items if item.feature != COLUMN]
    by_name = {item.name: item for item in columns}
    names = [item.name for item in declared]
    if declared and all(len(tokenize(item.text)) == 1 for item in declared):
        if sorted(names) != sorted(by_name):
            raise ProgrammingError(
                "the list of columns is not the list of the query",
                hint=f"it has the columns {', '.join(by_name)}, in any order",
                position=statement.name.position,
            )
        return (*(by_name[name] for name in names), *others)
    for item in declared:
        if item.name in by_name:
            raise NotSupportedError(
                f"{item.text} is a column of the query, which defines its type",
                hint="leave it out, and write CAST in the query: columns with types are further "
                "columns, before the columns of the query",
                position=statement.name.position,
            )
    return (*declared, *columns, *others)


def _qualified(made: CreateMappingPlan) -> str:
    """The name of a mapping with its schema."""
    schema = made.schema.split(".") if made.schema else [PUBLIC]
    return ".".join(map(quoted, (*schema, local_name(made.name, made.schema))))


def _overwrite(binder: Binder, statement: Insert, planning: Planning) -> Plan:
    """INSERT OVERWRITE: a copy of the table, with the rows of the query, replaces it; new files
    replace files."""
    if binder.environment.in_job:
        raise NotSupportedError(
            "INSERT OVERWRITE in a job is not supported",
            hint="execute it alone, or write INSERT INTO: a job adds rows with each snapshot",
            position=statement.position,
        )
    found = binder.lookup(statement.table.text, statement.table.position)
    if not isinstance(found, Mapping) or found.definition is None:
        return _replaced_files(binder, found, statement, planning)
    if statement.partition or statement.conflict or statement.returning is not None:
        raise NotSupportedError(
            "INSERT OVERWRITE with PARTITION, ON CONFLICT or RETURNING is not supported",
            hint="replace some rows in a transaction: BEGIN; DELETE FROM t WHERE …; "
            "INSERT INTO t …; COMMIT",
            position=statement.position,
        )
    bound = _bound_rows(binder, statement)
    assert isinstance(found.table, ReadableTable)
    copied = AlteredTable(binder, found).bound()
    parameters = () if bound.relation is None else planning.parameters(bound.relation)
    created = CreateTablePlan(
        name=found.name,
        columns=copied.columns,
        definition=copied.definition,
        checks=copied.checks,
        or_replace=True,
        if_not_exists=False,
        write=lambda table: planning.write(replace(bound, table=table)),
        parameters=parameters,
    )
    return AlterTablePlan(
        name=found.name,
        new_name=found.name,
        definition=copied.definition,
        created=created,
        is_cascading=False,
        counts_rows=True,
        parameters=parameters,
        dependencies=planning.dependencies(),
    )


def _bound_rows(binder: Binder, statement: Insert) -> BoundWrite:
    """The rows of INSERT OVERWRITE, which must have an end."""
    try:
        return bind_insert(binder, replace(statement, overwrites=False))
    except JobNeeded:
        raise NotSupportedError(
            "INSERT OVERWRITE from a source without an end is not supported",
            hint="write INSERT INTO, which starts a job",
            position=statement.position,
        ) from None


def _replaced_files(
    binder: Binder, found: CatalogObject, statement: Insert, planning: Planning
) -> Plan:
    """The plan of INSERT OVERWRITE of a mapping whose connector can replace its data."""
    partition = {
        item.column.text.lower(): str(item.value.name)
        for item in statement.partition
        if isinstance(item.value, exp.Literal)
    }
    table = found.table if isinstance(found, Mapping) else None
    target = table.replacing(partition) if isinstance(table, WritableFiles) else None
    if target is None or statement.conflict or statement.returning is not None:
        raise NotSupportedError(
            f'INSERT OVERWRITE of "{found.name}" is not supported'
            if target is None
            else "INSERT OVERWRITE with ON CONFLICT or RETURNING is not supported",
            hint="it replaces tables of Runnel's own, and files of connector 'filesystem'; for "
            "other data write to a new table, and use INSERT INTO",
            position=statement.position,
        )
    bound = _bound_rows(binder, statement)
    return planning.write(replace(bound, table=target))


def _statement_set(binder: Binder, statement: StatementSet, planning: Planning) -> Plan:
    """The plans of the INSERTs. None of them reads what another one writes, so that their order
    makes no difference; jobs run side by side, and may follow what other jobs write."""
    inserts = [parse(text, keeps_public=bool(binder.snapshot.path)) for text in statement.inserts]
    made = [_set_insert(binder, insert, statement, planning) for insert in inserts]
    plans = [item.write if isinstance(item, CreateJobPlan) else item for item in made]
    for number, write in enumerate(plans):
        for other, item, text in zip(plans, made, statement.inserts, strict=True):
            is_read = write is not other and write.table.name in {t.name for t in other.tables}
            if is_read and (made[number] is write or other is item):
                raise NotSupportedError(
                    f'the statement set writes "{write.table.name}" and reads it',
                    detail=f"{statement.inserts[number].strip()}; {text.strip()}",
                    hint="execute the statements one by one",
                    position=statement.position,
                )
    return StatementSetPlan(
        writes=tuple(item for item in made if isinstance(item, WritePlan)),
        jobs=tuple(item for item in made if isinstance(item, CreateJobPlan)),
    )


def _set_insert(
    binder: Binder, insert: Statement, statement: StatementSet, planning: Planning
) -> WritePlan | CreateJobPlan:
    made = planning.plan(insert)
    if isinstance(made, KeyPutPlan) and isinstance(insert, Insert) and insert.returning is None:
        return planning.write(bind_insert(binder, insert))
    if isinstance(made, WritePlan | CreateJobPlan):
        return made
    raise NotSupportedError(
        "a statement set has plain INSERTs alone",
        detail=insert.sql.strip(),
        hint="execute this statement alone",
        position=statement.position,
    )
