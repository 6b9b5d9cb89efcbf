"""The entry point of planning: SQL text in, an immutable plan out.

Calls the stages in order: parse → bind → rules → choose → lower. The parser already checks the
statement against its allow-list. A plan is lowered when it first runs at a given parallelism. A
plan depends on the types of its arguments, never on their values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeGuard

from runnel.base.schemas import CATALOG, PUBLIC, database_of
from runnel.catalog import Snapshot, View, readable_columns
from runnel.connector import (
    KeyedTable,
    RowAddressedTable,
    SinkRequest,
    WritableTable,
    WriteMode,
)
from runnel.dag import DAG
from runnel.deadline import within_time
from runnel.errors import BinderException, NotSupportedError, ProgrammingError, as_written
from runnel.expressions.nodes import Expression, Parameter, distinct_names
from runnel.expressions.nodes import walk as expressions_in
from runnel.planner.bind.query import Binder
from runnel.planner.environment import (
    Environment,
    JobNeeded,
    SeveralTypes,
    ValuesNeeded,
    has_stream_with_end,
    replanned,
)
from runnel.planner.lower.dag_builder import lower
from runnel.planner.optimize import (
    bounded,
    can_end,
    check_streaming,
    check_view,
    chosen,
    final_rows,
    has_subquery,
    is_lasting,
    note_indexes,
    notice,
    pushed_down,
    simplified,
    tables_in,
)
from runnel.planner.parse import syntax
from runnel.planner.parse.statement import parse
from runnel.planner.physical.choose import choose, choose_write
from runnel.planner.physical.key_lookup import key_lookup
from runnel.planner.physical.nodes import Physical
from runnel.planner.plans import (
    ChangePlan,
    ClearPlan,
    CommandPlan,
    CopyToPlan,
    CreateViewPlan,
    ExplainPlan,
    KeyGetPlan,
    KeyPutPlan,
    PivotPlan,
    Plan,
    QueryPlan,
    ShowPlan,
    WritePlan,
)
from runnel.planner.rules import apply
from runnel.relation.nodes import Field, Relation
from runnel.relation.subqueries import everything
from runnel.sqltypes import Kind, SqlType

if TYPE_CHECKING:
    from runnel.planner.bind.write import BoundWrite


def plan(
    sql: str, snapshot: Snapshot, parameter_types: tuple[SqlType, ...], environment: Environment
) -> Plan:
    """Returns the plan of one statement, given the types of its arguments.

    Raises ProgrammingError or NotSupportedError with a position in `sql`, InterfaceError for a
    wrong number of arguments.
    """
    with within_time(environment.check):
        try:
            return replanned(
                lambda environment: _plan(
                    parse(sql, keeps_public=bool(snapshot.path)),
                    snapshot,
                    parameter_types,
                    environment,
                ),
                snapshot,
                environment,
            )
        except ValuesNeeded as needed:
            return _pivot(needed, sql, snapshot, environment)
        except ProgrammingError as error:
            error.of_stage(BinderException)
            raise


def _pivot(
    needed: ValuesNeeded, sql: str, snapshot: Snapshot, environment: Environment
) -> PivotPlan:
    """The plan of a statement with PIVOT without IN, which has no parameters."""
    # Loaded on first use: few statements have PIVOT.
    from runnel.planner.bind.tables.pivot import named_values

    def planned(values: Sequence[Expression]) -> Plan:
        known = {**environment.pivot_values, needed.key: named_values(values)}
        return plan(sql, snapshot, (), replace(environment, pivot_values=known))

    binder = Binder(needed.key[0], snapshot, (), environment)
    return PivotPlan(values=_bound_query(binder, needed.relation), planned=planned)


def _plan(
    statement: syntax.Statement,
    snapshot: Snapshot,
    types: tuple[SqlType, ...],
    environment: Environment,
) -> Plan:
    expected = getattr(statement, "parameters", None)
    if isinstance(statement, syntax.Insert):
        expected = statement.query.parameters
    if isinstance(statement, syntax.Explain):
        inner = _plan(statement.statement, snapshot, types, environment)
        if isinstance(inner, ChangePlan | CopyToPlan):
            # Loaded on first use: few statements are explained.
            from runnel.planner.copy_plans import explained_rows

            inner = explained_rows(inner, statement)
        return ExplainPlan(
            stage=statement.stage, format=statement.format, plan=inner, parameters=inner.parameters
        )
    if len(types) != (expected or 0):
        from runnel.planner.parse.parameters import count_error

        raise count_error(statement.sql, expected or 0, len(types))
    if isinstance(statement, syntax.Command):
        return CommandPlan(statement=statement, parameters=types)
    if isinstance(statement, syntax.CreateJob | syntax.AlterJob):
        from runnel.planner.job_plans import written_job

        return written_job(statement, _job_write(statement, snapshot, types, environment))
    binder = Binder(statement.sql, snapshot, types, environment)
    match statement:
        case syntax.Query():
            return _query(binder, statement)
        case syntax.Insert() | syntax.Update() | syntax.Delete() if not statement.needs_rows:
            return _row_write(binder, statement)
        case syntax.CreateView():
            return _create_view(binder, statement)
        case syntax.Describe() | syntax.Summarize() | syntax.Show(what="all tables"):
            return _described(binder, statement)
        case syntax.Show(what="columns" | "views"):
            return _show(binder, statement)
        case syntax.Show():
            name = None if statement.name is None else statement.name.text
            if statement.what == "setting" and name and binder.snapshot.find(name):
                described = syntax.Describe(
                    sql=statement.sql, position=statement.position, name=statement.name
                )
                return _described(binder, described)
            return ShowPlan(what=statement.what, name=name, like=statement.like)
    query = getattr(statement, "query", None)
    if query is not None and getattr(statement, "target", None) is not None:
        # Loaded on first use: few statements write files.
        from runnel.planner.copy_plans import plan_copy

        return plan_copy(statement, _plan(query, snapshot, types, environment))
    return _table_plan(binder, statement)


def plan_job(
    query: str | syntax.Insert,
    snapshot: Snapshot,
    parameter_types: tuple[SqlType, ...],
    environment: Environment,
) -> WritePlan:
    """Returns the plan of the INSERT or SINK that a job runs.

    Nothing is pushed down to another engine, whose state would be in no snapshot.
    """
    with within_time(environment.check):
        in_job = replace(environment, in_job=True, pushdown=None)
        if isinstance(query, str):
            return replanned(
                lambda environment: _job_plan(
                    parse(query, keeps_public=bool(snapshot.path)),
                    snapshot,
                    parameter_types,
                    environment,
                ),
                snapshot,
                in_job,
            )
        return _job_plan(query, snapshot, parameter_types, in_job)


def _job_plan(
    statement: syntax.Statement,
    snapshot: Snapshot,
    types: tuple[SqlType, ...],
    environment: Environment,
) -> WritePlan:
    found = _plan(statement, snapshot, types, environment)
    assert isinstance(found, WritePlan)
    if found.is_unbounded:
        from runnel.planner.statement_time import check_no_statement_time

        check_no_statement_time(found.logical)
    return found


def _job_write(
    statement: syntax.CreateJob | syntax.AlterJob,
    snapshot: Snapshot,
    types: tuple[SqlType, ...],
    environment: Environment,
) -> WritePlan | None:
    """The plan of the query in the statement, which may call functions of the job's modules."""
    if statement.body is None:
        return None
    name = statement.name.text if isinstance(statement, syntax.AlterJob) else None
    functions = environment.job_functions(
        name, syntax.option_values(statement.options), environment.is_confined
    )
    return plan_job(statement.body, snapshot.with_functions(functions), types, environment)


