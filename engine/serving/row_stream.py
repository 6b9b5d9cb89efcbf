"""The rows of a statement on their way to a client. Flight pulls them, and waits in a write while
the client reads none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from threading import Lock
from typing import TYPE_CHECKING

import pyarrow as pa

from runnel.errors import ErrorCode, OperationalError
from runnel.results.rows import Result
from runnel.serving.open_calls import Context, OpenCall

if TYPE_CHECKING:
    from runnel.serving.open_calls import OpenCalls

logger = logging.getLogger("runnel.serving")


class RowStream(OpenCall):
    """An iterator over the batches of a result. `end` removes the statement and frees its
    resources. If the client reads no batch for `timeout` seconds, the statement is ended; after
    the same time again the connection is cut, if the operating system can do that, so that Flight's
    thread is freed."""

    def __init__(
        self,
        result: Result,
        context: Context,
        calls: OpenCalls,
        *,
        end: Callable[[], object],
        timeout: float,
    ) -> None:
        super().__init__(context, result.cancel)
        self._batches = result.batches()
        self._calls = calls
        self._end = end
        self._timeout = timeout
        self._lock = Lock()
        self._is_reading = False
        self._is_over = False
        self._waits_since = calls.clock()
        calls.add(self)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._lock:
            if self.is_given_up:
                raise OperationalError(
                    f"the rows were not read for {self._timeout:g} s",
                    code=ErrorCode.TIMEOUT,
                    detail="the server has ended the statement",
                    hint=(
                        "read them sooner, close the cursor, or raise the server's --client-timeout"
                    ),
                )
            self._is_reading = True
        try:
            return next(self._batches)
        except BaseException:
            self.close()
            raise
        finally:
            with self._lock:
                self._is_reading = False
                self._waits_since = self._calls.clock()

    def is_stalled(self, now: float) -> bool:
        return not self._is_reading and now - self._waits_since > self._timeout

    def on_stalled(self) -> None:
        with self._lock:
            if self._is_reading or self._is_over:
                return
            is_first, self.is_given_up = not self.is_given_up, True
            self._waits_since = self._calls.clock()
        if is_first:
            logger.warning(
                "a client has not read its rows for %g s: its statement is ended", self._timeout
            )
            self._end()
        else:
            self._calls.cut(self)

    def close(self) -> None:
        """The call has ended, for any reason."""
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
        self._calls.remove(self)
        self._end()
