"""The variables of a session, as in psql: `\\set name value`, and `:name`, `:'name'` and `:"name"`
in statements and commands.

Names within quotes, comments and `::` are text. A name without a variable stays as it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_TOKEN = re.compile(
    r"""
      [eE]'(?:[^'\\]|\\.|'')*'            # texts with escapes
    | '(?:[^']|'')*' | "(?:[^"]|"")*"     # texts and names in quotes
    | --[^\n]* | /\*.*?\*/                # comments
    | (?P<tag>\$\w*\$).*?(?P=tag)         # texts between dollars
    | ::|:=                               # casts and named arguments
    | :\{\?(?P<asked>\w+)\}
    | :'(?P<text>\w+)' | :"(?P<name>\w+)" | :(?P<plain>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
_WORD = re.compile(r"[^\s'\"]+")
"""A value that a command accepts without quotes."""


def interpolated(text: str, variables: Mapping[str, str], *, are_words: bool = False) -> str:
    """The text with the values of variables. `:'name'` is quoted as a text, `:"name"` as an
    identifier, and `:{?name}` is TRUE if the variable exists, otherwise FALSE.

    are_words: the text is a command, of which each value is one argument.
    """
    if ":" not in text:
        return text

    def value(found: re.Match[str]) -> str:
        if found["asked"] is not None:
            return "TRUE" if found["asked"] in variables else "FALSE"
        name = found["text"] or found["name"] or found["plain"]
        if name is None or name not in variables:
            return found[0]
        plain = variables[name]
        if found["text"] is not None:
            plain = _quoted(plain, "'")
        elif found["name"] is not None:
            plain = _quoted(plain, '"')
        return plain if not are_words or _WORD.fullmatch(plain) else _quoted(plain, "'")

    return _TOKEN.sub(value, text)


def _quoted(text: str, mark: str) -> str:
    return mark + text.replace(mark, mark * 2) + mark