def _query(binder: Binder, statement: syntax.Query) -> Plan:
    plain = statement
    if statement.changes is not None:
        plain = replace(statement, changes=None)
        binder = replace(binder, environment=replace(binder.environment, is_live=True))
    return _bound_query(binder, binder.statement_query(plain), statement)


def _bound_query(binder: Binder, bound: Relation, statement: syntax.Query | None = None) -> Plan:
    parameters = _parameters(bound, binder.parameter_types)
    logical, fields = simplified(binder, bound), bound.fields
    binder.environment.check()
    if statement is not None and statement.changes is not None:
        # Loaded on first use: few statements have EMIT CHANGES.
        from runnel.planner.live.maintenance import change_stream

        logical, fields = change_stream(logical, fields, statement.changes)
    check_streaming(logical, statement is not None and statement.unbounded_state, statement)
    if statement is not None and statement.emission is not None:
        # Loaded on first use: few statements have these clauses.
        from runnel.planner.bind.streams.emission import check_late_output

        check_late_output(logical, statement.emission)
    note_indexes(binder, logical)
    found = key_lookup(logical)
    if found is not None:
        return KeyGetPlan(
            table=found.table,
            key=found.key,
            fields=bound.fields,
            columns=found.columns,
            expressions=found.expressions,
            logical=logical,
            may_convert=any(
                item.type.is_nested or item.type.kind is Kind.TIMESTAMP_TZ or item.type.is_interval
                for item in bound.fields
            ),
            parameters=parameters,
            dependencies=_dependencies(binder),
            is_cacheable=True,
        )
    limit = 0 if statement is None or statement.changes is None else statement.changes.state_limit
    return replace(_query_plan(binder, fields, logical, parameters), state_limit=limit)


