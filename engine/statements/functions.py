"""SHOW FUNCTIONS: the functions that SQL can call by name, with what they take and give."""

from __future__ import annotations

from collections.abc import Iterable

from runnel import sqltypes
from runnel.catalog import NamedText
from runnel.expressions.aggregates.function import AggregateFunction
from runnel.expressions.aggregates.registry import AGGREGATES
from runnel.expressions.aggregates.window_functions import WINDOW_FUNCTIONS, WindowFunction
from runnel.expressions.functions import SQL_NAMES
from runnel.expressions.python.function import PythonFunction
from runnel.results.rows import Row
from runnel.sqltypes import Kind, SqlType

_TABLE_FUNCTIONS = (
    ("GENERATE_SERIES", "start, stop [, step]", "rows of v BIGINT"),
    ("GENERATE_STREAM", "rate", "rows of v BIGINT, without an end"),
    ("GLOB", "pattern", "rows of file VARCHAR"),
    ("READ_CSV", "path | paths [, glob] [, option = value …]", "the rows of the files"),
    ("READ_JSON", "path | paths [, glob] [, option = value …]", "the rows of the files"),
    ("READ_PARQUET", "path | paths [, glob] [, option = value …]", "the rows of the files"),
    ("READ_ARROW", "path | paths [, glob] [, option = value …]", "the rows of the files"),
    ("READ_AVRO", "path | paths [, glob] [, option = value …]", "the rows of the files"),
    ("READ_LINES", "path | paths [, glob] [, option = value …]", "the lines of the files"),
    ("READ_TEXT", "path | paths", "the name, text and size of each file"),
    ("READ_BLOB", "path | paths", "the name, bytes and size of each file"),
    ("PARQUET_METADATA", "path | paths", "the columns of each row group"),
    ("PARQUET_SCHEMA", "path | paths", "the columns of each file"),
    ("PARQUET_FILE_METADATA", "path | paths", "the number of rows and the sizes of each file"),
    ("PARQUET_KV_METADATA", "path | paths", "the keys and values of each file"),
    ("CSV_FILE", "path [, glob] [, option => value …]", "the rows of the files"),
    ("JSON_FILE", "path [, glob] [, option => value …]", "the rows of the files"),
    ("JSON_FLAT_FILE", "path [, glob] [, option => value …]", "the rows of the files"),
    ("PARQUET_FILE", "path [, glob] [, option => value …]", "the rows of the files"),
    ("ARROW_FILE", "path [, glob] [, option => value …]", "the rows of the files"),
    ("AVRO_FILE", "path [, glob] [, option => value …]", "the rows of the files"),
    ("LINES_FILE", "path [, glob] [, option => value …]", "the lines of the files"),
)
_SAMPLES = (
    sqltypes.BIGINT,
    sqltypes.DOUBLE,
    sqltypes.VARCHAR,
    sqltypes.BOOLEAN,
    sqltypes.TIMESTAMP,
)
_ARGUMENTS = {
    "count": "* | x ANY | DISTINCT x, y, …",
    "count_star": "*",
    "array_agg": "x ANY [ORDER BY …]",
    "string_agg": "x VARCHAR [, separator VARCHAR] [ORDER BY …]",
    "first": "x ANY [ORDER BY …]",
    "last": "x ANY [ORDER BY …]",
    "arg_min": "x ANY, by ANY",
    "arg_max": "x ANY, by ANY",
    "avg": "x NUMERIC or TEMPORAL",
    "avg_time": "x TEMPORAL",
    "percentile_cont": "x NUMERIC or TEMPORAL, p DOUBLE or DOUBLE[] | p, then "
    "WITHIN GROUP (ORDER BY x)",
    "percentile_disc": "x ANY, p DOUBLE or DOUBLE[] | p, then WITHIN GROUP (ORDER BY x)",
    "approx_quantile": "x NUMERIC or TEMPORAL, p DOUBLE or DOUBLE[]",
    "mode": "x ANY | none, then WITHIN GROUP (ORDER BY x)",
}
_RESULTS = {
    "sum": "BIGINT for integers, DECIMAL(38, s) for DECIMAL(p, s), else DOUBLE",
    "avg": "DECIMAL for DECIMAL, TIMESTAMP for DATE, the type of other times, else DOUBLE",
    "avg_time": "TIMESTAMP for DATE, else the type of x",
    "percentile_cont": "TIMESTAMP for DATE, the type of other times, else DOUBLE; an ARRAY of it "
    "for p DOUBLE[]",
    "percentile_disc": "the type of x; an ARRAY of it for p DOUBLE[]",
    "approx_quantile": "the type of x; an ARRAY of it for p DOUBLE[]",
}
"""The results that the types of sample arguments don't show."""
REWRITTEN = {
    "COUNT_IF": ("x BOOLEAN", "BIGINT"),
    "COUNTIF": ("x BOOLEAN", "BIGINT"),
    "MEDIAN": ("x ANY", "TIMESTAMP for DATE, the type for VARCHAR, BOOLEAN and times, else DOUBLE"),
    "GROUPING": ("x ANY, …", "BIGINT"),
}
"""Arguments and result of the aggregates that the binder replaces with others."""
_WINDOWS = {
    "ntile": ("buckets BIGINT", "BIGINT"),
    "lag": ("x ANY [, offset BIGINT [, default]]", "the type of x"),
    "lead": ("x ANY [, offset BIGINT [, default]]", "the type of x"),
    "first_value": ("x ANY", "the type of x"),
    "last_value": ("x ANY", "the type of x"),
    "nth_value": ("x ANY, n BIGINT", "the type of x"),
}


