"""The JSON path language: `$`, `.name`, `.*`, `..name`, `['a', 'b']`, `[0, 2]`, `[0 to 2]`, `[*]`,
`[last]`, `?(@.price < 10)`.

A path is compiled to a function from a value to the list of values that it finds, in document
order. Paths are lax: a step that doesn't apply to a value finds nothing there. Negative subscripts
count from the end; `[1:3]` excludes its end. A filter selects the items of an array for which it is
true, or the value itself. It compares with == (or =), != (<>), <, <=, >, >=, and `like_regex`, and
combines tests with &&, || and !. A path on its own tests whether it finds anything. Values of
different kinds are not equal, and no comparison of order between them is true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow.compute as pc

from runnel.errors import DataError
from runnel.expressions.casts.numbers import any_true
from runnel.expressions.kernels.buffers import pack
from runnel.sqltypes import VARCHAR

Find = Callable[[Any], list[Any]]
"""Returns the values that a path finds in a value."""
Test = Callable[[Any, Any], bool]
"""The test of a filter, called with the current value (@) and the whole document ($)."""
Step = Callable[[list[Any], Any], list[Any]]
"""A step of a path: from the values found so far and the whole document to the values that it finds
in them.
"""

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<sign>\.\.|&&|\|\||==|!=|<>|<=|>=|[$@.*\[\]()?,:<>=!-])
    |(?P<word>[^\W\d][\w$-]*)
    )""",
    re.VERBOSE,
)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_MOST_NESTED = 50
"""The largest permitted depth of filters within filters."""


@lru_cache(maxsize=256)
def compile_path(path: str) -> Find:
    """The function of a path; DataError if the text isn't a path."""
    reader = _Reader(path)
    mode = reader.peek()
    if mode in ("lax", "strict"):
        reader.next()
    reader.expect("$")
    steps = _steps(reader, 0)
    if reader.kind:
        raise reader.error()
    return lambda value: _run(steps, value, value)


def _run(steps: list[Step], start: Any, root: Any) -> list[Any]:
    found = [start]
    for step in steps:
        if not found:
            break
        found = step(found, root)
    return found


