"""`\\if`, `\\elif`, `\\else` and `\\endif`: statements and commands that run or are skipped."""

from __future__ import annotations

from dataclasses import dataclass

from runnel import InterfaceError

CONDITIONALS = ("\\if", "\\elif", "\\else", "\\endif")
_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass
class _Block:
    """An open `\\if`.

    is_active: the statements of the current branch run.
    is_decided: a branch ran, or the block is in a branch that is skipped.
    has_else: `\\else` was read.
    """

    is_active: bool
    is_decided: bool
    has_else: bool = False


class ConditionalBlocks:
    """The open `\\if` blocks of a script."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []

    @property
    def is_skipping(self) -> bool:
        """Whether statements and commands do not run."""
        return bool(self._blocks) and not self._blocks[-1].is_active

    @property
    def is_open(self) -> bool:
        """Whether `\\endif` is missing."""
        return bool(self._blocks)

    def needs_value(self, command: str) -> bool:
        """Whether the value of `\\if` or `\\elif` decides."""
        if command == "\\if":
            return not self.is_skipping
        return command == "\\elif" and bool(self._blocks) and not self._blocks[-1].is_decided

    def run(self, command: str, value: bool) -> None:
        """Enters, changes or leaves a block. InterfaceError if there is none."""
        if command == "\\if":
            skipped = self.is_skipping
            self._blocks.append(_Block(value and not skipped, value or skipped))
            return
        if not self._blocks:
            raise InterfaceError(f"{command} without \\if", hint="write \\if before it")
        block = self._blocks[-1]
        if command == "\\endif":
            self._blocks.pop()
            return
        if block.has_else:
            raise InterfaceError(f"{command} after \\else", hint="write \\endif first")
        block.has_else = command == "\\else"
        block.is_active = not block.is_decided and (value or block.has_else)
        block.is_decided = block.is_decided or block.is_active


def truth(text: str) -> bool:
    """A value as psql reads it: true, false, on, off, yes, no, 1, 0, or the begin of a word."""
    written = text.strip().lower()
    if written not in ("", "o"):  # "o" begins both on and off
        if any(word.startswith(written) for word in _TRUE):
            return True
        if any(word.startswith(written) for word in _FALSE):
            return False
    raise InterfaceError(
        f'"{text.strip()}" is no condition', hint="write true, false, on, off, 1 or 0"
    )