def _rows(binder: Binder, bound: Relation) -> QueryPlan:
    """The plan of the rows that a statement changes."""
    parameters = _parameters(bound, binder.parameter_types)
    logical = simplified(binder, bound)
    binder.environment.check()
    check_streaming(logical)
    note_indexes(binder, logical)
    return _query_plan(binder, bound.fields, logical, parameters)


def _query_plan(
    binder: Binder, fields: tuple[Field, ...], logical: Relation, parameters: tuple[SqlType, ...]
) -> QueryPlan:
    from runnel.planner.operators.sources import stored_scan

    pushed, left_out = pushed_down(binder, logical)
    binder.environment.check()
    physical = chosen(binder, pushed, logical, choose, binder.environment.pushdown is not None)
    return QueryPlan(
        logical=logical,
        physical=physical,
        fields=fields,
        dag=_lowering(lambda: physical),
        own_dag=None
        if pushed is logical
        else _lowering(lambda: chosen(binder, logical, logical, choose)),
        left_out=left_out,
        notice=notice(logical, binder.environment.zone),
        stored=stored_scan(physical),
        tables=tables_in(logical),
        is_unbounded=logical.is_unbounded,
        can_end=can_end(logical),
        parameters=parameters,
        dependencies=_dependencies(binder),
        is_cacheable=is_lasting(binder.snapshot, logical),
    )


def _bound_write(
    binder: Binder, statement: syntax.Insert | syntax.Update | syntax.Delete
) -> BoundWrite:
    # Loaded on first use, so that a process that only reads starts sooner.
    from runnel.planner.bind.write import bind_delete, bind_insert, bind_update

    match statement:
        case syntax.Insert():
            return bind_insert(binder, statement)
        case syntax.Update():
            return bind_update(binder, statement)
        case syntax.Delete():
            return bind_delete(binder, statement)


def _row_write(binder: Binder, statement: syntax.Insert | syntax.Update | syntax.Delete) -> Plan:
    unbounded_state = isinstance(statement, syntax.Insert) and statement.query.unbounded_state
    try:
        return _write(binder, _bound_write(binder, statement), unbounded_state)
    except JobNeeded as needed:
        return _submitted(needed, binder, statement)


def _submitted(needed: JobNeeded, binder: Binder, statement: syntax.Statement) -> Plan:
    """The plan of an INSERT that starts a job, as in Flink; raises `needed` if it does not."""
    environment, snapshot = binder.environment, binder.snapshot
    may_end = not environment.is_at_rest and has_stream_with_end(snapshot)
    if may_end or not isinstance(statement, syntax.Insert):
        raise needed
    from runnel.planner.job_plans import submitted_job

    environment = replace(environment, is_at_rest=False)
    write = plan_job(statement, snapshot, binder.parameter_types, environment)
    return submitted_job(statement, write)


