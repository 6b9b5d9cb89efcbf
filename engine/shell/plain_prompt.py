"""The interactive session without prompt_toolkit: lines by `input` and readline."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from runnel.shell.script import ScriptItem, ScriptReader

PROMPT, CONTINUED = "runnel> ", "   ...> "
LONGEST_HISTORY = 10_000


class PlainPrompt:
    """Reads statements line by line.

    history: file of the lines that were typed.
    """

    def __init__(self, history: Path) -> None:
        self._history = history
        self._readline = None
        with suppress(ImportError):  # Windows has none
            import readline

            self._readline = readline
            with suppress(OSError):
                readline.read_history_file(history)
            readline.set_history_length(LONGEST_HISTORY)

    def read(self) -> Iterator[list[ScriptItem]]:
        """The items of each input that is complete; ends at the end of the input. Ctrl-C discards
        the statement that has begun."""
        reader = ScriptReader()
        while True:
            try:
                line = input(PROMPT if reader.is_empty else CONTINUED)
            except KeyboardInterrupt:
                print()
                reader = ScriptReader()
                continue
            except EOFError:
                print()
                return
            items = reader.feed(f"{line}\n")
            if items:
                yield items

    def close(self) -> None:
        """Stores the history."""
        if self._readline is not None:
            with suppress(OSError):
                self._readline.write_history_file(self._history)
