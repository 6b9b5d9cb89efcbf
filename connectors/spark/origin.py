"""The rows of a Spark table as a DataFrame of the connection's session.

A registered DataFrame always has the same plan. The DataFrame of a mapping is created again for
every query, so that it sees the current files and the current table.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Lock
from typing import Any, cast

from runnel.catalog import TableColumn
from runnel.connectors.spark.conversion import changed, converted
from runnel.connectors.spark.errors import spark_error, spark_errors
from runnel.connectors.spark.options import PARSED, SparkOptions
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.types import SparkColumn, column_of, ddl, quoted
from runnel.errors import Error, ProgrammingError
from runnel.sqltypes import NULL

_MADE_UP = re.compile(r"_c\d+")
"""The names that Spark generates for columns without a name in the header."""


class DataFrameOrigin(ABC):
    """Returns the DataFrame of a table."""

    is_fixed = False
    """Whether it has the same plan for every query."""

    @abstractmethod
    def frame(self, spark: Spark) -> Any:
        """The DataFrame in Runnel's clone of the session, under its own names."""


class RegisteredFrame(DataFrameOrigin):
    """A DataFrame that the user registered."""

    is_fixed = True

    def __init__(self, spark: Spark, frame: Any) -> None:
        self._spark = spark
        self.dataframe = frame
        self._brought: Any = None
        self._lock = Lock()

    def frame(self, spark: Spark) -> Any:
        with self._lock, spark_errors():
            if self._brought is None:
                self._brought = spark.brought(self.dataframe)
            return self._brought


class ReaderOrigin(DataFrameOrigin):
    """Files, or another data source that Spark has a package for.

    `columns` are the columns that the mapping declares.
    """

    def __init__(self, options: SparkOptions, columns: Sequence[TableColumn]) -> None:
        self._options = options
        self._columns = columns

    def frame(self, spark: Spark) -> Any:
        is_parsed = self._options.format in PARSED
        try:
            with spark_errors():
                return self._read(spark, with_schema=is_parsed)
        except ProgrammingError as error:
            # An existing folder without files has the declared columns.
            if (
                "UNABLE_TO_INFER_SCHEMA" not in (error.detail or "")
                or is_parsed
                or not self._columns
            ):
                raise
        with spark_errors():
            return self._read(spark, with_schema=True)

    def _read(self, spark: Spark, *, with_schema: bool) -> Any:
        options = self._options
        assert options.format is not None
        reader = _with_options(spark.own.read.format(options.format), options, self._columns)
        if with_schema and self._columns:
            reader = reader.schema(schema_text(self._columns))
        return reader.load() if options.path is None else reader.load(options.path)


class TableOrigin(DataFrameOrigin):
    """A table or view of Spark's catalog, including temporary views of the session."""

    def __init__(self, table: str) -> None:
        self._table = table

    def frame(self, spark: Spark) -> Any:
        with spark_errors():
            return spark.brought(spark.session.table(self._table))


class QueryOrigin(DataFrameOrigin):
    """A query in Spark's own SQL, run with the session's own settings."""

    def __init__(self, query: str) -> None:
        self._query = query
        self._is_query = False

    def frame(self, spark: Spark) -> Any:
        with spark_errors():
            if not self._is_query:
                self._check(spark)
                self._is_query = True
            return spark.brought(spark.session.sql(self._query))

    def _check(self, spark: Spark) -> None:
        """Ensures that the text is a query, since `sql` executes commands at once."""
        try:
            # In parentheses, since DESCRIBE QUERY also describes a table with the name "query".
            spark.session.sql(f"DESCRIBE QUERY ({self._query.rstrip().removesuffix(';')}\n)")
        except Exception as error:
            if not hasattr(error, "getCondition") or error.getCondition() != "PARSE_SYNTAX_ERROR":
                raise
            parse_error = cast(Error, spark_error(error))
            raise ProgrammingError(
                f'the option "query" of a Spark mapping is not a query: {parse_error.message}',
                detail=parse_error.detail,
                hint="write a SELECT; commands are not run from here",
            ) from error


