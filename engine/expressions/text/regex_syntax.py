"""What is written in a regular expression: whether it is one of RE2's, and its groups by names of
ours.

RE2 works in time linear in the text, whatever the pattern; so it has no back-references and no
look-around, which are refused by their names.
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
_POSSESSIVE = ("*+", "++", "?+", "}+")
_ASSERTIONS = frozenset(("^", "$", "\\b", "\\B", "\\A", "\\z"))


@frozen
class Regex:
    """A pattern that RE2 takes. `named` is the same with each of its `groups` called g1, g2, …; it
    can be put within another pattern."""

    pattern: str
    named: str
    groups: int
    has_assertions: bool


def _tokens(pattern: str) -> list[str]:
    """The pattern cut into what begins a group, classes in brackets, quotations, escapes, and
    single characters."""
    tokens, at = [], 0
    while at < len(pattern):
        end = _end_of_token(pattern, at)
        tokens.append(pattern[at:end])
        at = end
    return tokens


def _end_of_token(pattern: str, at: int) -> int:
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
    at += 2 if pattern.startswith("[^", at) else 1
    first = at
    while at < len(pattern) and (pattern[at] != "]" or at == first):
        name = pattern.find(":]", at + 2) if pattern.startswith("[:", at) else -1
        at = name + 2 if name >= 0 else at + (2 if pattern[at] == "\\" else 1)
    return min(at + 1, len(pattern))


@lru_cache(maxsize=256)
def regex_of(pattern: str, inline: str = "") -> Regex:
    """A pattern with RE2's `inline` flags; DataError, which names what is wrong in it, for one that
    RE2 doesn't take."""
    try:
        pc.match_substring_regex(_NOTHING, pattern)
    except pa.ArrowInvalid as error:
        raise _fault(pattern, error) from None
    # Arrow puts brackets around some patterns, and a quotation without an end would swallow them.
    tokens = [
        item + "\\E" if item.startswith("\\Q") and not item.endswith("\\E") else item
        for item in _tokens(pattern)
    ]
    parts, groups = [], 0
    for token in tokens:
        if token == "(" or token.startswith(("(?P<", "(?<")):
            groups += 1
            parts.append(f"(?P<g{groups}>")
        else:
            parts.append(token)
    flags = f"(?{inline})" if inline else ""
    return Regex(
        pattern=flags + "".join(tokens),
        named=f"(?:{flags}{''.join(parts)})",
        groups=groups,
        has_assertions=not _ASSERTIONS.isdisjoint(tokens),
    )


_NOTHING = pack([""], VARCHAR)


def unsupported(pattern: str) -> str | None:
    """What of other dialects of regular expressions a pattern uses that RE2 doesn't have."""
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
    text = str(error)
    head = "Invalid regular expression: "
    return (
        f"invalid regular expression: {text[len(head) :]}"
        if text.startswith(head)
        else f"regular expression: {text}"
    )
