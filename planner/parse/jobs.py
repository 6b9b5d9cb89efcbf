"""CREATE, ALTER, VERIFY and DROP of jobs and snapshots."""

from __future__ import annotations

from runnel.base.frozen import frozen
from runnel.errors import ErrorCode, NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.dml import parse_insert
from runnel.planner.parse.reader import StatementReader
from runnel.planner.parse.syntax import (
    AlterJob,
    Command,
    CreateJob,
    Insert,
    Name,
    OptionClause,
    Statement,
)
from runnel.planner.parse.tokens import read_options

_ACTIONS = ("SUSPEND", "RESUME", "RESTART")


@frozen(kw_only=True)
class DropJob(Command):
    """DROP JOB.

    name: the job.
    if_exists: whether a missing job is no error.
    snapshot: the name after WITH SNAPSHOT, if there is one.
    """

    name: Name
    if_exists: bool
    snapshot: Name | None = None


@frozen(kw_only=True)
class CancelJob(Command):
    """CANCEL JOB: ends a light job.

    id: number of the light job.
    """

    id: int


@frozen(kw_only=True)
class StopJob(Command):
    """STOP JOB of Flink.

    name: the name of a job, or its id.
    is_id: it may be an id.
    has_savepoint: WITH SAVEPOINT is written.
    """

    has_rows = True
    name: Name
    is_id: bool
    has_savepoint: bool


@frozen(kw_only=True)
class VerifyJob(Command):
    """VERIFY JOB.

    name: the job.
    options: the items of OPTIONS.
    """

    has_rows = True
    name: Name
    options: tuple[OptionClause, ...] = ()


@frozen(kw_only=True)
class CreateSnapshot(Command):
    """CREATE SNAPSHOT name FOR JOB job.

    name: the snapshot.
    job: the running job whose state is saved.
    or_replace: whether an existing snapshot of the name is replaced.
    """

    name: Name
    job: Name
    or_replace: bool


@frozen(kw_only=True)
class DropSnapshot(Command):
    """DROP SNAPSHOT.

    name: the snapshot.
    if_exists: whether a missing snapshot is no error.
    """

    name: Name
    if_exists: bool


def parse_create(reader: StatementReader) -> Statement:
    """CREATE [OR REPLACE] {JOB | SNAPSHOT} …"""
    position = reader.position
    reader.expect("CREATE")
    or_replace = reader.accept("OR", "REPLACE")
    parse = _parse_create_job if reader.peek() == "JOB" else _parse_create_snapshot
    return parse(reader, position, or_replace)


def _parse_create_job(reader: StatementReader, position: Position, or_replace: bool) -> CreateJob:
    """JOB [IF NOT EXISTS] name [OPTIONS (…)] AS {INSERT | SINK} INTO …, after CREATE"""
    if or_replace:
        raise NotSupportedError(
            "CREATE OR REPLACE JOB is not supported",
            hint=(
                "ALTER JOB name AS … replaces the query of a job; or DROP JOB name "
                "WITH SNAPSHOT s, then CREATE JOB with "
                "'initialSnapshotName'='s'"
            ),
            position=position,
        )
    reader.expect("JOB")
    if_not_exists = reader.accept("IF", "NOT", "EXISTS")
    name = reader.name("the job")
    options = read_options(reader) if reader.accept("OPTIONS") else ()
    reader.expect("AS")
    body, text = _body(reader)
    return CreateJob(
        sql=reader.sql,
        position=position,
        name=name,
        options=options,
        body=body,
        text=text,
        if_not_exists=if_not_exists,
    )


def parse_alter(reader: StatementReader) -> AlterJob:
    """ALTER JOB name {SUSPEND | RESUME | RESTART | OPTIONS (…) [RESUME] | [OPTIONS (…)] AS
    {INSERT | SINK} INTO …}"""
    position = reader.position
    reader.expect("ALTER", "JOB")
    name = reader.name("the job")
    word = reader.peek()
    if word in _ACTIONS:
        reader.next()
        return AlterJob(sql=reader.sql, position=position, name=name, action=word.lower())
    options = read_options(reader) if (has_options := reader.accept("OPTIONS")) else ()
    if reader.accept("AS"):
        body, text = _body(reader)
        return AlterJob(
            sql=reader.sql,
            position=position,
            name=name,
            action="query",
            options=options,
            body=body,
            text=text,
        )
    if not has_options:
        raise reader.error("one of SUSPEND, RESUME, RESTART, OPTIONS or AS")
    action = "options and resume" if reader.accept("RESUME") else "options"
    return AlterJob(sql=reader.sql, position=position, name=name, action=action, options=options)