class FollowedOrigin(DataFrameOrigin):
    """Files, a data source or a table as a streaming DataFrame.

    `columns` are the columns that the mapping declares.
    """

    def __init__(self, options: SparkOptions, columns: Sequence[TableColumn]) -> None:
        self._options = options
        self._columns = columns

    def frame(self, spark: Spark) -> Any:
        options = self._options
        with spark_errors():
            if options.table is not None:
                return spark.brought(spark.session.readStream.table(options.table))
            assert options.format is not None
            reader = _with_options(
                spark.own.readStream.format(options.format), options, self._columns
            )
            if options.is_file_format:
                reader = reader.schema(self._schema(spark))
            return reader.load() if options.path is None else reader.load(options.path)

    def _schema(self, spark: Spark) -> Any:
        """The schema of a stream of files: the declared columns, or the columns of the files
        now."""
        if self._columns:
            return schema_text(self._columns)
        return ReaderOrigin(self._options, ()).frame(spark).schema


def _with_options(reader: Any, options: SparkOptions, columns: Sequence[TableColumn]) -> Any:
    """A reader of Spark with the mapping's options, and with Runnel's defaults for missing ones."""
    lower_options = {name.lower(): value.lower() for name, value in options.passed.items()}
    if options.format in PARSED and "mode" not in lower_options:
        # By default Spark reads malformed values as NULL.
        reader = reader.option("mode", "FAILFAST")
    names = [column.external_name or column.name for column in columns if options.format == "csv"]
    if (
        names
        and lower_options.get("header") == "true"
        and not any(_MADE_UP.fullmatch(name) for name in names)
    ):
        # By default Spark matches columns only by position, even if the header has them in another
        # order.
        reader = reader.option("enforceSchema", "false")
    return reader.options(**options.passed)


def origin_of(options: SparkOptions, columns: Sequence[TableColumn]) -> DataFrameOrigin:
    """The origin that a mapping's options describe."""
    if options.table is not None:
        return TableOrigin(options.table)
    if options.query is not None:
        return QueryOrigin(options.query)
    return ReaderOrigin(options, columns)


def schema_text(columns: Sequence[TableColumn]) -> str:
    """Columns in Spark's DDL."""
    return ", ".join(
        f"{quoted(column.external_name or column.name)} {ddl(column.type)}" for column in columns
    )


def columns_of(frame: Any) -> list[SparkColumn]:
    """The columns of a DataFrame, under their own names."""
    return [column_of(field.name, field.dataType) for field in frame.schema.fields]


def matched(frame: Any, columns: Sequence[TableColumn], table: str) -> Any:
    """The DataFrame with a table's columns as c0, c1…, in Runnel's types.

    Columns that were never readable are left out. OperationalError if a column was deleted, or has
    a type that cannot be converted to the table's.
    """
    found_columns = columns_of(frame)
    positions = {
        column.name.lower(): position
        for position, column in reversed(list(enumerate(found_columns)))
    }
    by_position = [column.name for column in columns] == unique_names(
        [column.name for column in found_columns]
    )
    chosen = []
    for number, column in enumerate(columns):
        name = column.external_name or column.name
        position = number if by_position else positions.get(name.lower())
        if position is None:
            raise changed(
                f'column "{name}" of "{table}" no longer exists',
                f"there are {', '.join(c.name for c in found_columns)}",
            )
        found = found_columns[position]
        if found.problem is None or column.type != NULL:
            chosen.append(converted(found, column, f"`f{position}`", table) + f" AS `c{number}`")
    try:
        return frame.toDF(*[f"f{position}" for position in range(len(found_columns))]).selectExpr(
            *chosen
        )
    except Exception as error:
        raise spark_error(error) from error


def unique_names(names: Sequence[str]) -> list[str]:
    """The column names that a query sees: none is empty, and none occurs twice (ignoring case)."""
    taken = {name.lower() for name in names if name}
    used: set[str] = set()
    result = []
    for number, name in enumerate(names, 1):
        candidate = base = name or f"column_{number}"
        again = 0
        while (
            candidate.lower() in used
            or (again and candidate.lower() in taken)
            or (not name and candidate.lower() in taken)
        ):
            again += 1
            candidate = f"{base}_{again}"
        used.add(candidate.lower())
        result.append(candidate)
    return result
