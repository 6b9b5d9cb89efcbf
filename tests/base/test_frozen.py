"""`frozen` against the standard decorator: what it makes behaves like a frozen dataclass."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any, ClassVar

import pytest

from runnel.base.frozen import frozen


@frozen
class Point:
    """Two numbers and a remark."""

    x: int
    y: int = 0
    remark: str = field(default="", compare=False, repr=False)


@frozen(kw_only=True)
class Node:
    """A base with a default, and fields that are given by name."""

    name: str
    children: list[Node] = field(default_factory=list)


@frozen(kw_only=True)
class Leaf(Node):
    """A subclass may add a field without a default behind one that has it."""

    value: int


@frozen
class Empty:
    """No fields."""


@frozen
class Named:
    """Methods of its own are kept."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name.lower() == self.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())

    def __repr__(self) -> str:
        return f"<{self.name}>"


@dataclass(frozen=True)
class StandardPoint:
    """What Point is measured against."""

    x: int
    y: int = 0
    remark: str = field(default="", compare=False, repr=False)


def test_fields_are_given_by_place_or_by_name() -> None:
    assert Point(1, 2, "here") == Point(x=1, y=2)
    assert Point(1).y == 0
    leaf = Leaf(name="a", value=3)
    assert (leaf.name, leaf.value, leaf.children) == ("a", 3, [])


def test_defaults_made_by_a_factory_are_not_shared() -> None:
    assert Node(name="a").children is not Node(name="a").children
    given: list[Node] = []
    assert Node(name="a", children=given).children is given


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (Point, "missing 1 required positional argument: 'x'"),
        (lambda: Point(1, z=1), "unexpected keyword argument 'z'"),
        (lambda: Leaf("a", 1), "takes 1 positional argument"),
        (lambda: Leaf(name="a"), "missing 1 required keyword-only argument: 'value'"),
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_equality_and_hash_are_those_of_the_compared_fields() -> None:
    assert Point(1, 2, "a") == Point(1, 2, "b")
    assert hash(Point(1, 2, "a")) == hash(Point(1, 2, "b")) == hash(StandardPoint(1, 2))
    assert Point(1, 2) != Point(2, 2)
    assert Point(1, 2) != Point(1, 3)
    assert Empty() == Empty()
    assert hash(Empty()) == hash(Empty())


def test_classes_differ_even_with_equal_fields() -> None:
    assert Point(1, 2) != StandardPoint(1, 2)
    assert Node(name="a") != Leaf(name="a", value=1)
    assert Point(1, 2) != (1, 2)


def test_representation_names_the_fields() -> None:
    assert repr(Point(1, 2, "a")) == repr(StandardPoint(1, 2, "a")).replace(
        "StandardPoint", "Point"
    )
    assert repr(Leaf(name="a", value=1)) == "Leaf(name='a', children=[], value=1)"
    assert repr(Empty()) == "Empty()"


def test_nothing_can_be_set_or_deleted() -> None:
    point = Point(1)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'z'"):
        point.z = 2  # type: ignore[attr-defined]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert point == Point(1)


def test_methods_of_the_class_are_kept() -> None:
    assert Named("A") == Named("a")
    assert len({Named("A"), Named("a")}) == 1
    assert repr(Named("A")) == "<A>"


def test_it_is_a_dataclass_to_the_standard_library() -> None:
    assert [item.name for item in fields(Leaf)] == ["name", "children", "value"]
    assert replace(Point(1, 2, "a"), y=5).remark == "a"
    assert replace(Leaf(name="a", value=1), value=2) == Leaf(name="a", value=2)
    match Point(1, 2):
        case Point(x, y):
            assert (x, y) == (1, 2)


def test_values_are_copied_and_pickled() -> None:
    leaf = Leaf(name="a", value=1, children=[Node(name="b")])
    assert copy.deepcopy(leaf) == leaf == pickle.loads(pickle.dumps(leaf))


@frozen
class Tree:
    """One whose hash is kept."""

    keeps_hash: ClassVar[bool] = True

    inner: Any


def test_a_hash_that_is_kept_is_computed_once() -> None:
    class Counted:
        asked = 0

        def __hash__(self) -> int:
            Counted.asked += 1
            return 1

    tree = Tree(Tree(Counted()))
    assert len({tree, tree, tree.inner, tree.inner}) == 2
    assert Counted.asked == 1
    assert hash(Tree((1, 2))) == hash(Tree((1, 2)))
    assert hash(replace(tree, inner=2)) == hash(Tree(2))
    with pytest.raises(TypeError, match="unhashable"):
        hash(Tree([]))
