"""Where the rows of a Spark table come from, as a DataFrame of the connection's session.

A registered DataFrame is always the same plan. A mapping's is made anew for every query, so that it
sees the files and the table as they are then.
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
"""What Spark calls a column whose name in the header is empty."""


class Origin(ABC):
    """Gives the DataFrame behind a table."""

    is_fixed = False
    """Whether it is the same plan for every query."""

    @abstractmethod
    def frame(self, spark: Spark) -> Any:
        """The DataFrame in our copy of the session, under its own names."""


class RegisteredFrame(Origin):
    """A DataFrame that the user made."""

    is_fixed = True

    def __init__(self, spark: Spark, frame: Any) -> None:
        self._spark = spark
        self.given = frame
        self._brought: Any = None
        self._lock = Lock()

    def frame(self, spark: Spark) -> Any:
        with self._lock, spark_errors():
            if self._brought is None:
                self._brought = spark.brought(self.given)
            return self._brought


class ReaderOrigin(Origin):
    """Files, or another data source that Spark has a package for. `columns` are those that the
    mapping declares."""

    def __init__(self, name: str, options: SparkOptions, columns: Sequence[TableColumn]) -> None:
        self._name = name
        self._options = options
        self._columns = columns

    def frame(self, spark: Spark) -> Any:
        is_parsed = self._options.format in PARSED
        try:
            with spark_errors():
                return self._read(spark, with_schema=is_parsed)
        except ProgrammingError as error:
            # A folder that is there, but has no file yet, has the columns that are declared.
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


class TableOrigin(Origin):
    """A table or view of Spark's catalog, temporary views of the session included."""

    def __init__(self, table: str) -> None:
        self._table = table

    def frame(self, spark: Spark) -> Any:
        with spark_errors():
            return spark.brought(spark.session.table(self._table))


class QueryOrigin(Origin):
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
        """What isn't a query mustn't get as far as `sql`, which carries out commands at once."""
        try:
            # In parentheses, as DESCRIBE QUERY also means a table of the name "query".
            spark.session.sql(f"DESCRIBE QUERY ({self._query.rstrip().removesuffix(';')}\n)")
        except Exception as error:
            if not hasattr(error, "getCondition") or error.getCondition() != "PARSE_SYNTAX_ERROR":
                raise
            told = cast(Error, spark_error(error))
            raise ProgrammingError(
                f'the option "query" of a Spark mapping is not a query: {told.message}',
                detail=told.detail,
                hint="write a SELECT; commands are not run from here",
            ) from error


class FollowedOrigin(Origin):
    """Files, a data source or a table as a streaming DataFrame. `columns` are those that the
    mapping declares."""

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
        """A stream of files has the columns that are declared, or those that the files have when
        the mapping is made."""
        if self._columns:
            return schema_text(self._columns)
        return ReaderOrigin("", self._options, ()).frame(spark).schema


def _with_options(reader: Any, options: SparkOptions, columns: Sequence[TableColumn]) -> Any:
    """A reader of Spark's with the mapping's options, and those of ours that it doesn't give
    itself."""
    given = {name.lower(): value.lower() for name, value in options.passed.items()}
    if options.format in PARSED and "mode" not in given:
        # Spark's default makes NULL of what it can't read.
        reader = reader.option("mode", "FAILFAST")
    names = [column.external_name or column.name for column in columns if options.format == "csv"]
    if (
        names
        and given.get("header") == "true"
        and not any(_MADE_UP.fullmatch(name) for name in names)
    ):
        # Spark's default goes by places alone, also where the header has the columns in another
        # order by now.
        reader = reader.option("enforceSchema", "false")
    return reader.options(**options.passed)


def origin_of(name: str, options: SparkOptions, columns: Sequence[TableColumn]) -> Origin:
    """The origin that a mapping's options describe."""
    if options.table is not None:
        return TableOrigin(options.table)
    if options.query is not None:
        return QueryOrigin(options.query)
    return ReaderOrigin(name, options, columns)


def schema_text(columns: Sequence[TableColumn]) -> str:
    """Columns as Spark's DDL has them."""
    return ", ".join(
        f"{quoted(column.external_name or column.name)} {ddl(column.type)}" for column in columns
    )


def columns_of(frame: Any) -> list[SparkColumn]:
    """The columns of a DataFrame, under their own names."""
    return [column_of(field.name, field.dataType) for field in frame.schema.fields]


def matched(frame: Any, columns: Sequence[TableColumn], table: str) -> Any:
    """The DataFrame with a table's columns as c0, c1…, in our types; those that it never could give
    are left out. OperationalError where a column is gone, or is of a type that can't become the
    table's."""
    there = columns_of(frame)
    places = {column.name.lower(): place for place, column in reversed(list(enumerate(there)))}
    by_place = [column.name for column in columns] == unique_names(
        [column.name for column in there]
    )
    chosen = []
    for number, column in enumerate(columns):
        name = column.external_name or column.name
        place = number if by_place else places.get(name.lower())
        if place is None:
            raise changed(
                f'column "{name}" of "{table}" is not there any more',
                f"there are {', '.join(c.name for c in there)}",
            )
        found = there[place]
        if found.problem is None or column.type != NULL:
            chosen.append(converted(found, column, f"`f{place}`", table) + f" AS `c{number}`")
    try:
        return frame.toDF(*[f"f{place}" for place in range(len(there))]).selectExpr(*chosen)
    except Exception as error:
        raise spark_error(error) from error


def unique_names(names: Sequence[str]) -> list[str]:
    """The names that a query sees: none empty, none twice (case makes no difference)."""
    taken = {name.lower() for name in names if name}
    given: set[str] = set()
    result = []
    for number, name in enumerate(names, 1):
        candidate = base = name or f"column_{number}"
        again = 0
        while (
            candidate.lower() in given
            or (again and candidate.lower() in taken)
            or (not name and candidate.lower() in taken)
        ):
            again += 1
            candidate = f"{base}_{again}"
        given.add(candidate.lower())
        result.append(candidate)
    return result
