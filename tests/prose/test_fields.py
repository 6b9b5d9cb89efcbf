"""Every value class documents its fields.

A value class is a class with the decorator `frozen` or `dataclass`, or a NamedTuple. Each of its
fields has one of:

- a line `name: meaning.` in the docstring of the class, after a blank line; several fields may
  share a line;
- a docstring of its own, below the field;
- its name in backquotes in the docstring of the class (`rows[i]` counts);
- a line, a docstring or backquotes in another class, if the docstring says "fields are as in" that
  class.

The docstring of a class with one field says what the field is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from tests.prose.texts import ROOT
from tests.syntax_trees import nodes_of

FOLDERS = ("engine", "planner", "connectors")
EXCLUDED = (
    "engine/processors/time_windows/",
    "engine/processors/sessions/",
    "connectors/files/csv/",
    "connectors/files/json/",
)
"""Folders that are not checked yet; the list only shrinks."""
EXCEPTIONS: dict[str, str] = {}
"""Value classes whose fields need no lines, by name, with the reason."""

_SAME = re.compile(r"(?:\bare|:)\s+as\s+in\s+(?:`\w+\.|`)?(?P<name>[A-Z]\w*[a-z]\w*)\b")


class ValueClass(NamedTuple):
    """A value class of the product.

    path: of its file, in the repository.
    fields: the names of its own fields, without inherited ones.
    documented: the fields among these that have a line, a docstring or backquotes.
    same_as: the classes that the docstring refers to by "as in".
    """

    path: str
    fields: tuple[str, ...]
    documented: frozenset[str]
    same_as: tuple[str, ...]


def fields_of(node: ast.ClassDef) -> dict[str, bool]:
    """The fields of a class by name, and whether each has a docstring of its own."""
    following = [*node.body[1:], None]
    return {
        item.target.id: isinstance(after, ast.Expr)
        for item, after in zip(node.body, following, strict=True)
        if isinstance(item, ast.AnnAssign)
        and isinstance(item.target, ast.Name)
        and "ClassVar" not in ast.unparse(item.annotation)
    }


def lines_of(docstring: str) -> Iterator[str]:
    """The fields that have a line in a docstring."""
    for block in docstring.split("\n\n")[1:]:
        for line in block.split("\n"):
            match = re.match(r"[a-z_]\w*(?:, [a-z_]\w*)*(?=: )", line)
            if match:
                yield from match[0].split(", ")


def is_value_class(node: ast.ClassDef) -> bool:
    decorators = {ast.unparse(item).split("(")[0] for item in node.decorator_list}
    bases = {ast.unparse(item) for item in node.bases}
    return bool(decorators & {"frozen", "dataclass"}) or "NamedTuple" in bases


def described(path: str, node: ast.ClassDef) -> ValueClass:
    docstring = ast.get_docstring(node) or ""
    fields = fields_of(node)
    quoted = set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", docstring))))
    own = {name for name, has_docstring in fields.items() if has_docstring}
    documented = (own | quoted | set(lines_of(docstring))) & set(fields)
    same_as = tuple(match["name"] for match in _SAME.finditer(docstring))
    return ValueClass(path, tuple(fields), frozenset(documented), same_as)


@cache
def value_classes() -> dict[str, list[ValueClass]]:
    """The value classes of the product by name."""
    found: dict[str, list[ValueClass]] = {}
    for path in sorted(file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in nodes_of(path.read_text("utf-8")):
            if isinstance(node, ast.ClassDef) and is_value_class(node):
                found.setdefault(node.name, []).append(described(name, node))
    return found


def undocumented(item: ValueClass, classes: dict[str, list[ValueClass]]) -> list[str]:
    """The fields of a class that nothing documents."""
    elsewhere = {
        name
        for other in item.same_as
        for same in classes.get(other, ())
        for name in same.documented
    }
    missing = [name for name in item.fields if name not in item.documented | elsewhere]
    return missing if len(item.fields) > 1 else []


def test_every_field_is_documented() -> None:
    classes = value_classes()
    lines = [
        f'{item.path}: {name}: write a line "name: meaning." for {", ".join(missing)}'
        for name, items in classes.items()
        for item in items
        if name not in EXCEPTIONS and not item.path.startswith(EXCLUDED)
        if (missing := undocumented(item, classes))
    ]
    assert not lines, "\n".join(lines)


def test_classes_that_docstrings_refer_to_exist() -> None:
    classes = value_classes()
    unknown = [
        f"{item.path}: {name}: no value class {other}"
        for name, items in classes.items()
        for item in items
        for other in item.same_as
        if other not in classes
    ]
    assert not unknown, "\n".join(unknown)


def test_exceptions_are_needed() -> None:
    classes = value_classes()
    for name in EXCEPTIONS:
        assert any(undocumented(item, classes) for item in classes.get(name, ())), name
    paths = {item.path for items in classes.values() for item in items}
    for folder in EXCLUDED:
        assert any(path.startswith(folder) for path in paths), folder


@pytest.mark.parametrize(
    ("docstring", "missing"),
    [
        ("A point.\n\nx: in metres.\ny: in metres.", ""),
        ("A point.\n\nx, y: in metres, from\n    the origin.", ""),
        ("A point `(x, y)`.", ""),
        ("A point.", "x y"),
        ("A point: x and y.\n\nx: in metres.", "y"),
        ("x: y: a point.", "x y"),
        ("A point. The fields are as in Pixel.", "y"),
    ],
)
def test_rules_of_documentation(docstring: str, missing: str) -> None:
    source = f'@frozen\nclass Point:\n    """{docstring}"""\n    x: int\n    y: int\n'
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    assert is_value_class(node)
    pixel = ValueClass("pixel.py", ("x", "y"), frozenset("x"), ())
    assert undocumented(described("a.py", node), {"Pixel": [pixel]}) == missing.split()


def test_class_variables_and_fields_with_docstrings() -> None:
    source = (
        'class A(NamedTuple):\n    """A."""\n    x: int\n    """One."""\n    y: ClassVar[int]\n'
    )
    (node,) = ast.parse(source).body
    assert isinstance(node, ast.ClassDef)
    assert is_value_class(node)
    assert fields_of(node) == {"x": True}