def _write(binder: Binder, write: BoundWrite, unbounded_state: bool = False) -> Plan:
    table = write.table
    if write.relation is None:
        assert isinstance(table, KeyedTable | RowAddressedTable)
        return ClearPlan(table=table, dependencies=_dependencies(binder), is_cacheable=True)
    parameters = _parameters(write.relation, binder.parameter_types)
    rows = write.rows if write.mode in (WriteMode.INSERT, WriteMode.SINK) else None
    if write.key is not None:
        rows = (write.key,)
    in_job = binder.environment.in_job
    if (
        rows is not None
        and _is_put(table, rows)
        and not in_job
        and not has_subquery(write.relation)
    ):
        return KeyPutPlan(
            table=table,
            mode=write.mode,
            columns=write.columns,
            rows=rows,
            assignments=write.assignments,
            parameters=parameters,
            dependencies=_dependencies(binder),
            is_cacheable=True,
        )
    _check_written(table)
    logical = simplified(binder, write.relation)
    binder.environment.check()
    found = final_rows(logical, unbounded_state, write if in_job else None)
    logical, mode = found, write.mode if found is logical else WriteMode.CHANGES
    note_indexes(binder, logical)
    pushed, left_out = pushed_down(binder, logical)
    request = SinkRequest(mode, write.columns)

    def choose_sink(relation: Relation, snapshot: Snapshot) -> Physical:
        return choose_write(relation, snapshot, table, request)

    physical = chosen(binder, pushed, logical, choose_sink, binder.environment.pushdown is not None)
    return WritePlan(
        table=table,
        mode=mode,
        columns=write.columns,
        logical=logical,
        physical=physical,
        dag=_lowering(lambda: physical),
        own_dag=None
        if pushed is logical
        else _lowering(lambda: chosen(binder, logical, logical, choose_sink)),
        left_out=left_out,
        tables=tables_in(logical),
        is_unbounded=logical.is_unbounded,
        parameters=parameters,
        dependencies=_dependencies(binder),
        is_cacheable=is_lasting(binder.snapshot, logical),
    )


MOST_PUT = 100  # literal rows that are written to a table without a job, row by row


def _is_put(
    table: WritableTable, rows: tuple[tuple[Expression, ...], ...]
) -> TypeGuard[KeyedTable | RowAddressedTable]:
    """Whether a write of literal rows needs no job."""
    is_small = isinstance(table, RowAddressedTable) and len(rows) <= MOST_PUT
    return is_small or isinstance(table, KeyedTable)


def _check_written(table: WritableTable) -> None:
    # Loaded on first use: a first query writes nothing.
    from runnel.processors.sinks.written_files import WritableFiles

    if isinstance(table, WritableFiles):
        table.check_written()


def _create_view(binder: Binder, statement: syntax.CreateView) -> Plan:
    """Binds the view's query once, so that a view that cannot work is refused at CREATE VIEW."""
    if statement.query.changes is not None:
        binder.statement_query(statement.query)
    if statement.query.emission is not None:
        raise NotSupportedError(
            "a view can't have EMIT EVERY, ALLOWED LATENESS or LATE DATA INTO",
            hint="write them at the end of the query that reads the view's stream",
            position=statement.query.emission.position,
        )
    if statement.must_exist:
        altered = binder.lookup(statement.name.text, statement.name.position)
        if not isinstance(altered, View):
            raise ProgrammingError(f'"{altered.name}" is no view', position=statement.name.position)
        statement = replace(statement, temporary=altered.temporary)
    schema, name = _new_view(binder, statement)
    inner = replace(binder, views=(name.lower(),))
    relation = inner.query(statement.query.expression, None)
    check_view(apply(bounded(inner, relation)), statement.query)
    return CreateViewPlan(
        name=name,
        schema=schema,
        path=binder.snapshot.path,
        sql=statement.query.text,
        columns=_view_columns(statement, relation),
        or_replace=statement.or_replace,
        if_not_exists=statement.if_not_exists,
        temporary=statement.temporary,
    )


def _new_view(binder: Binder, statement: syntax.CreateView) -> tuple[str, str]:
    """The schema of a new view, and its name in the catalog."""
    name = statement.name
    schema, full = binder.snapshot.new_name(
        name.qualifiers, name.local, name.position, is_temporary=statement.temporary
    )
    if database_of(schema):
        raise NotSupportedError(
            "CREATE VIEW in an attached database is not supported",
            detail="other programs would have to evaluate its query",
            hint=f"create it here: CREATE VIEW {CATALOG}.{PUBLIC}.{as_written(name.local)} AS …",
            position=name.position,
        )
    return schema, full


