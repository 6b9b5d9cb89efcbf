"""Where the shell writes: terminals and pipes, with colour, pager and encoding."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from threading import current_thread, main_thread
from typing import TextIO

RED, BOLD, PLAIN = "\x1b[31m", "\x1b[1m", "\x1b[0m"


class Output:
    """A text stream to which the shell writes.

    stream: the stream.
    before: called before each write; it removes a progress bar.
    """

    def __init__(self, stream: TextIO, before: Callable[[], None] | None = None) -> None:
        self.stream = stream
        self.before = before

    @property
    def is_terminal(self) -> bool:
        return self.stream.isatty()

    @property
    def has_colour(self) -> bool:
        """Whether colours are shown: on a terminal, unless NO_COLOR is set."""
        is_dumb = os.environ.get("TERM") == "dumb"
        return self.is_terminal and not is_dumb and not os.environ.get("NO_COLOR")

    @property
    def width(self) -> int:
        """Number of characters of a line; 0: no maximum, because it is no terminal."""
        return shutil.get_terminal_size((100, 24)).columns if self.is_terminal else 0

    @property
    def height(self) -> int:
        return shutil.get_terminal_size((100, 24)).lines

    def can_print(self, text: str) -> bool:
        """Whether the stream can encode a text."""
        try:
            text.encode(self.stream.encoding or "utf-8")
        except (UnicodeEncodeError, LookupError):
            return False
        return True

    def line(self, text: str) -> None:
        """Writes a line."""
        self.write(f"{text}\n")

    def write(self, text: str) -> None:
        """Writes a text at once. Characters that the stream cannot encode become question marks."""
        if self.before is not None:
            self.before()
        encoding = self.stream.encoding or "utf-8"
        self.stream.write(text.encode(encoding, "replace").decode(encoding))
        self.stream.flush()

    def page(self, text: str) -> None:
        """Shows lines in the pager if they do not fit the screen."""
        if text.count("\n") + 2 <= self.height or not _paged(text, self.before):
            self.line(text)


def _paged(text: str, before: Callable[[], None] | None) -> bool:
    """Runs the pager of $PAGER, or less; returns whether there is one."""
    if before is not None:
        before()
    environment = {"LESS": "-SRFX", **os.environ}
    command = shlex.split(os.environ.get("PAGER", "")) or ["less"]
    if shutil.which(command[0]) is None:
        return False
    # Ctrl-C belongs to the pager while it runs.
    is_main = current_thread() is main_thread()
    earlier = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        subprocess.run(
            command,
            input=f"{text}\n".encode("utf-8", "replace"),
            env=environment,
            check=False,
        )
    except BrokenPipeError:
        pass
    except OSError:
        return False
    finally:
        if is_main:
            signal.signal(signal.SIGINT, earlier)
    return True


def discard_output() -> None:
    """Sends what is still to be written to nowhere, after the reader of a pipe has ended."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
