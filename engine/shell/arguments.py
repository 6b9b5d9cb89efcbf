"""Reads the arguments of `runnel`.

DuckDB's command line writes long options with one dash (`-csv`), and psql joins short ones and
their arguments (`-AtF,`). A word with one dash is a long option if there is one of this name, and
otherwise short ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from runnel import InterfaceError
from runnel.errors import suggest
from runnel.shell.options import OPTIONS, REFUSED, ShellOption

_BY_NAME = {name: option for option in OPTIONS for name in option.names}
_LISTS = ("scripts", "before", "settings", "print_options", "variables")
_PAIRS = ("settings", "print_options", "variables")
_SQL = re.compile(r"\s|[.\\]")
"""Distinguishes SQL and commands after the directory from a second directory."""

USAGE = """\
usage: runnel [DIR | file.duckdb | runnel://host:port] [-c SQL]… [-f FILE]… [OPTIONS]
       runnel serve DIR …      keep a directory's jobs running, and serve it to other processes
       runnel backup DIR TARGET

Runs SQL: from -c and -f, from a pipe, or typed at a prompt. Without a first argument the session
is in memory. Long options may be written with one dash: -csv.

"""


@dataclass
class Arguments:
    """The options and the directory that the arguments name.

    directory: directory, file or address to open; None: memory.
    scripts: statements and files to run: their kind, "sql" or "file", and text or path, in order.
    before: the ones that run before these, before the standard input or the prompt.
    settings: names and values of settings of the connection.
    print_options: names and values for `\\pset`.
    variables: names and values of variables.
    mode: the mode of printing; None: tables.
    parquet: path of a Parquet file for the rows of the one query.
    output: path of a file for the results.
    tuples_only: rows are printed alone.
    header: names of columns are printed.
    separator: text between two values, as it was typed; "": the mode's own.
    null: the text of NULL; None: the mode's own.
    is_quiet: outcomes are not printed.
    echoes: each statement is printed before it runs.
    stops_at_error: the first error ends a script.
    is_batch: there is no prompt.
    is_input_read: the standard input is read if there are no scripts.
    is_transaction: the scripts run in one transaction.
    lists_databases: the databases are listed, instead of all else.
    ignored: an option without effect was named.
    shows_version: the version is printed, instead of all else.
    shows_help: the options are printed, instead of all else.
    """

    directory: str | None = None
    scripts: list[tuple[str, str]] = field(default_factory=list)
    before: list[tuple[str, str]] = field(default_factory=list)
    settings: list[tuple[str, str]] = field(default_factory=list)
    print_options: list[tuple[str, str]] = field(default_factory=list)
    variables: list[tuple[str, str]] = field(default_factory=list)
    mode: str | None = None
    parquet: str | None = None
    output: str | None = None
    tuples_only: bool = False
    header: bool = True
    separator: str = ""
    null: str | None = None
    is_quiet: bool = False
    echoes: bool = False
    stops_at_error: bool = True
    is_batch: bool = False
    is_input_read: bool = True
    is_transaction: bool = False
    lists_databases: bool = False
    ignored: bool = False
    shows_version: bool = False
    shows_help: bool = False


def arguments_of(words: Sequence[str]) -> Arguments:
    """The options and the directory. InterfaceError if they are wrong."""
    found, left, others = Arguments(), list(words), []
    while left:
        word = left.pop(0)
        if word == "--":
            others += left
            break
        if word == "-" or not word.startswith("-"):
            others.append(word)
            continue
        for option, name, value in _options(word, left):
            _apply(found, option, name, value)
    _add_directory(found, others)
    return found


def help_text() -> str:
    """The usage and the options."""
    heads = [
        ", ".join(option.names) + (f" {option.argument}" if option.argument else "")
        for option in OPTIONS
    ]
    width = 26
    lines = [
        f"  {head:{width}} {option.summary}"
        if len(head) <= width
        else f"  {head}\n  {'':{width}} {option.summary}"
        for head, option in zip(heads, OPTIONS, strict=True)
    ]
    return USAGE + "\n".join(lines)


def _options(word: str, left: list[str]) -> list[tuple[ShellOption, str, str | None]]:
    """The options of a word, each with its name and argument, which may be the next word of
    `left`, and is removed from there then."""
    name, equals, value = word.partition("=")
    long = name if name.startswith("--") else f"-{name}"
    if long in REFUSED or name in REFUSED:
        raise _refused(name, REFUSED.get(long) or REFUSED[name])
    if long in _BY_NAME or len(name) == 2:
        option = _BY_NAME.get(long) or _BY_NAME.get(name)
        if option is None:
            raise _unknown(name)
        if option.argument is None and equals:
            raise InterfaceError(f"{name} has no argument", hint=f"leave out ={value}")
        if name == "-h" and left and not left[0].startswith("-"):
            raise _refused(name, REFUSED["--host"])
        return [(option, name, _argument(option, name, value if equals else None, left))]
    if name.startswith("--"):
        raise _unknown(name)
    return _short(word, left)


def _short(word: str, left: list[str]) -> list[tuple[ShellOption, str, str | None]]:
    """Short options in one word: -qAt, -F, and -AtF,"""
    found: list[tuple[ShellOption, str, str | None]] = []
    for position, letter in enumerate(word[1:], 2):
        name, rest = f"-{letter}", word[position:]
        if name in REFUSED:
            raise _refused(name, REFUSED[name])
        option = _BY_NAME.get(name)
        # SQL that is a single word is a misspelt option rather: -cvs.
        if option is None or (letter in "cs" and rest.isalpha()):
            raise _unknown(word)
        if option.argument is not None:
            found.append((option, name, _argument(option, name, rest or None, left)))
            break
        found.append((option, name, None))
    return found


def _argument(option: ShellOption, name: str, value: str | None, left: list[str]) -> str | None:
    if option.argument is None or value is not None:
        return value
    if not left:
        raise InterfaceError(f"{name} needs an argument", hint=f"write {name} {option.argument}")
    return left.pop(0)


def _apply(found: Arguments, option: ShellOption, name: str, argument: str | None) -> None:
    value: Any = option.value if option.argument is None else argument
    if option.field == "mode" and found.mode not in (None, value):
        raise InterfaceError(
            f"{name} and --{found.mode} exclude each other", hint="rows are printed in one mode"
        )
    if option.field in _PAIRS:
        left, equals, right = str(value).partition("=")
        if not equals or not left.isidentifier():
            raise InterfaceError(f"{name} needs NAME=VALUE, not {value}")
        value = (left, right)
    elif option.field in _LISTS:
        value = (option.value, value)
    if option.field in _LISTS:
        getattr(found, option.field).append(value)
    elif option.field == "directory":
        _add_directory(found, [str(value)])
    else:
        setattr(found, option.field, value)


def _add_directory(found: Arguments, others: Sequence[str]) -> None:
    """The words that are no options: a directory, and SQL as after the file of DuckDB."""
    for word in others:
        if found.directory is None:
            if re.match(r"\w+=", word):
                raise _refused(f"-d {word}", REFUSED["--host"])
            found.directory = word
        elif _SQL.search(word):
            found.scripts.append(("sql", word))
        else:
            raise InterfaceError(
                f"one directory is opened, not {found.directory} and {word}",
                hint="write SQL after -c",
            )


def _refused(name: str, remedy: str) -> InterfaceError:
    return InterfaceError(f"the option {name} is not supported", hint=remedy)


def _unknown(name: str) -> InterfaceError:
    shown = [*_BY_NAME, *(known[1:] for known in _BY_NAME if known.startswith("--"))]
    return InterfaceError(
        f"there is no option {name}", hint=suggest(name, shown, "runnel --help lists the options")
    )


assert {option.field for option in OPTIONS} <= {item.name for item in fields(Arguments)}
