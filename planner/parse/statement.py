"""`parse`: SQL text to one statement.

The first word selects the parser of the statement. Queries, and the expressions of DML, are parsed
by sqlglot (`query/query.py`). Every other statement is parsed here or in `dml`, `ddl`, `jobs` and
`settings`, by recursive descent over the tokens. Each of these modules is imported when the first
statement of its kind is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import TokenType
from sqlglot.tokenizer_core import Token

from runnel.errors import NotSupportedError, ParserException, Position, ProgrammingError
from runnel.planner.parse.reader import QUERY_WORDS, StatementReader
from runnel.planner.parse.syntax import AlterJob, Explain, Statement
from runnel.planner.parse.tokens import (
    FLINK_DETAILS,
    blank,
    is_statement_set,
    position_at,
    tokenize,
)

_KNOWN = (
    "the most common statements are SELECT, INSERT, CREATE TABLE, CREATE MAPPING, CREATE JOB, "
    "SHOW and EXPLAIN"
)
_SAVEPOINTS = ("SAVEPOINT", "RELEASE")
_MAY_BE_FLINK = ("EXECUTE", "BEGIN", "START")
"""The words that begin statements of Flink as well as ones of Runnel."""
_EXECUTED = ("INSERT", "SELECT", "WITH", "VALUES")
"""The words after EXECUTE in statements of Flink, which are the statements without EXECUTE."""
_EXTRAS = "connectors and formats are extras of the package: pip install 'runnel[all]'"
_RIGHTS = "leave it out: a connection has one user, and a server has tokens (docs/security.md)"
_FOREIGN = {
    "ALTER": "ALTER supports TABLE, VIEW, MATERIALIZED VIEW and JOB; CREATE OR REPLACE changes a "
    "mapping or macro",
    "CALL": "call a function in a query: SELECT f(x), or SELECT * FROM f(x) for a table function",
    "DECLARE": "a cursor of Python fetches rows in chunks: cursor.fetchmany(n)",
    "DO": "run the statements one by one, from Python or a script",
    "GRANT": _RIGHTS,
    "INSTALL": _EXTRAS,
    "LISTEN": "read a stream: SELECT * FROM a mapping of Kafka or a growing file",
    "LOAD": _EXTRAS,
    "LOCK": "leave it out: a statement locks the table that it changes",
    "NOTIFY": "write to a stream: INSERT INTO a mapping of Kafka or a file",
    "REINDEX": "leave it out: indexes are up to date",
    "REPLACE": "use INSERT OR REPLACE INTO",
    "REVOKE": _RIGHTS,
    "UNLISTEN": "leave it out: there is no LISTEN",
    "UPSERT": "use INSERT OR REPLACE INTO",
}


_CHANGES = frozenset(("INSERT", "UPDATE", "DELETE", "MERGE"))
"""The words of statements that change rows."""

_PARAMETER_SIGNS = frozenset(
    (TokenType.PLACEHOLDER, TokenType.PARAMETER, TokenType.COLON, TokenType.MOD)
)
"""The tokens with which a parameter may begin."""


def parse(sql: str, *, keeps_public: bool = False) -> Statement:
    """Parses the single statement in `sql`; a semicolon at its end is allowed.

    Raises ProgrammingError for wrong syntax, for no statement and for more than one, and
    NotSupportedError for statements and clauses that Runnel does not support. Both errors have a
    position, and a hint if a remedy is known.
    """
    if sql.lstrip()[:3].upper() in ("SET", "RES") and "." in sql:
        # Loaded on first use: most statements are no settings.
        from runnel.planner.parse.settings import with_quotes

        sql = with_quotes(sql)
    try:
        tokens = _single(tokenize(sql), sql)
        numbers: dict[int, int] = {}
        if any(token.token_type in _PARAMETER_SIGNS for token in tokens):
            # Loaded on first use: many statements have no parameters.
            from runnel.planner.parse.parameters import number_parameters

            tokens, parameters = number_parameters(tokens, sql)
            numbers = parameters.numbers
        reader = StatementReader(tokens, sql, numbers)
        reader.keeps_public = keeps_public
        return _parse_statement(reader)
    except RecursionError:
        raise ProgrammingError("the statement is nested too deep") from None
    except ProgrammingError as error:
        error.of_stage(ParserException)
        raise


def _single(tokens: list[Token], sql: str) -> Sequence[Token]:
    """The tokens without semicolons at the end."""
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens = tokens[:-1]
    if not tokens:
        raise ProgrammingError("the SQL text is empty", hint=_KNOWN)
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            if is_statement_set(tokens):
                return tokens
            if tokens[0].text.upper() == "CREATE":
                # Loaded on first use: it is an error in most cases.
                from runnel.planner.parse.flink.statement_set import refused_job

                refused = refused_job(tokens, sql)
                if refused is not None:
                    raise refused
            raise ProgrammingError(
                "the command must contain a single statement",
                hint="execute the statements one by one",
                position=position_at(token, sql),
            )
    return tokens


def _parse_statement(reader: StatementReader) -> Statement:
    word = reader.peek()
    if word == "WITH" and not _CHANGES.isdisjoint(reader.words):
        # Loaded on first use: few statements have both.
        from runnel.planner.parse.query.with_changes import insert_first

        at = reader.index
        tokens = insert_first(reader.tokens[at:], reader.words[at:], reader.sql)
        reader = reader.of(tokens)
        word = reader.peek()
    if word == "SELECT" and "SET_CONFIG" in (reader.peek(1), reader.peek(3)):
        # Loaded on first use: only dumps of PostgreSQL have it.
        from runnel.planner.parse.settings import parse_set_config

        return parse_set_config(reader)
    if word in QUERY_WORDS:
        return reader.query()
    if word == "EXPLAIN":
        return _parse_explain(reader)
    if word == "EXECUTE" and reader.peek(1) in _EXECUTED:
        # The text of the statement, which a job stores, is without the word as well.
        start, end = reader.tokens[reader.index].start, reader.tokens[reader.index].end + 1
        text = reader.sql[:start] + blank(reader.sql[start:end]) + reader.sql[end:]
        return parse(text, keeps_public=reader.keeps_public)
    read = _reader(word, _object_word(reader))
    if read is None or word in _MAY_BE_FLINK:
        # Loaded on first use: most statements are not Flink's.
        from runnel.planner.parse.flink.statements import refused

        error = refused(reader)
        if error is not None or read is None:
            raise error or _unknown(reader, word)
    statement = read(reader)
    reader.finish()
    return statement


def _object_word(reader: StatementReader) -> str:
    """The second word of the statement; after OR REPLACE, the word that follows."""
    is_replacing = reader.peek(1) == "OR" and reader.peek(2) == "REPLACE"
    return reader.peek(3) if is_replacing else reader.peek(1)


def _reader(word: str, second: str) -> Callable[[StatementReader], Statement] | None:
    """Returns the parser of the statements that begin with these words; None if there is none."""
    match word:
        case "ALTER" | "CREATE" | "DROP" if second == "JOB" or (
            second == "SNAPSHOT" and word != "ALTER"
        ):
            from runnel.planner.parse import jobs

            return {
                "ALTER": jobs.parse_alter,
                "CREATE": jobs.parse_create,
                "DROP": jobs.parse_drop,
            }[word]
        case "COPY":
            return _parse_copy
        case "CANCEL" | "VERIFY" | "STOP" if word != "STOP" or second == "JOB":
            from runnel.planner.parse import jobs

            return jobs.READERS[word]
        case "INSERT" | "SINK" | "UPDATE" | "DELETE":
            from runnel.planner.parse import dml as changes

            return {"UPDATE": changes.parse_update, "DELETE": changes.parse_delete}.get(
                word, changes.parse_insert
            )
        case "ALTER" | "TRUNCATE" if word == "TRUNCATE" or second == "TABLE":
            from runnel.planner.parse import alter_table

            is_truncate = word == "TRUNCATE"
            return alter_table.parse_truncate if is_truncate else alter_table.parse_alter_table
        case "MERGE":
            from runnel.planner.parse.merge import parse_merge

            return parse_merge
        case "CREATE" | "DROP":
            from runnel.planner.parse import ddl as definitions

            return definitions.parse_create if word == "CREATE" else definitions.parse_drop
        case "DESCRIBE" | "DESC" | "SUMMARIZE":
            from runnel.planner.parse import describe

            return describe.parse_summarize if word == "SUMMARIZE" else describe.parse_describe
        case "SHOW" | "SET" | "RESET":
            from runnel.planner.parse import settings

            readers: dict[str, Callable[[StatementReader], Statement]] = {
                "SHOW": settings.parse_show,
                "SET": settings.parse_set,
                "RESET": settings.parse_reset,
            }
            return readers[word]
        case "USE":
            from runnel.planner.parse.session.schemas import parse_use

            return parse_use
        case "EXECUTE" | "BEGIN" if second == "STATEMENT":
            from runnel.planner.parse.flink.statement_set import parse_statement_set

            return parse_statement_set
    return _session_reader(word, second)


def _session_reader(word: str, second: str) -> Callable[[StatementReader], Statement] | None:
    """The parser of a statement about the session or its directory; None if it is no such word."""
    match word:
        case "ALTER" | "ANALYZE" if second == ("VIEW" if word == "ALTER" else "TABLE"):
            from runnel.planner.parse.flink import inspections

            is_view = word == "ALTER"
            return inspections.parse_alter_view if is_view else inspections.parse_analyze
        case "ALTER" if second == "MATERIALIZED":
            from runnel.planner.parse.session.materialized_views import parse_alter_view

            return parse_alter_view
        case "ANALYZE" | "CHECKPOINT" | "FORCE" | "VACUUM":
            from runnel.planner.parse.session.maintenance import parse_maintenance

            return parse_maintenance
        case "COMMENT":
            from runnel.planner.parse.session.comments import parse_comment

            return parse_comment
        case "ATTACH" | "DETACH":
            from runnel.planner.parse.session import schemas

            return schemas.parse_attach if word == "ATTACH" else schemas.parse_detach
        case "BACKUP":
            from runnel.planner.parse.session.backup import parse_backup

            return parse_backup
        case "EXPORT" | "IMPORT":
            from runnel.planner.parse.session import exports

            return exports.parse_export if word == "EXPORT" else exports.parse_import
        case "PREPARE" | "EXECUTE" | "DEALLOCATE":
            from runnel.planner.parse.session import prepared

            readers: dict[str, Callable[[StatementReader], Statement]] = {
                "PREPARE": lambda reader: prepared.parse_prepare(reader, parse),
                "EXECUTE": prepared.parse_execute,
                "DEALLOCATE": prepared.parse_deallocate,
            }
            return readers[word]
        case "PRAGMA":
            from runnel.planner.parse.session.pragma import parse_pragma

            return parse_pragma
        case "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK" | "ABORT":
            from runnel.planner.parse.session import transactions

            return (
                transactions.parse_begin if word in ("BEGIN", "START") else transactions.parse_end
            )
    return None


def _parse_copy(reader: StatementReader) -> Statement:
    # Loaded on first use, as the other readers.
    if reader.peek(1) == "FROM" and reader.peek(2) == "DATABASE":
        from runnel.planner.parse.session.exports import parse_copy_database

        return parse_copy_database(reader)
    from runnel.planner.parse.query.copies import parse_copy

    return parse_copy(reader)


def _unknown(reader: StatementReader, word: str) -> ProgrammingError | NotSupportedError:
    position: Position = reader.position
    if word in _SAVEPOINTS:
        return NotSupportedError(
            f"{word} is not supported",
            hint="there are no savepoints: COMMIT before a statement that may fail, or ROLLBACK, "
            "which undoes the whole transaction; INSERT … ON CONFLICT DO NOTHING does not fail",
            position=position,
        )
    if word in _FOREIGN:
        return NotSupportedError(
            f"{word} is not supported", hint=_FOREIGN[word] or _KNOWN, position=position
        )
    # Loaded on first use, as the statement has failed.
    from runnel.planner.parse.query.misspelt import unknown_beginning

    token = reader.tokens[reader.index]
    return unknown_beginning(reader.sql[token.start : token.end + 1], position, _KNOWN)


_STAGES = {
    "LOGICAL": "logical",
    "PHYSICAL": "physical",
    "DAG": "dag",
    "STATE": "state",
    "ANALYZE": "analyze",
}
_FORMATS = {"TEXT": "text", "DOT": "dot", "JSON": "json"}
_DETAILS = ("VERBOSE", "COSTS", "BUFFERS", "TIMING", "SUMMARY", "SETTINGS", "WAL", "MEMORY")
"""Options of PostgreSQL for details of its plans: they are accepted, and change nothing."""
_EXPLAINED = (*QUERY_WORDS, "INSERT", "SINK", "UPDATE", "DELETE", "MERGE", "COPY", "SUMMARIZE")


def _parse_explain(reader: StatementReader) -> Explain:
    position = reader.position
    reader.expect("EXPLAIN")
    if reader.accept("PLAN"):
        reader.expect("FOR")
    stage, form = _explain_options(reader)
    if reader.peek() == "STATEMENT" and reader.peek(1) == "SET":
        # Loaded on first use: few statements are statement sets.
        from runnel.planner.parse.flink.statement_set import explained_set

        explained = explained_set(reader, position, stage, form)
        reader.finish()
        return explained
    is_job = reader.peek() in ("CREATE", "ALTER") and reader.peek(1) == "JOB"
    is_table = _is_table_as(reader)
    is_view = reader.peek() == "CREATE" and _object_word(reader) == "MATERIALIZED"
    if reader.peek() not in _EXPLAINED and not (is_job or is_table or is_view):
        if reader.at_end:
            raise reader.error("a query, INSERT, SINK, UPDATE, DELETE or CREATE JOB")
        raise NotSupportedError(
            f"EXPLAIN {reader.peek() or reader.next().text} is not supported",
            hint=_explain_hint(reader),
            position=reader.position if not reader.at_end else position,
        )
    statement = _parse_statement(reader)
    if is_table and stage == "analyze":
        raise NotSupportedError(
            "EXPLAIN ANALYZE does not support CREATE TABLE … AS",
            hint="analyze its query",
            position=statement.position,
        )
    if is_table:
        statement = getattr(statement, "query", None) or statement
    if isinstance(statement, AlterJob) and statement.body is None:
        raise NotSupportedError(
            "EXPLAIN ALTER JOB needs a new query",
            hint=(
                "write EXPLAIN ALTER JOB name AS INSERT INTO … to see which state the new query "
                "can use"
            ),
            position=statement.position,
        )
    if stage == "analyze" and (is_job or is_view):
        raise NotSupportedError(
            f"EXPLAIN ANALYZE does not support {'jobs' if is_job else 'materialized views'}",
            hint="analyze the INSERT or SINK, or look at SHOW JOBS",
            position=statement.position,
        )
    return Explain(sql=reader.sql, position=position, stage=stage, format=form, statement=statement)


def _explain_options(reader: StatementReader) -> tuple[str, str]:
    """Reads `[details] [ANALYZE] [VERBOSE] [(option, …)]`; the stage and the format."""
    stage, form = "all", _flink_format(reader)
    if reader.accept("ANALYZE"):
        stage = "analyze"
    reader.accept("VERBOSE")
    if reader.peek() != "(" or reader.peek(1) in QUERY_WORDS:
        return stage, form
    reader.next()
    while True:
        if reader.accept("FORMAT"):
            form = _choice(reader, _FORMATS, "TEXT, DOT or JSON")
        elif reader.peek() in _DETAILS:
            reader.next()
            _ = any(reader.accept(word) for word in ("ON", "OFF", "TRUE", "FALSE"))
        else:
            chosen = _choice(reader, _STAGES, "LOGICAL, PHYSICAL, DAG, STATE, ANALYZE or FORMAT")
            stage = "analyze" if stage == "analyze" else chosen
        if not reader.accept(","):
            break
    reader.expect(")")
    return stage, form


def _is_table_as(reader: StatementReader) -> bool:
    """Whether the statement is CREATE [OR REPLACE] [TEMP] TABLE … AS, which is explained as its
    query."""
    words = [token.text.upper() for token in reader.tokens[reader.index :]]
    return words[:1] == ["CREATE"] and "TABLE" in words[1:5] and "AS" in words


def _flink_format(reader: StatementReader) -> str:
    """Reads Flink's details of EXPLAIN; the format that they choose."""
    form = "text"
    while reader.peek() in FLINK_DETAILS:
        form = "json" if reader.peek() == "JSON_EXECUTION_PLAN" else form
        reader.next()
        reader.accept(",")
    return form


def _explain_hint(reader: StatementReader) -> str:
    word = reader.peek()
    if word in (*_STAGES, *_FORMATS, "FORMAT"):
        option = "FORMAT JSON" if word == "FORMAT" else word
        option = f"FORMAT {word}" if word in _FORMATS else option
        return f"write the options of EXPLAIN in parentheses: EXPLAIN ({option}) SELECT …"
    return (
        "EXPLAIN accepts a query, SUMMARIZE, INSERT, SINK, UPDATE, DELETE, MERGE, COPY, "
        "CREATE TABLE … AS, CREATE MATERIALIZED VIEW, CREATE JOB or ALTER JOB … AS"
    )


def _choice(reader: StatementReader, choices: dict[str, str], expected: str) -> str:
    word = reader.peek()
    if word not in choices:
        raise reader.error(f"one of {expected}")
    reader.next()
    return choices[word]
