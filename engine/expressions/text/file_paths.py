"""Functions on texts that are file paths, URLs, sizes in bytes or lists with a separator."""

from __future__ import annotations

import re
from functools import partial
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlsplit

from runnel.errors import DataError
from runnel.expressions.function import always_may_fail
from runnel.expressions.signature import by_value
from runnel.sqltypes import BIGINT, BOOLEAN, VARCHAR, array

_SEPARATORS = {"system": "/", "forward_slash": "/", "both_slash": "/\\", "backslash": "\\"}


def _separators(word: str) -> str:
    found = _SEPARATORS.get(word.lower())
    if found is None:
        raise DataError(
            f"'{word}' is no kind of separator", hint=f"the kinds are {', '.join(_SEPARATORS)}"
        )
    return found


def _steps(path: str, separators: str) -> list[str]:
    return [step for step in re.split(f"[{re.escape(separators)}]", path) if step]


def _parse_path(path: str, separator: str = "both_slash") -> list[str]:
    separators = _separators(separator)
    root = [path[0]] if path[:1] and path[0] in separators else []
    return root + _steps(path, separators)


def _parse_filename(path: str, trims: bool = False, separator: str = "both_slash") -> str:
    name = re.split(f"[{re.escape(_separators(separator))}]", path)[-1]
    stem, point, _ = name.rpartition(".")
    return stem if trims and point else name


def _parse_dirname(path: str, separator: str = "both_slash") -> str:
    """The first directory of a path."""
    steps = _parse_path(path, separator)
    return steps[0] if len(steps) > 1 or steps[:1] in (["/"], ["\\"]) else ""


def _parse_dirpath(path: str, separator: str = "both_slash") -> str:
    """Everything before the last separator."""
    separators = _separators(separator)
    last = max((path.rfind(item) for item in separators), default=-1)
    return path[: max(last, 0)]


_UNITS = "KMGTPE"


def _format_bytes(size: int, step: int = 1024) -> str:
    if abs(size) < step:
        return f"{size} byte" + ("" if abs(size) == 1 else "s")
    value, unit = abs(size), -1
    scale = 1
    while value >= scale * step and unit < len(_UNITS) - 1:
        scale *= step
        unit += 1
    tenths = value * 10 // scale
    sign = "-" if size < 0 else ""
    return (
        f"{sign}{tenths // 10}.{tenths % 10} {_UNITS[unit]}{'i' if step == 1024 else ''}B".replace(
            "KB", "kB"
        )
    )


def _pg_size_pretty(size: int) -> str:
    """PostgreSQL's form: a whole number of the largest unit that has at least ten of them."""
    value, unit = abs(size), 0
    units = ("bytes", "kB", "MB", "GB", "TB", "PB")
    limit = 10 * 1024
    while value >= (limit if unit == 0 else 20 * 1024 - 1) and unit < len(units) - 1:
        value = value >> 9 if unit == 0 else value >> 10
        unit += 1
    if unit:
        value = (value + 1) // 2
    return f"{'-' if size < 0 else ''}{value} {units[unit]}"


def _url_decode(text: str) -> str:
    try:
        return unquote_to_bytes(text).decode("utf-8")
    except UnicodeDecodeError:
        raise DataError(f"'{text[:60]}' is not the URL form of UTF-8 text") from None


def _parse_url(text: str, part: str, key: str | None = None) -> str | None:
    """A component of a URL; with `key`, the value of this parameter of its QUERY. None if it has
    none."""
    try:
        url = urlsplit(text)
    except ValueError:
        return None
    if not url.scheme:
        return None
    if part == "QUERY" and key is not None:
        return next((value for name, value in parse_qsl(url.query) if name == key), None)
    user = url.netloc.rpartition("@")[0]
    found = {
        "PROTOCOL": url.scheme,
        "HOST": url.hostname,
        "PATH": url.path,
        "QUERY": url.query or None,
        "REF": url.fragment or None,
        "FILE": url.path + (f"?{url.query}" if url.query else ""),
        "AUTHORITY": url.netloc,
        "USERINFO": user or None,
    }
    if part not in found:
        raise DataError(
            f"PARSE_URL has no component '{part[:40]}'", hint="it has " + ", ".join(found)
        )
    return found[part]


def _string_split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


_text = partial(by_value, family="string")
_SEPARATOR = "[, separator VARCHAR]"
FUNCTIONS = (
    _text(
        "string_split", "s VARCHAR, separator VARCHAR", [VARCHAR] * 2, array(VARCHAR), _string_split
    ),
    _text("url_encode", "s VARCHAR", [VARCHAR], VARCHAR, lambda text: quote(text, safe="-_.~")),
    _text("url_decode", "s VARCHAR", [VARCHAR], VARCHAR, _url_decode, can_fail=always_may_fail),
    _text(
        "parse_url",
        "url VARCHAR, part VARCHAR [, key VARCHAR]",
        [VARCHAR] * 3,
        VARCHAR,
        _parse_url,
        optional=1,
        can_fail=always_may_fail,
    ),
    _text(
        "regexp_escape",
        "s VARCHAR",
        [VARCHAR],
        VARCHAR,
        lambda text: re.sub(r"([^A-Za-z0-9_])", r"\\\1", text),
    ),
    _text("format_bytes", "size BIGINT", [BIGINT], VARCHAR, _format_bytes),
    _text(
        "formatreadabledecimalsize",
        "size BIGINT",
        [BIGINT],
        VARCHAR,
        lambda size: _format_bytes(size, 1000),
    ),
    _text("pg_size_pretty", "size BIGINT", [BIGINT], VARCHAR, _pg_size_pretty),
    _text(
        "parse_path",
        f"path VARCHAR {_SEPARATOR}",
        [VARCHAR] * 2,
        array(VARCHAR),
        _parse_path,
        optional=1,
        can_fail=always_may_fail,
    ),
    _text(
        "parse_dirname",
        f"path VARCHAR {_SEPARATOR}",
        [VARCHAR] * 2,
        VARCHAR,
        _parse_dirname,
        optional=1,
        can_fail=always_may_fail,
    ),
    _text(
        "parse_dirpath",
        f"path VARCHAR {_SEPARATOR}",
        [VARCHAR] * 2,
        VARCHAR,
        _parse_dirpath,
        optional=1,
        can_fail=always_may_fail,
    ),
    _text(
        "parse_filename",
        "path VARCHAR [, trim_extension BOOLEAN [, separator VARCHAR]]",
        [VARCHAR, BOOLEAN, VARCHAR],
        VARCHAR,
        _parse_filename,
        optional=2,
        can_fail=always_may_fail,
    ),
)
