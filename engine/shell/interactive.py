"""The interactive session: a loop over what a person types."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import runnel
from runnel import Error
from runnel.errors import presentable
from runnel.shell.commands.call import LeaveShell, ScriptFailed
from runnel.shell.plain_prompt import PlainPrompt
from runnel.shell.script import ScriptItem
from runnel.shell.shell import Shell

ALSO_NEEDED = ("prompt_toolkit", "pygments")


class Prompt(Protocol):
    """The source of statements: a line editor."""

    def read(self) -> Iterator[list[ScriptItem]]:
        """The items of each input that is complete; ends at the end of the input."""

    def close(self) -> None:
        """Stores the history."""


def interact(shell: Shell, directory: str | None) -> int:
    """Runs statements until the user leaves; returns the exit status, 0."""
    where = "in memory" if directory is None else directory
    shell.out.line(f'Runnel {runnel.__version__}, {where}; ".help" lists commands, Ctrl-D ends')
    prompt = _prompt(shell)
    try:
        while not _is_over(shell, prompt):
            pass
    except LeaveShell:
        pass
    finally:
        prompt.close()
    return 0


def _is_over(shell: Shell, prompt: Prompt) -> bool:
    """Runs inputs; returns whether the input has ended. Ctrl-C between two inputs ends nothing."""
    try:
        for items in prompt.read():
            _run(shell, items)
    except KeyboardInterrupt:
        return False
    return True


def _run(shell: Shell, items: list[ScriptItem]) -> None:
    """Runs one input. An error, or Ctrl-C, ends it; the session continues."""
    try:
        shell.run_all(items)
    except ScriptFailed:
        pass
    except KeyboardInterrupt:
        shell.err.line("\nended by Ctrl-C")
    except (BrokenPipeError, LeaveShell):
        raise
    except Exception as error:
        shown = presentable(error, shell.last_sql)
        assert isinstance(shown, Error)
        shell.report(shown)


def _prompt(shell: Shell) -> Prompt:
    history = _history_file()
    if all(find_spec(name) is not None for name in ALSO_NEEDED):
        # Loaded on first use: the packages need not be installed.
        from runnel.shell.editor.prompt import EditorPrompt

        return EditorPrompt(shell, history)
    shell.err.line("for completion, colours and multi-line editing: pip install 'runnel[shell]'")
    return PlainPrompt(history)


def _history_file() -> Path:
    """The file of the history, which only its owner can read: statements may have secrets."""
    base = os.environ.get("XDG_STATE_HOME") or ""
    folder = Path(base) if base.startswith("/") else Path.home() / ".local" / "state"
    path = folder / "runnel" / "history"
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
    return path
