"""Hive partitions: files in folders named `key=value`, which add columns.

The folders are below the path, and all files have the same keys in the same order. Values are
percent-decoded; `__HIVE_DEFAULT_PARTITION__` stands for NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from urllib.parse import quote, unquote

import pyarrow as pa

from runnel.catalog import TableColumn
from runnel.connectors.files.conversion import convert_or_fail, converter
from runnel.connectors.files.inference import type_of_text
from runnel.connectors.files.paths import FilePath
from runnel.connectors.files.storage import DataFile
from runnel.errors import DataError, ProgrammingError
from runnel.expressions.context import EvaluationContext, EvaluationInput
from runnel.expressions.evaluate import compile_expression, evaluate
from runnel.expressions.kernels.values import array_of
from runnel.expressions.nodes import Column, Expression, columns_of, conjuncts, transform
from runnel.sqltypes import VARCHAR, SqlType, to_arrow

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"

_SAFE = "-_.~ ():,@+"
"""The characters, in addition to letters and digits, that a folder name has unquoted."""


def keys_of(path: FilePath, file: DataFile) -> list[tuple[str, str]]:
    """The keys and values in the names of the folders between the path and a file."""
    base = path.base()
    inner = file.path[len(base) :] if file.path.startswith(base) else file.path
    return [
        (unquote(key), unquote(value))
        for part in PurePosixPath(inner).parts[:-1]
        for key, equals, value in [part.partition("=")]
        if key and equals
    ]


def partition_keys(path: FilePath, files: Sequence[DataFile]) -> list[str]:
    """The common keys of all files, in order; [] if some files have none.

    ProgrammingError if the keys differ.
    """
    if not files:
        return []
    first = [key for key, _ in keys_of(path, files[0])]
    for file in files[1:]:
        keys = [key for key, _ in keys_of(path, file)]
        if keys != first:
            if not keys or not first:
                return []
            raise ProgrammingError(
                f'the folders of "{path.text}" have different partition keys: {", ".join(first)}, '
                f"but {', '.join(keys)}",
                detail=f'file "{file.path}"',
                hint=(
                    "read them as several mappings, or without "
                    "OPTIONS ('hivePartitioning' = 'true')"
                ),
            )
    return first


def partition_types(
    path: FilePath, files: Sequence[DataFile], keys: Sequence[str]
) -> list[SqlType]:
    """The types of the keys, inferred from their values: whole numbers, dates, else text."""
    found = []
    for i in range(len(keys)):
        values = {keys_of(path, file)[i][1] for file in files} - {DEFAULT_PARTITION}
        texts = array_of(sorted(values), VARCHAR)
        natural = type_of_text(texts) if values else VARCHAR
        found.append(natural if natural.is_integer or natural.is_temporal else VARCHAR)
    return found


def partition_values(
    path: FilePath,
    files: Sequence[DataFile],
    columns: Sequence[TableColumn],
    numbers: Sequence[int],
) -> list[pa.Array]:
    """For each partition column, its value for each file, in the column's type.

    `numbers` has the index of the key of each column.
    """
    arrays = []
    for column, number in zip(columns, numbers, strict=True):
        values = [keys_of(path, file)[number][1] for file in files]
        texts = array_of(
            [None if value == DEFAULT_PARTITION else value for value in values], VARCHAR
        )
        convert = converter(VARCHAR, column.type)

        def fault(
            index: int, column: TableColumn = column, values: list[str] = values
        ) -> DataError:
            return DataError(
                f"value '{values[index]}' of partition column \"{column.name}\" doesn't fit "
                f"{column.type}",
                detail=f'file "{files[index].path}"',
                hint=f'rename the folder, or declare "{column.name}" as VARCHAR',
            )

        arrays.append(texts if convert is None else convert_or_fail(texts, convert, fault))
    return arrays


def selects_files(conjunct: Expression, positions: Mapping[int, int]) -> bool:
    """Whether a conjunct uses only columns that have one value for each file, the keys of
    `positions`."""
    used = columns_of(conjunct)
    return bool(used) and used <= positions.keys()


def matching_files(
    predicate: Expression | None,
    positions: dict[int, int],
    values: list[pa.Array],
    count: int,
    context: EvaluationContext,
) -> list[int]:
    """The indexes of the files that may have rows for a predicate over the table's columns.

    `positions` maps the index of a column in the table to its index in `values`; `count` is the
    number of files. Conjuncts that use other columns are ignored.
    """
    selected = list(range(count))
    for conjunct in conjuncts(predicate):
        if not selects_files(conjunct, positions):
            continue

        def renumbered(node: Expression) -> Expression:
            if isinstance(node, Column):
                return Column(
                    index=positions[node.index],
                    name=node.name,
                    type=node.type,
                    position=node.position,
                )
            return node

        frame = EvaluationInput(list(values), count, context)
        answer = evaluate(compile_expression(transform(conjunct, renumbered)), frame).to_pylist()
        selected = [i for i in selected if answer[i]]
    return selected


def constant_column(values: pa.Array, index: int, column: TableColumn, rows: int) -> pa.Array:
    """The value of one file, repeated for `rows` rows."""
    if not values[index].is_valid:
        return pa.nulls(rows, to_arrow(column.type))
    return pa.repeat(values[index], rows)


def folder_name(keys: Sequence[str], texts: Sequence[str | None]) -> str:
    """The folder path for a combination of values."""
    parts = [
        f"{quote(key, safe=_SAFE)}={DEFAULT_PARTITION if text is None else quote(text, safe=_SAFE)}"
        for key, text in zip(keys, texts, strict=True)
    ]
    return "/".join(parts)
