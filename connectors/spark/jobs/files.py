"""Parquet files of a File mapping, read by Spark itself in a job that runs there.

The mapping does not change: other statements read it with Runnel. Spark reads it only if its reader
has the same semantics: Parquet on the local disk, in one folder, with types whose values are all
the same on both sides.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from runnel.catalog import Table, TableColumn
from runnel.connectors.confined_path import ConfinedPath
from runnel.connectors.files import storage as file_system
from runnel.connectors.files.follow.table import FollowTable
from runnel.connectors.files.storage import RemotePath
from runnel.connectors.files.table import FileTable
from runnel.connectors.spark.errors import spark_errors
from runnel.connectors.spark.fragments.inputs import TRAVELLING, can_take
from runnel.connectors.spark.options import SparkOptions
from runnel.connectors.spark.origin import DataFrameOrigin, FollowedOrigin
from runnel.connectors.spark.session.owner import SessionOwner
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.stream import SparkStreamTable
from runnel.connectors.spark.table import SparkTable
from runnel.relation.nodes import Relation, Scan, transform

_PATTERN = frozenset("*?[]{}\\:")
"""Characters in a path that Spark would read as part of a pattern."""


class FilesOrigin(DataFrameOrigin):
    """The files that a File mapping has when the DataFrame is created."""

    def __init__(self, table: FileTable) -> None:
        self._table = table

    def frame(self, spark: Spark) -> Any:
        paths = [file.path for file in self._table.path.files()]
        with spark_errors():
            frame = spark.own.read.parquet(*paths)
            columns_found = {name.lower() for name in frame.columns}
            if all(_name(column).lower() in columns_found for column in self._table.columns):
                return frame
            # Spark takes the columns from one of the files, unless it is set to read all of them.
            return spark.own.read.option("mergeSchema", "true").parquet(*paths)


def can_read(table: Table) -> bool:
    """Whether Spark may read the table's files instead of Runnel."""
    # A table with folders named key=value has another class.
    if type(table) not in (FileTable, FollowTable):
        return False
    assert isinstance(table, FileTable)
    options, path = table.format.options, table.path
    if table.format.name != "parquet" or not options.on_error.fails or path.ignore_missing:
        return False
    if isinstance(path.text, RemotePath | ConfinedPath) or _PATTERN & set(path.text):
        return False
    if any(column.type.kind not in TRAVELLING for column in table.columns):
        return False
    if not isinstance(table, FollowTable):
        return True
    # Spark follows a folder and all folders below it.
    return (
        path.is_folder()
        and "/" not in (path.glob or "")
        and not any(name[0] not in "._" for name in file_system.subfolders(path.text))
    )


def taken_over(relation: Relation, owner: SessionOwner) -> Relation:
    """The relation in which tables of Spark replace the File mappings that Spark can read; rows
    of small ones are sent to Spark."""

    def change(node: Relation) -> Relation:
        if (
            not isinstance(node, Scan)
            or node.malformed is not None
            or can_take(node.table)
            or not can_read(node.table)
        ):
            return node
        assert isinstance(node.table, FileTable)
        return replace(node, table=_on_spark(node.table, owner))

    return transform(relation, change)


def _on_spark(table: FileTable, owner: SessionOwner) -> SparkTable | SparkStreamTable:
    if isinstance(table, FollowTable):
        passed = {} if table.path.glob is None else {"pathGlobFilter": table.path.glob}
        options = SparkOptions("parquet", table.path.text, None, None, passed, follow=True)
        return SparkStreamTable(
            table.name, table.columns, FollowedOrigin(options, table.columns), owner, {}
        )
    return SparkTable(table.name, table.columns, FilesOrigin(table), owner, {})


def _name(column: TableColumn) -> str:
    return column.external_name or column.name