class _Reader:
    """The tokens of a path.

    kind: the kind of the next token (a group of `_TOKEN`); empty at the end.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._at = self._start = 0
        self.kind = ""
        self._text = ""
        self.next()

    def next(self) -> str:
        """Advances past the next token, and returns its text."""
        text = self._text
        self._start = self._at
        if not self._path[self._at :].strip():
            self.kind = self._text = ""
            return text
        match = _TOKEN.match(self._path, self._at)
        if match is None:
            raise self.error()
        self.kind = str(match.lastgroup)
        self._text = match[self.kind]
        self._at = match.end()
        return text

    def peek(self) -> str:
        """The text of the next token, unless it is a string."""
        return "" if self.kind == "string" else self._text

    def accept(self, *texts: str) -> bool:
        if self.peek() in texts and self.kind:
            self.next()
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.error()

    def string(self) -> str:
        return _ESCAPE.sub(_unescaped, self.next()[1:-1])

    def error(self) -> DataError:
        where = (
            "at its end"
            if not self._path[self._start :].strip()
            else f'at "{self._path[self._start :].strip()[:20]}"'
        )
        return DataError(
            f"invalid JSON path '{self._path}' {where}", hint="a path is written like $.a.b[0]"
        )


def _unescaped(match: re.Match[str]) -> str:
    letter = match[1]
    return chr(int(letter[1:], 16)) if len(letter) > 1 else _LETTERS.get(letter, letter)


def _steps(reader: _Reader, depth: int) -> list[Step]:
    if depth > _MOST_NESTED:
        raise DataError("a JSON path is nested too deep")
    steps: list[Step] = []
    while True:
        if reader.accept(".."):
            steps.append(_below())
            if reader.peek() != "[":
                steps.append(_name_step(reader))
        elif reader.accept("."):
            if reader.peek() != "[":
                steps.append(_name_step(reader))
        elif reader.accept("["):
            steps.append(_bracket(reader, depth))
        elif reader.peek() == "?":
            reader.next()
            reader.expect("(")
            steps.append(_filter(_or(reader, depth + 1)))
            reader.expect(")")
        else:
            return steps


def _name_step(reader: _Reader) -> Step:
    if reader.accept("*"):
        return _all()
    if reader.kind == "string":
        return _members((reader.string(),))
    if reader.kind in ("word", "number"):
        name = reader.next()
        if reader.peek() == "(":
            raise reader.error()
        return _members((name,))
    raise reader.error()


def _bracket(reader: _Reader, depth: int) -> Step:
    if reader.accept("*"):
        step = _all()
    elif reader.accept("?"):
        reader.expect("(")
        step = _filter(_or(reader, depth + 1))
        reader.expect(")")
    elif reader.kind == "string":
        names = [reader.string()]
        while reader.accept(","):
            if reader.kind != "string":
                raise reader.error()
            names.append(reader.string())
        step = _members(tuple(names))
    else:
        ranges = [_range(reader)]
        while reader.accept(","):
            ranges.append(_range(reader))
        step = _items(ranges)
    reader.expect("]")
    return step


Range = Callable[[int], range]
"""The indexes that a subscript selects, for the length of an array."""


def _range(reader: _Reader) -> Range:
    """One item of a subscript: an index, or a range of indexes."""
    first = None if reader.peek() == ":" else _index(reader)
    if reader.accept("to"):
        last = _index(reader)
        assert first is not None
        begin = first
        return lambda length: range(max(begin(length), 0), min(last(length) + 1, length))
    if reader.accept(":"):
        end = None if reader.peek() in ("]", ",") else _index(reader)
        return lambda length: range(
            max(first(length), 0) if first is not None else 0,
            min(end(length), length) if end is not None else length,
        )
    if first is None:
        raise reader.error()
    single = first
    return lambda length: (
        range(single(length), single(length) + 1) if 0 <= single(length) < length else range(0)
    )


def _index(reader: _Reader) -> Callable[[int], int]:
    if reader.accept("last"):
        back = 0
        if reader.accept("-"):
            back = _whole(reader)
        elif reader.kind == "number" and reader.peek().startswith("-"):
            back = -_whole(reader)
        return lambda length: length - 1 - back
    number = _whole(reader)
    return lambda length: number if number >= 0 else length + number


def _whole(reader: _Reader) -> int:
    if (
        reader.kind != "number"
        or not reader.peek().lstrip("-").isdigit()
        or len(reader.peek()) > 18
    ):
        raise reader.error()
    return int(reader.next())


def _members(names: tuple[str, ...]) -> Step:
    def run(found: list[Any], root: Any) -> list[Any]:
        return [
            value[name]
            for value in found
            if isinstance(value, dict)
            for name in names
            if name in value
        ]

    return run


def _all() -> Step:
    def run(found: list[Any], root: Any) -> list[Any]:
        values: list[Any] = []
        for value in found:
            if isinstance(value, dict):
                values.extend(value.values())
            elif isinstance(value, list):
                values.extend(value)
        return values

    return run


def _items(ranges: list[Range]) -> Step:
    def run(found: list[Any], root: Any) -> list[Any]:
        return [
            value[i]
            for value in found
            if isinstance(value, list)
            for part in ranges
            for i in part(len(value))
        ]

    return run


def _below() -> Step:
    return lambda found, root: [part for value in found for part in _descend(value)]


def _descend(value: Any) -> Iterator[Any]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        yield part
        if isinstance(part, dict):
            waiting += reversed(part.values())
        elif isinstance(part, list):
            waiting += reversed(part)


def _filter(test: Test) -> Step:
    """The step of a filter."""

    def run(found: list[Any], root: Any) -> list[Any]:
        matching: list[Any] = []
        for value in found:
            matching += [
                item for item in (value if isinstance(value, list) else [value]) if test(item, root)
            ]
        return matching

    return run


def _or(reader: _Reader, depth: int) -> Test:
    if depth > _MOST_NESTED:
        raise DataError("a JSON path is nested too deep")
    tests = [_and(reader, depth)]
    while reader.accept("||"):
        tests.append(_and(reader, depth))
    return (
        tests[0]
        if len(tests) == 1
        else lambda value, root: any(test(value, root) for test in tests)
    )


def _and(reader: _Reader, depth: int) -> Test:
    tests = [_not(reader, depth)]
    while reader.accept("&&"):
        tests.append(_not(reader, depth))
    return (
        tests[0]
        if len(tests) == 1
        else lambda value, root: all(test(value, root) for test in tests)
    )


def _not(reader: _Reader, depth: int) -> Test:
    if reader.accept("!"):
        inner = _not(reader, depth + 1)
        if depth > _MOST_NESTED:
            raise DataError("a JSON path is nested too deep")
        return lambda value, root: not inner(value, root)
    if reader.accept("("):
        inner = _or(reader, depth + 1)
        reader.expect(")")
        return inner
    if reader.accept("exists"):
        reader.expect("(")
        operand = _operand(reader, depth)
        reader.expect(")")
        return lambda value, root: bool(operand(value, root))
    return _comparison(reader, depth)


Operand = Callable[[Any, Any], list[Any]]


def _comparison(reader: _Reader, depth: int) -> Test:
    left = _operand(reader, depth)
    sign = reader.peek()
    if sign == "like_regex":
        reader.next()
        if reader.kind != "string":
            raise reader.error()
        return _regex_test(left, reader.string())
    compare = _COMPARISONS.get(sign)
    if compare is None or reader.kind != "sign":
        return lambda value, root: bool(left(value, root))
    reader.next()
    right = _operand(reader, depth)

    def test(value: Any, root: Any) -> bool:
        others = right(value, root)
        return any(compare(first, second) for first in left(value, root) for second in others)

    return test


def _regex_test(left: Operand, pattern: str) -> Test:
    from runnel.expressions.text.regex_syntax import regex_of

    regex = regex_of(pattern).pattern

    def test(value: Any, root: Any) -> bool:
        texts = [item for item in left(value, root) if isinstance(item, str)]
        return bool(texts) and any_true(pc.match_substring_regex(pack(texts, VARCHAR), regex))

    return test


def _operand(reader: _Reader, depth: int) -> Operand:
    if reader.accept("@"):
        steps = _steps(reader, depth + 1)
        return lambda value, root: _run(steps, value, root)
    if reader.accept("$"):
        steps = _steps(reader, depth + 1)
        return lambda value, root: _run(steps, root, root)
    literal = [_literal(reader)]
    return lambda value, root: literal


def _literal(reader: _Reader) -> Any:
    if reader.kind == "string":
        return reader.string()
    if reader.kind == "number":
        text = reader.next()
        return int(text) if text.lstrip("-").isdigit() else Decimal(text)
    for word, value in (("true", True), ("false", False), ("null", None)):
        if reader.accept(word):
            return value
    raise reader.error()


def _kind(value: Any) -> int:
    if isinstance(value, bool):
        return 1
    return 2 if isinstance(value, int | Decimal) else 3 if isinstance(value, str) else 0


def _equal(left: Any, right: Any) -> bool:
    return _kind(left) == _kind(right) and bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda left, right: _kind(left) == _kind(right) >= 2 and compare(left, right)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "=": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<>": lambda left, right: not _equal(left, right),
    "<": _ordered(lambda left, right: left < right),
    "<=": _ordered(lambda left, right: left <= right),
    ">": _ordered(lambda left, right: left > right),
    ">=": _ordered(lambda left, right: left >= right),
}
