"""The progress of long statements in a notebook, as a bar below the cell that runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import copy_context
from html import escape
from threading import Event, Thread
from typing import Any
from weakref import WeakSet

from runnel.results.progress import QueryProgress, progress_of
from runnel.runtime.light_job import Job, Jobs

BEGIN_AFTER = 1.0
"""Seconds after which a running statement gets a bar."""
INTERVAL = 0.25
"""Seconds between two updates of a bar."""


class CellProgress:
    """Shows the progress of the statements of each cell. A thread looks at the running jobs while a
    cell runs, so that the execution of a statement costs nothing for it.

    display: shows, or updates, the bar: HTML, plain text, and whether the bar exists already.
    """

    def __init__(self, display: Callable[[str, str, bool], object]) -> None:
        self._display = display
        self._connections: WeakSet[Jobs] = WeakSet()
        self._end: Event | None = None
        self._thread: Thread | None = None

    def watch(self, jobs: Jobs) -> None:
        """Includes the statements of a connection."""
        self._connections.add(jobs)

    def begin(self, *info: Any) -> None:
        """Called when a cell begins."""
        self.end()
        self._end = end = Event()
        context = copy_context()  # by it the output belongs to the cell
        self._thread = Thread(
            target=context.run, args=(self._show, end), name="runnel-progress", daemon=True
        )
        self._thread.start()

    def end(self, *info: Any) -> None:
        """Called when a cell has ended."""
        if self._end is not None and self._thread is not None:
            self._end.set()
            self._thread.join()
        self._end = self._thread = None

    def step(self, is_shown: bool) -> bool:
        """Shows the statements that have run for a while; returns whether there is a bar."""
        found = [
            progress_of(job)
            for jobs in list(self._connections)
            for job in jobs.running()
            if isinstance(job, Job) and job.kind != "job" and not job.is_done
        ]
        found = [item for item in found if item.seconds >= BEGIN_AFTER]
        if found:
            html = "".join(map(bar_html, found))
            self._display(html, "\n".join(map(bar_text, found)), is_shown)
        elif is_shown:
            self._display("", "", True)
        return bool(found) or is_shown

    def _show(self, end: Event) -> None:
        is_shown = False
        wait = BEGIN_AFTER
        while not end.wait(wait):
            is_shown = self.step(is_shown)
            wait = INTERVAL
        if is_shown:
            self._display("", "", True)


def bar_text(progress: QueryProgress) -> str:
    """One line: time, share if it is known, rows."""
    share = "" if progress.share is None else f", {progress.share:.0%}"
    return f"running for {progress.seconds:.0f} s{share}, {_rows(progress)}"


def bar_html(progress: QueryProgress) -> str:
    """A bar, which moves without a share if none is known, and the line of `bar_text`."""
    value = "" if progress.share is None else f' value="{progress.share:.3f}"'
    steps = escape(str(progress), quote=True)
    text = escape(bar_text(progress))
    return f'<div title="{steps}"><progress max="1"{value}></progress> {text}</div>'


def _rows(progress: QueryProgress) -> str:
    read = max((step.rows_out for step in progress.steps), default=0)
    return f"{read:,} rows read"


_watchers: dict[int, CellProgress] = {}
"""The watcher of each notebook of the process, by the identity of its shell."""


def watch_notebook(jobs: Jobs) -> None:
    """Shows the progress of a connection's statements if this process runs a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if shell is None or not hasattr(shell, "kernel"):
        return
    watcher = _watchers.get(id(shell))
    if watcher is None:
        watcher = _watchers[id(shell)] = CellProgress(_in_notebook())
        shell.events.register("pre_run_cell", watcher.begin)
        shell.events.register("post_run_cell", watcher.end)
        watcher.begin()  # the cell that opens the connection runs already
    watcher.watch(jobs)


def _in_notebook() -> Callable[[str, str, bool], object]:
    from itertools import count

    import IPython.display

    display: Any = IPython.display.display
    numbers = count(1)
    shown = ""

    def show(html: str, text: str, is_shown: bool) -> None:
        nonlocal shown
        if not is_shown:
            shown = f"runnel-{next(numbers)}"
        data = {"text/html": html, "text/plain": text}
        display(data, raw=True, display_id=shown, update=is_shown)

    return show
