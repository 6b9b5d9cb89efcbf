"""Parquet files of a File mapping, read by Spark itself in a job that runs there.

The mapping stays what it is: other statements read it here. Only where Spark's reader means the
same by the files as ours does it take them over: Parquet on a disk, in one folder, of types whose
every value is the same on both sides.
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
from runnel.connectors.spark.origin import FollowedOrigin, Origin
from runnel.connectors.spark.session.owner import SessionOwner
from runnel.connectors.spark.session.session import Spark
from runnel.connectors.spark.stream import SparkStreamTable
from runnel.connectors.spark.table import SparkTable
from runnel.relation.nodes import Relation, Scan, transform

_PATTERN = frozenset("*?[]{}\\:")
"""What Spark would take for part of a pattern in a path."""


class FilesOrigin(Origin):
    """The files that a File mapping names when the DataFrame is made."""

    def __init__(self, table: FileTable) -> None:
        self._table = table

    def frame(self, spark: Spark) -> Any:
        paths = [file.path for file in self._table.path.files()]
        with spark_errors():
            frame = spark.own.read.parquet(*paths)
            there = {name.lower() for name in frame.columns}
            if all(_name(column).lower() in there for column in self._table.columns):
                return frame
            # Spark goes by one of the files, unless told to look into all of them.
            return spark.own.read.option("mergeSchema", "true").parquet(*paths)


def can_read(table: Table) -> bool:
    """Whether Spark may read the table's files in our place."""
    if type(table) not in (
        FileTable,
        FollowTable,
    ):  # one with folders named key=value is another class
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
    # Spark follows a folder and all below it.
    return (
        path.is_folder()
        and "/" not in (path.glob or "")
        and not any(name[0] not in "._" for name in file_system.subfolders(path.text))
    )


def taken_over(relation: Relation, owner: SessionOwner) -> Relation:
    """The relation with tables of Spark's in the place of File mappings that it can read; small
    ones travel to it."""

    def change(node: Relation) -> Relation:
        if (
            not isinstance(node, Scan)
            or node.divert is not None
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
