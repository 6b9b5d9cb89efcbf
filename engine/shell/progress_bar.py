"""The progress of a long statement, as a bar in the last line of the terminal."""

from __future__ import annotations

from importlib.util import find_spec
from threading import Event, Thread
from typing import TextIO

from runnel import Cursor, Error
from runnel.results.progress import QueryProgress

BEGIN_AFTER = 1.0
"""Seconds after which a statement gets a bar."""
INTERVAL = 0.2
"""Seconds between two updates."""


class ProgressBar:
    """A bar that appears if the statement of the cursor runs for more than BEGIN_AFTER seconds.
    rich draws it; without rich there is none."""

    def __init__(self, cursor: Cursor, stream: TextIO) -> None:
        self._cursor = cursor
        self._stream = stream
        self._stopped = Event()
        self._thread: Thread | None = None
        if find_spec("rich") is not None:
            self._thread = Thread(target=self._run, name="runnel-progress", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Removes the bar."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self) -> None:
        if self._stopped.wait(BEGIN_AFTER):
            return
        # Loaded on first use: most statements are short.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        one_line = Column(no_wrap=True, overflow="ellipsis")
        bar = Progress(
            TimeElapsedColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.description}", markup=False, table_column=one_line),
            console=Console(file=self._stream, highlight=False),
            transient=True,
            auto_refresh=False,
        )
        with bar:
            task = bar.add_task("", total=None)
            while True:
                progress = self._progress()
                if progress is not None:
                    share = progress.share
                    bar.update(
                        task,
                        description=step_text(progress),
                        total=None if share is None else 1.0,
                        completed=share or 0.0,
                    )
                bar.refresh()
                if self._stopped.wait(INTERVAL):
                    return

    def _progress(self) -> QueryProgress | None:
        try:
            return self._cursor.progress()
        except Error:
            return None


def step_text(progress: QueryProgress) -> str:
    """The first steps that are at work: those that emitted rows."""
    steps = [step for step in progress.steps if step.rows_out or step.tasks or step.bytes]
    return " → ".join(map(str, steps[-3:])) or "running"
