"""The rows of a query as a Parquet file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from runnel import Cursor, DataError, InterfaceError, NotSupportedError, OperationalError
from runnel.shell.atomic_file import replaced_file


def write_parquet(cursor: Cursor, path: str, *, is_first: bool = True) -> int:
    """Writes the remaining rows and returns their number. The file appears when it is complete.

    is_first: no other query of the script was written to the file.
    """
    if not is_first:
        raise InterfaceError(
            f'the Parquet file "{path}" has the rows of an earlier query',
            hint="write the rows of one query; another query needs .export or COPY",
        )
    if cursor.is_unbounded:
        raise NotSupportedError(
            "a Parquet file cannot be written from a query that never ends",
            hint="add a LIMIT, or CREATE JOB … AS INSERT INTO a File mapping",
        )
    # Loaded on first use: most sessions write no Parquet file.
    from pyarrow.parquet import ParquetWriter

    count = 0
    try:
        with replaced_file(Path(path)) as temporary:
            reader = cursor.fetch_record_batch()
            with ParquetWriter(temporary, reader.schema) as writer:
                for batch in reader:
                    writer.write_batch(batch)
                    count += batch.num_rows
    except OSError as error:
        raise OperationalError(
            f'the file "{path}" cannot be written', detail=error.strerror or str(error)
        ) from error
    except pa.ArrowException as error:
        raise DataError(
            f'the rows cannot be stored in the Parquet file "{path}"',
            detail=str(error),
            hint="cast the column to a type that Parquet has, such as VARCHAR",
        ) from error
    return count
