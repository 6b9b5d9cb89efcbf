"""The interactive session with prompt_toolkit: multi-line editing, history, completion, colours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.patch_stdout import patch_stdout
from prompt_toolkit.shortcuts import CompleteStyle
from pygments.lexers.sql import SqlLexer

from runnel.base.passwords import without_password
from runnel.shell.editor.completion import SqlCompleter
from runnel.shell.plain_prompt import CONTINUED, PROMPT
from runnel.shell.script import ScriptItem, is_complete, items_of
from runnel.shell.shell import Shell


class EditorPrompt:
    """Reads inputs of one or more lines. Enter runs an input that is complete, otherwise it begins
    a line; Tab completes."""

    def __init__(self, shell: Shell, history: Path) -> None:
        depth = None if shell.out.has_colour else ColorDepth.DEPTH_1_BIT
        self._session: PromptSession[str] = PromptSession(
            PROMPT,
            multiline=True,
            prompt_continuation=CONTINUED,
            history=_history(history),
            auto_suggest=AutoSuggestFromHistory(),
            lexer=PygmentsLexer(SqlLexer),
            completer=SqlCompleter(shell),
            complete_while_typing=False,
            complete_in_thread=True,
            complete_style=CompleteStyle.READLINE_LIKE,
            key_bindings=_keys(),
            color_depth=depth,
            enable_open_in_editor=True,
            include_default_pygments_style=True,
        )

    def read(self) -> Iterator[list[ScriptItem]]:
        """The items of each input; ends at Ctrl-D. Ctrl-C discards an input."""
        while True:
            try:
                # Log lines of jobs are printed above the prompt.
                with patch_stdout(raw=True):
                    text = self._session.prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            items = [*items_of(text.splitlines(keepends=True))]
            if items:
                yield items

    def close(self) -> None:
        """Does nothing: each input is stored when it is typed."""


_SECRET = re.compile(r"(password|passwd|secret|token|credential)\w*['\"]?\s*[=:]", re.IGNORECASE)


class _PrivateHistory(FileHistory):
    """Stores no input with a secret, and none that begins with a space."""

    def store_string(self, string: str) -> None:
        if not string.startswith(" ") and not has_secret(string):
            super().store_string(string)


def has_secret(text: str) -> bool:
    """Whether a text contains a password of a URL, or an option for a secret."""
    return without_password(text) != text or _SECRET.search(text) is not None


def _history(path: Path) -> FileHistory:
    return _PrivateHistory(str(path))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @Condition
    def runs() -> bool:
        return is_complete(get_app().current_buffer.document.text)

    @keys.add("enter", filter=runs)
    def run(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys
