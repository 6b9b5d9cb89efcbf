"""A cursor's rows as a reader of batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from runnel.deadline import WaitLimit
from runnel.errors import FetchTimeoutError, fail
from runnel.results.rows import Result, in_use_error


class RecordBatches:
    """The batches of a cursor's result, for a reader. A generator would end with its first error;
    this can be read again after the timeout of a batch."""

    def __init__(self, cursor: Any, result: Result, seconds: float | None) -> None:
        self.schema = result.schema
        self._cursor = cursor
        self._result = result
        self._sql = cursor.query
        self._seconds = seconds

    def __iter__(self) -> RecordBatches:
        return self

    def __next__(self) -> pa.RecordBatch:
        cursor = self._cursor
        if cursor._is_used:
            raise in_use_error()
        cursor._is_used = True
        try:
            limit = None if self._seconds is None else WaitLimit(self._seconds)
            batch = self._result.next_batch(self.schema, limit)
        except FetchTimeoutError as error:
            fail(error, self._sql)
        except Exception as error:
            self._result.cancel()  # not the cursor's result: it may run another query by now
            fail(error, self._sql)
        finally:
            cursor._is_used = False
        if batch is None:
            raise StopIteration
        return batch
