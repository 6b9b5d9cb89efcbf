"""The syntax of regular expressions: whether RE2 accepts a pattern, and the pattern with its groups
renamed.

RE2 runs in time linear in the text, whatever the pattern. So it has no back-references and no
look-around, which are refused by name.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from runnel.base.frozen import frozen
from runnel.errors import DataError, ErrorCode
from runnel.expressions.kernels.buffers import pack
from runnel.sqltypes import VARCHAR

_HINT = (
    "regular expressions are RE2's: they take linear time, "
    "and have no look-around and no back-references"
)
_CONSTRUCTS = (
    ("(?=", "look-ahead (?=…)"),
    ("(?!", "look-ahead (?!…)"),
    ("(?<=", "look-behind (?<=…)"),
    ("(?<!", "look-behind (?<!…)"),
    ("(?>", "an atomic group (?>…)"),
    ("(?(", "a conditional (?(…)…)"),
    ("(?P=", "a back-reference (?P=…)"),
    ("(?#", "a comment (?#…)"),
    ("\\k", "a back-reference \\k"),
    *((f"\\{digit}", f"a back-reference \\{digit}") for digit in range(1, 10)),
)
"""Constructs of other dialects, by the characters that they begin with."""
_POSSESSIVE = ("*+", "++", "?+", "}+")
_ASSERTIONS = frozenset(("^", "$", "\\b", "\\B", "\\A", "\\z"))
"""The tokens whose match depends on the characters around it."""


@frozen
class Regex:
    """A pattern that RE2 accepts.

    pattern: the pattern with its flags.
    named: the same with its groups named g1, g2, …, for use within another pattern.
    groups: the number of groups.
    has_assertions: whether a match depends on the characters around it.
    """

    pattern: str
    named: str
    groups: int
    has_assertions: bool


def _tokens(pattern: str) -> list[str]:
    """The pattern split into tokens: group openings, classes in brackets, quotations, escapes, and
    single characters.
    """
    tokens, at = [], 0
    while at < len(pattern):
        end = _end_of_token(pattern, at)
        tokens.append(pattern[at:end])
        at = end
    return tokens


def _end_of_token(pattern: str, at: int) -> int:
    """The index after the token that begins at `at`."""
    if pattern.startswith("\\Q", at):
        end = pattern.find("\\E", at + 2)
        return len(pattern) if end < 0 else end + 2
    if pattern[at] == "\\":
        return min(at + 2, len(pattern))
    if pattern[at] == "[":
        return _end_of_class(pattern, at)
    if pattern.startswith(("(?P<", "(?<"), at) and not pattern.startswith(("(?<=", "(?<!"), at):
        end = pattern.find(">", at)
        return len(pattern) if end < 0 else end + 1
    opening = next(
        (
            opening
            for opening, _ in _CONSTRUCTS
            if opening[0] == "(" and pattern.startswith(opening, at)
        ),
        "",
    )
    return at + len(opening) if opening else at + 2 if pattern.startswith("(?", at) else at + 1


def _end_of_class(pattern: str, at: int) -> int:
    """The index after the class in brackets that begins at `at`."""
    at += 2 if pattern.startswith("[^", at) else 1
    first = at
    while at < len(pattern) and (pattern[at] != "]" or at == first):
        name = pattern.find(":]", at + 2) if pattern.startswith("[:", at) else -1
        at = name + 2 if name >= 0 else at + (2 if pattern[at] == "\\" else 1)
    return min(at + 1, len(pattern))


@lru_cache(maxsize=256)
def regex_of(pattern: str, inline: str = "") -> Regex:
    """A pattern with RE2's `inline` flags. DataError, which names the fault, if RE2 doesn't accept
    it.
    """
    try:
        pc.match_substring_regex(_NOTHING, pattern)
    except pa.ArrowInvalid as error:
        raise _fault(pattern, error) from None
    # Arrow puts brackets around some patterns, which an unterminated quotation would include.
    tokens = [
        item + "\\E" if item.startswith("\\Q") and not item.endswith("\\E") else item
        for item in _tokens(pattern)
    ]
    renamed, groups = [], 0
    for token in tokens:
        if token == "(" or token.startswith(("(?P<", "(?<")):
            groups += 1
            renamed.append(f"(?P<g{groups}>")
        else:
            renamed.append(token)
    flags = f"(?{inline})" if inline else ""
    return Regex(
        pattern=flags + "".join(tokens),
        named=f"(?:{flags}{''.join(renamed)})",
        groups=groups,
        has_assertions=not _ASSERTIONS.isdisjoint(tokens),
    )


_NOTHING = pack([""], VARCHAR)


def unsupported(pattern: str) -> str | None:
    """The first construct of another dialect that a pattern uses and RE2 doesn't have; None without
    one.
    """
    tokens = _tokens(pattern)
    for token in tokens:
        for opening, name in _CONSTRUCTS:
            if token == opening:
                return name
    text = "".join(token if len(token) == 1 else "x" for token in tokens)
    return "a possessive quantifier" if any(mark in text for mark in _POSSESSIVE) else None


def _fault(pattern: str, error: Exception) -> DataError:
    construct = unsupported(pattern)
    if construct is not None:
        return DataError(
            f"{construct} is not supported in regular expressions",
            hint=_HINT,
            code=ErrorCode.NOT_SUPPORTED,
        )
    return DataError(regex_message(error))


def regex_message(error: Exception) -> str:
    """Arrow's message about a regular expression, in Runnel's wording."""
    text = str(error)
    head = "Invalid regular expression: "
    return (
        f"invalid regular expression: {text[len(head) :]}"
        if text.startswith(head)
        else f"regular expression: {text}"
    )