def _described(binder: Binder, statement: syntax.Describe | syntax.Summarize | syntax.Show) -> Plan:
    # Loaded on first use: few statements describe anything.
    from runnel.planner.bind.tables.described import ALL_TABLES, all_tables, description, summarize

    if isinstance(statement, syntax.Summarize):
        return _query(binder, summarize(binder, statement))
    if isinstance(statement, syntax.Show):
        fields, rows = ALL_TABLES, all_tables(binder)
    else:
        fields, rows = description(binder, statement)
    what = "all tables" if fields is ALL_TABLES else "description"
    return ShowPlan(what=what, rows=rows, parameters=binder.parameter_types)


def _show(binder: Binder, statement: syntax.Show) -> Plan:
    """Lists the columns of a table, or of all views, whose queries must be bound to find them."""
    from runnel.planner.bind.tables.information_schema import view_fields

    rows: tuple[tuple[str | None, ...], ...]
    if statement.name is None:
        views = [item for item in binder.snapshot if isinstance(item, View)]
        columns = [
            ", ".join(f"{item.name} {item.type}" for item in view_fields(binder, view))
            for view in views
        ]
        rows = tuple((view.name, view.sql, text) for view, text in zip(views, columns, strict=True))
        return ShowPlan(what=statement.what, rows=rows, like=statement.like)
    found = binder.lookup(statement.name.text, statement.name.position)
    if isinstance(found, View):
        rows = tuple(
            (column.name, str(column.type), "NO", None) for column in binder.view_fields(found)
        )
    else:
        from runnel.planner.explain.ddl import watermark_of

        rows = tuple(
            (
                item.name,
                str(item.type),
                "YES" if item.hidden else "NO",
                watermark_of(found.table, number),
            )
            for number, item in enumerate(readable_columns(found.table))
        )
    return ShowPlan(what=statement.what, name=found.name, rows=rows, like=statement.like)


def _view_columns(statement: syntax.CreateView, relation: Relation) -> tuple[str, ...]:
    names = tuple(column.text for column in statement.columns)
    if len(names) > len(relation.fields):
        raise ProgrammingError(
            f'view "{statement.name.text}" has {len(relation.fields)} columns, '
            f"but {len(names)} names are given",
            position=statement.name.position,
        )
    everything = distinct_names(names + tuple(item.name for item in relation.fields[len(names) :]))
    used: set[str] = set()
    for name in everything:
        if name.lower() in used:
            raise ProgrammingError(
                f'view "{statement.name.text}" would have two columns "{name}"',
                hint="name the columns: CREATE VIEW v (a, b) AS …",
                position=statement.name.position,
            )
        used.add(name.lower())
    return names


def _table_plan(binder: Binder, statement: syntax.Statement) -> Plan:
    # Loaded on first use: few statements define tables.
    from runnel.planner.planning import Planning
    from runnel.planner.table_plans import plan_table_statement

    def write(bound: BoundWrite) -> WritePlan:
        planned = _write(binder, replace(bound, rows=None))  # as a query, also of literals
        assert isinstance(planned, WritePlan)
        return planned

    return plan_table_statement(
        binder,
        statement,
        Planning(
            write,
            lambda relation: _rows(binder, relation),
            lambda relation: _parameters(relation, binder.parameter_types),
            lambda: _dependencies(binder),
            _lowering,
            lambda other: _plan(other, binder.snapshot, (), binder.environment),
        ),
    )


def _lowering(chosen: Callable[[], Physical]) -> Callable[[int], DAG]:
    """The DAG for a parallelism; each is lowered on first use, and the last 8 are cached."""

    @lru_cache(maxsize=8)
    def dag(parallelism: int) -> DAG:
        return lower(chosen(), parallelism)

    return dag


def _dependencies(binder: Binder) -> tuple[Any, ...]:
    return tuple(binder.dependencies.values())


def _parameters(relation: Relation, argument_types: tuple[SqlType, ...]) -> tuple[SqlType, ...]:
    """The type of each parameter: the one that its context requires, else its argument's type."""
    types: dict[int, SqlType] = {}
    for node in everything(relation):
        for expression in node.own_expressions:
            for part in expressions_in(expression):
                if (
                    isinstance(part, Parameter)
                    and types.setdefault(part.index, part.type) != part.type
                ):
                    raise SeveralTypes(part.index)
    return tuple(types.get(index, kind) for index, kind in enumerate(argument_types))
