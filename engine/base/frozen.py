"""`frozen`: frozen dataclasses that are quick to define.

The engine has more than 300 small value classes, and about 200 of them are defined before the first
statement runs. The standard decorator with `frozen=True` compiles six functions per class. That was
a third of the processor time between `import runnel` and the answer to `SELECT 1`. This decorator
compiles only `__init__` per class; all classes share the other methods, which are written once,
below. For `dataclasses.replace`, `dataclasses.fields`, `match` and type checkers the result is a
dataclass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type)


@overload
def frozen(cls: _Class, /) -> _Class: ...
@overload
def frozen(*, kw_only: bool = False) -> Callable[[_Class], _Class]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: Any = None, /, *, kw_only: bool = False) -> Any:
    """The decorator of value classes, used like `@dataclass(frozen=True, kw_only=…)`.

    Fields are written as for the standard decorator. `init`, `hash`, InitVar and `__post_init__`
    are not supported: exactly the fields that are compared are hashed. A method that the class
    itself defines is kept. A subclass needs the decorator too. Setting or deleting an attribute
    after `__init__` raises FrozenInstanceError.

    A class with the class variable `keeps_hash` computes the hash of an instance once, since the
    hash of a tree is requested at each of its nodes. Don't send such instances to other processes:
    the stored hash isn't valid there.
    """

    def decorate(cls: type) -> type:
        defined = set(vars(cls))
        dataclass(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
        methods = {"__init__": _initializer(cls), "__compared__": _compared(cls), **_SHARED}
        if getattr(cls, "keeps_hash", False):
            methods["__hash__"] = _cached_hash
        for name, method in methods.items():
            if name not in defined:
                setattr(cls, name, method)
        return cls

    return decorate if cls is None else decorate(cls)


def _initializer(cls: type) -> Callable[..., None]:
    """Compile `__init__` from source text, so that a call is as fast as handwritten code.

    One update of the instance's dict needs a third of the time of a call of `object.__setattr__`
    for each of ten fields.
    """
    scope: dict[str, Any] = {"MISSING": MISSING}
    positional: list[str] = ["self"]
    by_name: list[str] = []
    body: list[str] = []
    for item in fields(cls):
        name = parameter = value = item.name
        if item.default is not MISSING:
            scope[f"default_{name}"] = item.default
            parameter = f"{name}=default_{name}"
        elif item.default_factory is not MISSING:
            scope[f"make_{name}"] = item.default_factory
            parameter = f"{name}=MISSING"
            value = f"make_{name}() if {name} is MISSING else {name}"
        (by_name if item.kw_only else positional).append(parameter)
        body.append(f"{name}={value}")
    parameters = ", ".join([*positional, "*", *by_name] if by_name else positional)
    exec(f"def __init__({parameters}):\n self.__dict__.update({', '.join(body)})", scope)
    initializer: Callable[..., None] = scope["__init__"]
    initializer.__qualname__ = f"{cls.__qualname__}.__init__"
    return initializer


def _compared(cls: type) -> Callable[[Any], Any]:
    """Return a function that returns the compared fields' values of an instance."""
    names = [item.name for item in fields(cls) if item.compare]
    return attrgetter(*names) if names else _nothing


def _nothing(_: Any) -> Any:
    return ()


def _equals(self: Any, other: Any) -> Any:
    if type(other) is not type(self):
        return NotImplemented
    compared = type(self).__compared__
    return compared(self) == compared(other)


def _hash(self: Any) -> int:
    return hash(type(self).__compared__(self))


def _cached_hash(self: Any) -> int:
    cached: int | None = self.__dict__.get("_hash")
    if cached is None:
        cached = self.__dict__["_hash"] = _hash(self)
    return cached


def _represent(self: Any) -> str:
    shown = ", ".join(
        f"{item.name}={getattr(self, item.name)!r}" for item in fields(self) if item.repr
    )
    return f"{type(self).__qualname__}({shown})"


def _refuse_to_set(self: Any, name: str, value: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


_SHARED = {
    "__eq__": _equals,
    "__hash__": _hash,
    "__repr__": _represent,
    "__setattr__": _refuse_to_set,
    "__delattr__": _refuse_to_delete,
}
