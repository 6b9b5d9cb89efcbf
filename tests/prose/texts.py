"""The prose of the project: its pages, and the comments, docstrings, messages and names of its
code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.syntax_trees import nodes_of

ROOT = Path(__file__).parent.parent.parent
CODE = ("engine", "planner", "connectors", "benchmarks")
PAGES = ("*.md", "docs/**/*.md", "benchmarks/**/*.md")
GENERATED = ("benchmarks/RESULTS.md",)
"""Pages that a program writes; its texts are not checked."""

_CODE = re.compile(
    r"^ *(?P<fence>```|~~~).*?^ *(?P=fence) *$"  # a block
    r"|`[^`\n]+(?:\n[^`\n]+)?`"  # code in a line, or over a line break
    r"|\]\([^)\s]*\)|https?://\S+",  # addresses
    re.MULTILINE | re.DOTALL,
)
_SQL = re.compile(
    r"\s*\(?(?:SELECT|INSERT|UPDATE|DELETE|CREATE|DROP|ALTER|WITH"
    r"|SET|SHOW|COPY|ATTACH|FROM|CALL|PRAGMA)\b"
)
_COMMENT = re.compile(r"(?:^|\s)# ", re.MULTILINE)
_WORD_START = re.compile(r"(?<![A-Z])(?=[A-Z])|(?=[A-Z][a-z])|_")


class Text(NamedTuple):
    """A text of a file.

    kind: "page", "comment", "docstring", "message" or "name".
    line: the number of its first line, from 1.
    text: the prose, with `·` for each character of code in it; for a name, its words in lower case.
    """

    kind: str
    line: int
    text: str


def files() -> list[Path]:
    """Every page and every source file of the product and of the benchmarks, in order."""
    pages = {path for pattern in PAGES for path in ROOT.glob(pattern)}
    sources = {path for folder in CODE for path in (ROOT / folder).rglob("*.py")}
    return sorted((pages | sources) - {ROOT / name for name in GENERATED})


def texts_of(path: Path) -> Iterator[Text]:
    """The texts of one file."""
    content = path.read_text("utf-8")
    if path.suffix == ".md":
        yield Text("page", 1, without_code(content))
        return
    nodes = nodes_of(content)
    docstrings = [node.value for node in nodes if isinstance(node, ast.Expr)]
    yield from _comments(content)
    yield from _docstrings(docstrings)
    yield from _messages(nodes, {id(node) for node in docstrings})
    yield Text("name", 1, words_of(path.stem))
    yield from _names(nodes)


def without_code(text: str) -> str:
    """The text with `·` for each character of code and of addresses; lines and positions stay."""
    return _CODE.sub(lambda match: re.sub(r"[^\n]", "·", match[0]), text)


def words_of(name: str) -> str:
    """The words of an identifier: `TimedGroups` and `timed_groups` are "timed groups"."""
    return " ".join(_WORD_START.sub(" ", name).lower().split())


def _comments(content: str) -> Iterator[Text]:
    if not _COMMENT.search(content):
        return
    blocks: list[list[tokenize.TokenInfo]] = []
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            if blocks and blocks[-1][-1].start == (row - 1, column):
                blocks[-1].append(token)
            else:
                blocks.append([token])
    for block in blocks:
        lines = [token.string.lstrip("#: ") for token in block]
        yield Text("comment", block[0].start[0], without_code("\n".join(lines)))


def _docstrings(values: list[ast.expr]) -> Iterator[Text]:
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield Text("docstring", value.lineno, without_code(value.value))


def _messages(nodes: list[ast.AST], docstrings: set[int]) -> Iterator[Text]:
    """String literals of at least three words that are no SQL: errors, hints, log lines, help."""
    formatted = [node for node in nodes if isinstance(node, ast.JoinedStr)]
    inside = {id(value) for node in formatted for value in node.values} | docstrings
    for node in nodes:
        text = "" if id(node) in inside else _literal(node)
        if len(text.split()) >= 3 and not _SQL.match(text):
            yield Text("message", getattr(node, "lineno", 1), text)


def _literal(node: ast.AST) -> str:
    """The text of a string literal, with `·` for each replacement field; "" for other nodes."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_literal(value) or "·" for value in node.values)
    value = node.value if isinstance(node, ast.Constant) else ""
    return value if isinstance(value, str) else ""


def _names(nodes: list[ast.AST]) -> Iterator[Text]:
    """Names of classes, functions, parameters and of fields with a type."""
    for node in nodes:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield Text("name", node.lineno, words_of(node.name))
        elif isinstance(node, ast.arg):
            yield Text("name", node.lineno, words_of(node.arg))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield Text("name", node.lineno, words_of(node.target.id))
