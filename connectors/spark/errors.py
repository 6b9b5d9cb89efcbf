"""Converts Spark's errors: the condition selects the class, one sentence becomes the message,
and the whole text becomes the detail."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from threading import local

from runnel.base.passwords import without_password
from runnel.connectors.spark.error_hints import fault_of
from runnel.connectors.spark.options import FILE_FORMATS, PACKAGED
from runnel.duckdb.errors import marked
from runnel.errors import (
    ERROR_MARK,
    DataError,
    DivisionByZero,
    Error,
    ErrorCode,
    NotSupportedError,
    OperationalError,
    OutOfRangeException,
    ProgrammingError,
    suggest,
)

_CONDITION = re.compile(
    r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z0-9_]+)*)\]\s+(.*?)(?:\s*SQLSTATE:\s*(\w{5})|\Z)", re.DOTALL
)
_RAISED = re.compile(re.escape(ERROR_MARK) + r"(.*?)(?:\s*SQLSTATE:|\n|\Z)", re.DOTALL)
_ADVICE = re.compile(
    r"\s*(?:Use `try_|If necessary set|You can set|To tolerate|Consider )[^\n]*", re.DOTALL
)
_CALL = re.compile(r"An error occurred while calling \S+$")
_CLASS = re.compile(r"(?:\A:\s*)?(?:\b[a-z]\w*\.){2,}[A-Z][\w$]*(?:Exception|Error):\s*")
_SOURCE = re.compile(r"data source: (.+?)\.\s")
_SENTENCE = re.compile(r"(.+?)(?:\.(?=\s|\Z)|\n|\Z)", re.DOTALL)

_MESSAGES = {
    "DIVIDE_BY_ZERO": "division by zero",
    "REMAINDER_BY_ZERO": "division by zero",
    "INTERVAL_DIVIDED_BY_ZERO": "division by zero",
    "ARITHMETIC_OVERFLOW": "overflow in Spark",
    "BINARY_ARITHMETIC_OVERFLOW": "overflow in Spark",
    "INTERVAL_ARITHMETIC_OVERFLOW": "overflow in Spark",
}
_CLASSES: dict[str, type[Error]] = {
    "22003": OutOfRangeException,
    "22012": DivisionByZero,
    "22": DataError,
    "23": DataError,
    "0A": NotSupportedError,
    "42": ProgrammingError,
    "3D": ProgrammingError,
    "3F": ProgrammingError,
}
"""By the SQLSTATE or its first two letters; all others are an OperationalError."""

_PACKAGES = {
    "delta": (
        "start Spark with spark.jars.packages=io.delta:delta-spark_2.13:VERSION, "
        "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
        "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog, or use "
        "TYPE Delta, which needs no Spark"
    ),
    "iceberg": (
        "start Spark with "
        "spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-SPARK_2.13:VERSION, "
        "spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions "
        "and, for tables by name, "
        "spark.sql.catalog.NAME=org.apache.iceberg.spark.SparkCatalog, or use TYPE Iceberg, "
        "which needs no Spark"
    ),
}
"""The settings with which Spark must be started for a data source whose package it lacks."""

_CAST = re.compile(
    r"value (-?(?:[\d.]+(?:E-?\d+)?|Infinity|NaN))(?:BD|[LSYDF])? of the type "
    r'"([A-Z]+(?:\(\d+,\d+\))?)" cannot be cast to "([A-Z]+)"'
)
_NUMBERS = {
    "INT": "INTEGER",
    "FLOAT": "REAL",
    **{name: name for name in ("TINYINT", "SMALLINT", "BIGINT", "DOUBLE")},
}
"""Runnel's names of Spark's numeric types."""

_STREAM_FAILED = "terminated with exception:"
_NO_FILES = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
_DELIMITER = "INVALID_DELIMITER_VALUE."
_CANCELLED = ("SPARK_JOB_CANCELLED", "OPERATION_CANCELED")
_LOST = (
    "connection refused",
    "py4jnetworkerror",
    "answer from java side is empty",
    "sparkcontext was shut down",
)
_LOST_THERE = (
    "statuscode.unavailable",
    "retries_exceeded",
    "invalid_handle.session_",
    "session_changed",
)
"""The same for a session of Spark Connect."""


def spark_error(error: BaseException) -> BaseException:
    """Converts an exception of pyspark to an error of Runnel; such errors and Ctrl-C are
    returned as they are."""
    if isinstance(error, Error) or not isinstance(error, Exception):
        return error
    lines = list(_lines(error))
    text = _text(lines)
    raised = _RAISED.search(text)
    if raised is not None:
        return marked(raised.group(1).strip(), detail=f"Spark: {text}")
    fault = fault_of("\n".join(lines), text)
    if fault is not None:
        return fault
    conditions = [
        (found.group(1), found.group(2), found.group(3) or "")
        for found in _CONDITION.finditer(_of_stream(text))
    ]
    if any(name in _CANCELLED for name, _, _ in conditions):
        return OperationalError(
            "the Spark job was cancelled", code=ErrorCode.CANCELLED, detail=text
        )
    lower = f"{type(error).__name__} {text}".lower()
    if any(words in lower for words in _LOST):
        return OperationalError(
            "the Spark session is gone: its Java process doesn't answer",
            code=ErrorCode.CONNECTION_PROBLEM,
            detail=text,
            hint=(
                "run the statement again, which starts a new session; with a session of your own, "
                "open a new connection"
            ),
        )
    if any(words in lower for words in _LOST_THERE):
        return OperationalError(
            "the Spark session is gone: its Spark Connect server doesn't answer, or has dropped it",
            code=ErrorCode.CONNECTION_PROBLEM,
            detail=text,
            hint=(
                "run the statement again, which creates a new session; with a session of your own, "
                "open a new connection"
            ),
        )
    if not conditions:
        return OperationalError(f"Spark failed: {_sentence(_of_stream(text))}", detail=text)
    return _of_condition(*_main_condition(conditions), text)


def _of_stream(text: str) -> str:
    """The cause of a streaming query's failure, from a text that begins with the query's ids."""
    return text.split(_STREAM_FAILED, 1)[1].lstrip() if _STREAM_FAILED in text else text


def _of_condition(name: str, reason: str, state: str, text: str) -> Error:
    kind = _CLASSES.get(state) or _CLASSES.get(state[:2], OperationalError)
    code = (
        ErrorCode.OBJECT_NOT_FOUND
        if name.endswith("_NOT_FOUND") and kind is ProgrammingError
        else None
    )
    message = (
        _MESSAGES.get(name.partition(".")[0])
        or _converting(name, reason)
        or _lowered(_sentence(_ADVICE.sub("", reason)))
    )
    if name.startswith(_DELIMITER):
        message = f"{message}: {_lowered(_sentence(reason.partition('. ')[2]))}"
    return kind(message, code=code, detail=f"Spark: {text}", hint=_hint(name, reason))


def _converting(name: str, reason: str) -> str:
    """The message for a failed cast of a number, in Runnel's words; empty for any other
    condition."""
    found = _CAST.search(reason) if name == "CAST_OVERFLOW" else None
    if found is None:
        return ""
    value, source, target = found.group(1), found.group(2), _NUMBERS.get(found.group(3))
    shown = source.replace(",", ", ") if source.startswith("DECIMAL(") else _NUMBERS.get(source)
    if shown is None or target is None:
        return ""
    if value.endswith(("Infinity", "NaN")):
        return "cannot convert infinite or NaN to an integer"
    if shown in ("DOUBLE", "REAL"):
        value = repr(float(value))
    return f"numeric overflow while converting {value} from {shown} to {target}"


def _hint(name: str, reason: str) -> str | None:
    if name in _NO_FILES:
        return "for a new path, declare the columns: CREATE MAPPING … (name TYPE, …) …"
    if name.startswith(_DELIMITER):
        return (
            "correct the option 'sep': one or several characters, of which a tab is '\\t' and a "
            "backslash '\\\\'"
        )
    found = _SOURCE.search(f"{reason} ")
    if name != "DATA_SOURCE_NOT_FOUND" or found is None:
        return None
    source = found.group(1)
    if source.lower() in _PACKAGES:
        return _PACKAGES[source.lower()]
    if source.lower() in PACKAGED:
        return (
            f"start Spark with the package that has {source}: "
            "its setting spark.jars.packages names it"
        )
    otherwise = (
        "Spark has " + ", ".join(FILE_FORMATS) + " and what its setting spark.jars.packages names"
    )
    return suggest(source, (*FILE_FORMATS, *PACKAGED), otherwise)


def _main_condition(conditions: list[tuple[str, str, str]]) -> tuple[str, str, str]:
    """The most informative condition: one about data, deep in the report of a failed task, or
    else the first."""
    return next((item for item in conditions if item[2].startswith("22")), conditions[0])


def _text(lines: Sequence[str]) -> str:
    """The messages of the exception and its causes in Java, each once.

    Stack traces, class names and passwords are removed.
    """
    said = (_CLASS.sub("", line) for line in lines if not _is_noise(line))
    return without_password("\n".join(dict.fromkeys(line for line in said if line)))


def _is_noise(line: str) -> bool:
    """Whether a line belongs to a stack trace, or is of no use to the author of the statement."""
    if line.startswith(
        ("at ", "... ", "Caused by: java.lang.ClassNotFoundException")
    ) or line.endswith("stacktrace:"):
        return True
    return _CALL.match(line.rstrip(".")) is not None


def _lines(error: BaseException) -> Iterator[str]:
    yield from (line.strip() for line in str(error).split("\n") if line.strip())
    cause = error.__cause__
    if cause is not None and str(cause) not in str(error):
        yield from _lines(cause)


def _sentence(text: str) -> str:
    found = _SENTENCE.match(text.strip())
    return text.strip() if found is None else " ".join(found.group(1).split())


def _lowered(text: str) -> str:
    """A sentence without its initial capital, unless it begins with a name."""
    return text[0].lower() + text[1:] if len(text) > 1 and text[1].islower() else text


_inside = local()
"""Its `depth` is above 0 while pyspark runs on behalf of Runnel."""


class _NotOurs(logging.Filter):
    """Suppresses pyspark's log records about errors that Runnel raises."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_inside, "depth", 0)


_NOT_OURS = _NotOurs()


def leave_out_of_logs() -> None:
    """Keeps Runnel's own errors out of the logs of pyspark's query contexts."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        # By pyspark's own class: it would fail on a logger of another class.
        PySparkLogger.getLogger(name).addFilter(_NOT_OURS)


class spark_errors:  # noqa: N801 - reads as a statement, like contextlib.suppress
    """Converts exceptions of pyspark to errors of Runnel."""

    def __enter__(self) -> None:
        _inside.depth = getattr(_inside, "depth", 0) + 1

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        _inside.depth -= 1
        if error is not None:
            found = spark_error(error)
            if found is not error:
                raise found from error
