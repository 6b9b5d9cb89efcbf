"""Statements of Flink that have another form here: PAUSE JOB, ADD JAR and so on. Loaded
when no statement begins with the word."""

from __future__ import annotations

from runnel.errors import NotSupportedError, as_written
from runnel.planner.parse.reader import StatementReader

_JOBS = {
    "PAUSE": "use ALTER JOB {0} SUSPEND",
    "SUSPEND": "use ALTER JOB {0} SUSPEND",
    "RESUME": "use ALTER JOB {0} RESUME",
    "START": "use ALTER JOB {0} RESUME; CREATE JOB {0} AS INSERT INTO … starts a new one",
    "RESTART": "use ALTER JOB {0} RESTART",
    "KILL": "use DROP JOB {0}",
    "DELETE": "use DROP JOB {0}",
    "REMOVE": "use DROP JOB {0}",
}
"""The remedy for each verb before JOB, with the name of the job."""

_MOST = 300
"""The maximum length of a statement within a hint."""

_SESSION = {
    ("ADD", "JAR"): "connectors are Python packages: see docs/writing_a_connector.md",
    ("REMOVE", "JAR"): "connectors are Python packages",
    ("LOAD", "MODULE"): "functions are Python functions: see Connection.create_function",
    ("UNLOAD", "MODULE"): "functions are Python functions",
    ("COMPILE", "PLAN"): "plans are cached: see SHOW PLANS",
    ("STATEMENT", "SET"): "write EXECUTE STATEMENT SET BEGIN INSERT …; INSERT …; END",
    ("EXECUTE", "PLAN"): "plans are cached: execute the statement",
    ("ALTER", "DATABASE"): "leave it out: a database has no properties",
    ("ALTER", "CATALOG"): "leave it out: a catalog has no options",
    ("ALTER", "FUNCTION"): "write DROP FUNCTION, then CREATE FUNCTION … LANGUAGE PYTHON",
    ("ALTER", "MODEL"): "a model is a function in Python: see Connection.create_function",
}
"""The remedy for statements that begin with these words."""


def refused(reader: StatementReader) -> NotSupportedError | None:
    """The error for a statement of Flink; None for any other statement."""
    word = reader.peek()
    if word in _JOBS and reader.peek(1) == "JOB":
        name = "name"
        if len(reader.tokens) > reader.index + 2:
            name = as_written(reader.tokens[reader.index + 2].text)
        return _error(reader, f"{word} JOB", _JOBS[word].format(name))
    if word == "REPLACE" and reader.peek(1) == "TABLE":
        text = " ".join(reader.sql.split())
        text = text if len(text) <= _MOST else "REPLACE TABLE …"
        return _error(reader, "REPLACE TABLE", f"write CREATE OR {text}")
    for words, remedy in _SESSION.items():
        if all(reader.peek(ahead) == item for ahead, item in enumerate(words)):
            return _error(reader, " ".join(words), remedy)
    return None


def _error(reader: StatementReader, words: str, remedy: str) -> NotSupportedError:
    return NotSupportedError(f"{words} is not supported", hint=remedy, position=reader.position)
