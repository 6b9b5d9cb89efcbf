"""The call of a command of the shell: its name and its arguments."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from runnel import InterfaceError
from runnel.base.frozen import frozen

_WORD = re.compile(r"""'((?:[^']|'')*)'|"((?:[^"]|"")*)"|([^\s'"]\S*)""")


class LeaveShell(Exception):
    """The user ended the session."""


class ScriptFailed(Exception):
    """A statement failed; its error was printed, and the rest of the script does not run."""


@frozen
class CommandCall:
    """A call.

    name: name of the command, with its first character.
    rest: the arguments as they were written.
    """

    name: str
    rest: str

    def words(self) -> list[str]:
        """The arguments, without quotes."""
        return [word for word, _ in self.spans()]

    def spans(self) -> list[tuple[str, int]]:
        """The arguments without quotes, each with the offset of its end in `rest`."""
        found, position = [], 0
        while position < len(self.rest):
            if self.rest[position].isspace():
                position += 1
                continue
            match = _WORD.match(self.rest, position)
            if match is None:
                raise self.wrong("arguments whose quotes are closed")
            single, double, plain = match.groups()
            text = (
                single.replace("''", "'")
                if single is not None
                else double.replace('""', '"')
                if double is not None
                else plain
            )
            position = match.end()
            found.append((text, position))
        return found

    def wrong(self, expected: str) -> InterfaceError:
        """The error for arguments that the command does not accept."""
        given = f", not {self.rest}" if self.rest else ""
        return InterfaceError(f"{self.name} needs {expected}{given}", hint="\\? lists the commands")


def matches(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern with `*`, `%` and `?`; without one of these: whether it
    contains the pattern. An empty pattern matches all names. Case and the schema are
    ignored."""
    name, pattern = name.lower(), pattern.lower().replace("%", "*").strip("'\"")
    pattern = pattern.removeprefix("public.").removeprefix("*.")
    if not any(mark in pattern for mark in "*?"):
        return pattern in name
    return fnmatchcase(name, pattern.replace("[", "[[]"))