ID_DIGITS = 19
"""Maximum number of digits of the id of a job."""


def parse_cancel(reader: StatementReader) -> CancelJob:
    """CANCEL JOB id"""
    reader.expect("CANCEL", "JOB")
    if reader.at_end:
        raise reader.error("the id of a light job")
    position, text = reader.position, reader.next().text
    is_number = text.isascii() and text.isdecimal()
    if is_number and len(text) > ID_DIGITS:
        raise ProgrammingError(
            f"job {text if len(text) <= 40 else text[:40] + '…'} not found",
            code=ErrorCode.OBJECT_NOT_FOUND,
            hint=f"an id has at most {ID_DIGITS} digits: SHOW JOBS lists the ids",
            position=position,
        )
    if not is_number:
        raise ProgrammingError(
            f'a light job has a number as its id, not "{text}"',
            hint="SHOW JOBS lists the ids; DROP JOB name ends a named job",
            position=position,
        )
    return CancelJob(sql=reader.sql, position=position, id=int(text))


def parse_stop(reader: StatementReader) -> StopJob:
    """STOP JOB {'id' | 'name' | id | name} [WITH SAVEPOINT [WITH DRAIN]]"""
    position = reader.position
    reader.expect("STOP", "JOB")
    if reader.at_end:
        raise reader.error("the id or the name of a job")
    where, text = reader.position, reader.next().text
    has_savepoint = reader.accept("WITH", "SAVEPOINT")
    if reader.peek() == "WITH" and reader.peek(1) == "DRAIN":
        raise NotSupportedError(
            "STOP JOB … WITH DRAIN is not supported",
            hint="leave it out: windows that are open stay in the snapshot",
            position=reader.position,
        )
    is_id = text.isascii() and text.isdecimal() and len(text) <= ID_DIGITS
    return StopJob(
        sql=reader.sql,
        position=position,
        name=Name(text, where),
        is_id=is_id,
        has_savepoint=has_savepoint,
    )


def parse_verify(reader: StatementReader) -> VerifyJob:
    """VERIFY JOB name [OPTIONS (…)]"""
    position = reader.position
    reader.expect("VERIFY", "JOB")
    name = reader.name("the job")
    options = read_options(reader) if reader.accept("OPTIONS") else ()
    return VerifyJob(sql=reader.sql, position=position, name=name, options=options)


READERS = {"CANCEL": parse_cancel, "STOP": parse_stop, "VERIFY": parse_verify}
"""The readers of the statements that begin with these words."""


def _parse_create_snapshot(
    reader: StatementReader, position: Position, or_replace: bool
) -> CreateSnapshot:
    """SNAPSHOT name FOR JOB job, after CREATE [OR REPLACE]"""
    reader.expect("SNAPSHOT")
    name = reader.name("the snapshot")
    reader.expect("FOR", "JOB")
    return CreateSnapshot(
        sql=reader.sql,
        position=position,
        name=name,
        job=reader.name("the job"),
        or_replace=or_replace,
    )


def parse_drop(reader: StatementReader) -> Statement:
    """DROP {JOB [IF EXISTS] name [WITH SNAPSHOT snapshot] | SNAPSHOT [IF EXISTS] name}"""
    position = reader.position
    reader.expect("DROP")
    is_job = reader.accept("JOB")
    if not is_job:
        reader.expect("SNAPSHOT")
    if_exists = reader.accept("IF", "EXISTS")
    name = reader.name("the job" if is_job else "the snapshot")
    if not is_job:
        return DropSnapshot(sql=reader.sql, position=position, name=name, if_exists=if_exists)
    snapshot = reader.name("the snapshot") if reader.accept("WITH", "SNAPSHOT") else None
    return DropJob(
        sql=reader.sql, position=position, name=name, if_exists=if_exists, snapshot=snapshot
    )


def _body(reader: StatementReader) -> tuple[Insert, str]:
    """The statement that the job runs, and its text."""
    if reader.at_end:
        raise reader.error("INSERT or SINK")
    if reader.peek() not in ("INSERT", "SINK"):
        raise ProgrammingError(
            "a job runs INSERT INTO or SINK INTO",
            hint=("write AS INSERT INTO mapping SELECT …: no cursor reads the rows of a job"),
            position=reader.position,
        )
    start, end = reader.tokens[reader.index].start, reader.tokens[-1].end
    return parse_insert(reader), reader.sql[start : end + 1]