def function_rows(
    own: Iterable[PythonFunction], definitions: Iterable[NamedText] = ()
) -> list[Row]:
    """Name, kind, arguments, result and family of each function, by name. `own`: the functions that
    users have created; `definitions`: the macros of CREATE MACRO."""
    rows: list[Row] = [
        (name, "scalar", function.arguments, function.result, function.family)
        for name, function in SQL_NAMES.items()
    ]
    for aggregate in AGGREGATES.values():
        names = dict.fromkeys(
            (aggregate.name.upper(), *(name.upper() for name in aggregate.sql_names))
        )
        rows += [
            (name, "aggregate", *aggregate_signature(aggregate), "aggregates")
            for name in names
            if name != "COUNT_STAR"
        ]
    rows += [(name, "aggregate", *found, "aggregates") for name, found in REWRITTEN.items()]
    rows += [
        (name.upper(), "window", *window_signature(item), "windows")
        for name, item in WINDOW_FUNCTIONS.items()
    ]
    rows += [
        (name, "table", arguments, result, "table functions")
        for name, arguments, result in _TABLE_FUNCTIONS
    ]
    rows += _macro_rows()
    rows += own_rows(own, definitions)
    return sorted(rows, key=lambda row: (row[0], row[1]))


def own_rows(own: Iterable[PythonFunction], definitions: Iterable[NamedText]) -> list[Row]:
    """The rows of the functions and macros that users have created, by name."""
    rows: list[Row] = [
        (
            item.name.upper(),
            "aggregate" if item.is_aggregate else "scalar",
            ", ".join(map(str, item.parameters)),
            str(item.result),
            "Python functions",
        )
        for item in own
    ]
    rows += [
        (item.name.upper(), item.kind, *_parts(item.text), "CREATE MACRO")
        for item in definitions
        if item.kind.endswith("macro")
    ]
    return sorted(rows, key=lambda row: (row[0], row[1]))


def _parts(text: str) -> tuple[str, str]:
    """The parameters and the body of the text of a macro."""
    # Loaded on first use: few programs create macros.
    from runnel.planner.parse.macros import forms_of

    names = (", ".join(item.name.text for item in form.parameters) for form in forms_of(text))
    return " | ".join(names), text


def _macro_rows() -> list[Row]:
    """The functions that stand for others; the result is the expression that each stands for."""
    from runnel.planner.bind.scalars.macro_table import macros

    return [
        (
            name,
            "macro",
            "…" if macro.parameters is None else ", ".join(macro.parameters),
            f"{macro.body.removesuffix(' NULL').replace('[', 'ARRAY[…]')}(…)".replace("](…)", "]")
            if macro.parameters is None
            else macro.body.replace("$", "the session's "),
            macro.family,
        )
        for name, found in macros().items()
        for macro in found
    ]


def aggregate_signature(function: AggregateFunction) -> tuple[str, str]:
    """Arguments and result of an aggregate. Results that no table lists are derived from its
    answers for sample types."""
    accepted = [sample for sample in _SAMPLES if function.accepts(sample)]
    kind = "ANY" if len(accepted) == len(_SAMPLES) else _kind(accepted)
    arguments = _ARGUMENTS.get(function.name)
    if arguments is None:
        arguments = f"y {kind}, x {kind}" if function.arguments == 2 else f"x {kind}"
    pairs = [(sample, function.result(sample)) for sample in accepted]
    return arguments, _RESULTS.get(function.name) or _result(pairs)


def _kind(accepted: list[SqlType]) -> str:
    if all(sample.is_integer for sample in accepted):
        return "INTEGER"
    return (
        "NUMERIC"
        if all(sample.is_numeric for sample in accepted)
        else " or ".join(map(str, accepted))
    )


def _result(pairs: list[tuple[SqlType, SqlType]]) -> str:
    results = {result for _, result in pairs}
    if len(results) == 1 and (len(pairs) > 1 or pairs[0][0].kind in (Kind.BOOLEAN, Kind.VARCHAR)):
        return str(results.pop())
    if all(result == argument for argument, result in pairs):
        return "the type of x"
    if all(result.element == argument for argument, result in pairs):
        return "an ARRAY of the type of x"
    return "by the type of x"


def window_signature(function: WindowFunction) -> tuple[str, str]:
    """Arguments and result of a function that requires OVER."""
    if function.name in _WINDOWS:
        return _WINDOWS[function.name]
    return "", "DOUBLE" if function.name in ("percent_rank", "cume_dist") else "BIGINT"
