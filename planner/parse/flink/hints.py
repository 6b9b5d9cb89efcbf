"""Flink's hint `t /*+ OPTIONS('name' = 'value', …) */`: options of a mapping for one query.

sqlglot keeps the comment after the name of a table at the exp.Table. The names are options of the
mapping; of Flink's names those are accepted that `_FLINK` lists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from runnel.errors import NotSupportedError, Position, ProgrammingError
from runnel.planner.parse.flink.generated import milliseconds

HINT = re.compile(r"\+\s*OPTIONS\b", re.IGNORECASE)
_HINT = re.compile(r"\+\s*OPTIONS\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_ITEM = re.compile(r"\s*'((?:[^']|'')+)'\s*=\s*'((?:[^']|'')*)'\s*(,|$)")
_FLINK = {
    "rows-per-second": "rowsPerSecond",
    "number-of-rows": "numberOfRows",
    "start-time": "startTime",
    "csv.field-delimiter": "delimiter",
    "csv.quote-character": "quote",
    "csv.escape-character": "escape",
    "csv.null-literal": "nullValue",
}
_TOLERANCES = {"true": "skip", "false": "fail"}
_STARTS = {"earliest-offset": "earliest", "latest-offset": "latest"}
_OTHERS = ("scan.", "source.", "sink.", "value.", "key.", "csv.", "json.", "lookup.")
"""The first words of options of Flink, which no option of a mapping has."""


def has_hint(item: Any) -> bool:
    """Whether a token or a node has the hint."""
    return any(HINT.match(comment) for comment in item.comments or ())


def check_hints(tree: Any, tokens: Sequence[Token], sql: str) -> None:
    """NotSupportedError for a hint that does not follow the name of a table in FROM."""
    hinted = [token for token in tokens if has_hint(token)]
    found = sum(
        isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier) and has_hint(node)
        for node in tree.walk()
    )
    if len(hinted) != found:
        raise misplaced(sql, hinted[0])


def misplaced(sql: str, token: Token) -> NotSupportedError:
    """The error for the hint after `token`."""
    return NotSupportedError(
        "the hint OPTIONS is not supported here",
        hint="write it after the name of a mapping in FROM of a query; elsewhere, write the "
        "options into CREATE OR REPLACE MAPPING, or into a second mapping",
        position=Position.at(sql, sql.find("/*+", token.end), 3),
    )


def options_of(tree: Any, position: Position | None) -> dict[str, str]:
    """The options of the hint after the name of a table, under the names of the mapping."""
    comment = next(comment for comment in tree.comments if HINT.match(comment))
    whole = _HINT.fullmatch(comment)
    rest = "" if whole is None else whole[1].strip()
    found: dict[str, str] = {}
    while True:
        item = _ITEM.match(rest)
        if item is None:
            raise ProgrammingError(
                "syntax error in the hint OPTIONS",
                hint="write /*+ OPTIONS('name' = 'value', …) */",
                position=position,
            )
        name, value = (text.replace("''", "'") for text in item.groups()[:2])
        found |= _translated(name, value, position)
        rest = rest[item.end() :]
        if not item[3]:
            return found


def _translated(name: str, value: str, position: Position | None) -> dict[str, str]:
    lower = name.lower()
    if lower in _FLINK:
        return {_FLINK[lower]: value}
    if lower.startswith("properties."):
        return {name[len("properties.") :]: value}
    tolerance = _TOLERANCES.get(value.strip().lower())
    if lower in ("json.ignore-parse-errors", "csv.ignore-parse-errors") and tolerance is not None:
        return {"onError": tolerance}
    if lower == "source.monitor-interval":
        millis = milliseconds(value)
        if millis is not None:
            return {"follow": "true", "pollMillis": str(millis)}
    if lower == "scan.startup.mode" and value.strip().lower() in _STARTS:
        return {"auto.offset.reset": _STARTS[value.strip().lower()]}
    if lower == "scan.watermark.idle-timeout":
        millis = milliseconds(value, 0)
        if millis is not None:
            return {"idleTimeoutMillis": str(millis)}
    if lower == "scan.watermark.emit.strategy" or lower.startswith("scan.watermark.alignment."):
        return {}
    if lower.startswith(_OTHERS):
        raise NotSupportedError(
            f"'{name}' = '{value}' of the hint OPTIONS is not supported",
            hint="use an option of the mapping: SHOW CREATE TABLE shows the ones that are set",
            position=position,
        )
    return {name: value}
