"""The codec of values in the records of a directory: JSON values that carry their class.

Nothing is pickled. A function or class is stored as a reference, `module:name`, and imported when
the record is used; so using a record runs the code of the modules that it names. An instance of a
dataclass is stored as its class and its fields, the result of a `storable` factory as the call that
returned it.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from importlib import import_module
from operator import attrgetter
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Protocol
from uuid import UUID
from weakref import WeakValueDictionary

import pyarrow as pa

from runnel.dag import FactoryCall

MOST_BYTES = 1 << 20
"""Maximum size in bytes of a table or batch."""

MOST_BITS = 14_000
"""Maximum size in bits of an integer; Python writes and reads no longer ones as text."""


class UnknownForm(ValueError):
    """A stored value has a form that this version doesn't know."""


Importer = Callable[[str], Any]
"""Returns the function or class with a reference; ImportError or AttributeError if there is
none."""


class Code(Protocol):
    """Modules that `sys.modules` doesn't have: the code of one job."""

    def import_name(self, reference: str) -> Any:
        """Return the function or class with a reference; an `Importer`."""


_CODES: WeakValueDictionary[str, Code] = WeakValueDictionary()


def register_code(package: str, code: Code) -> None:
    """Make the functions and classes of these modules known, as long as `code` exists.

    package: a name that no other code has. A module m calls itself `package.m`; it is stored as m.
    """
    _CODES[package] = code


def code_of(value: Any) -> Code | None:
    """Return the code that defines a function or class; None if Python's own modules do."""
    module = getattr(getattr(value, "func", value), "__module__", None)
    return _CODES.get(module.partition(".")[0]) if isinstance(module, str) else None


def imported(reference: str) -> Any:
    """The function or class with a reference, from Python's own modules. ImportError: there is no
    such module; AttributeError: the module has no such name."""
    module, _, name = reference.partition(":")
    return attrgetter(name)(import_module(module))


def encode(value: Any) -> Any:
    """A value as a JSON value: a plain one unchanged, others as {class: content}. TypeError for a
    value without a stored form; its text describes the value."""
    if type(value) in _PLAIN:
        if type(value) is int and value.bit_length() > MOST_BITS:
            raise TypeError(f"an integer of {value.bit_length():,} bits, more than {MOST_BITS:,}")
        return value
    try:
        call = getattr(value, "factory_call", None)
    except Exception:  # of the value's own __getattr__
        call = None
    if isinstance(call, FactoryCall):
        return {"call": _call_content(call.factory, call.args, call.kwargs)}
    for kind, (name, write, _) in _FORMS.items():
        if isinstance(value, kind):
            _check_class(value, kind)
            return {name: write(value)}
    if isinstance(value, _CALLABLES):
        return {"name": reference_of(value)}
    if is_dataclass(value):
        members = {
            item.name: encode(getattr(value, item.name)) for item in fields(value) if item.init
        }
        return {"record": [reference_of(type(value)), members]}
    raise TypeError(f"a value of class {type(value).__name__}")


def _check_class(value: Any, kind: type) -> None:
    """TypeError for an instance of a subclass, which would be decoded as one of `kind`: a
    namedtuple as a tuple, a defaultdict as a dict. The floats of numpy equal Python's."""
    of = type(value)
    if of is kind or kind in _WITH_SUBCLASSES or (kind is float and of.__module__ == "numpy"):
        return
    raise TypeError(
        f"a value of class {of.__name__}, which would be read as a {kind.__name__}: convert it "
        f"to a {kind.__name__}, or use a dataclass"
    )


def decode(value: Any, importer: Importer = imported) -> Any:
    """The value that `encode` converted to `value`. Raises what the importer raises, and
    UnknownForm."""
    if not isinstance(value, dict):
        return value
    ((name, content),) = value.items()
    read = _READERS.get(name)
    if read is None:
        raise UnknownForm(f'a value has the unknown form "{name}"')
    return read(content, importer)


def reference_of(value: Any) -> str:
    """The reference of a function or class; TypeError if no other process can import it."""
    owner = getattr(value, "__self__", None)
    if owner is not None and not isinstance(owner, type | ModuleType):
        raise TypeError(f"a method of a value of class {type(owner).__name__}")
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if "<lambda>" in name:
        raise TypeError("a lambda, which has no name to import it by")
    if "<locals>" in name:
        raise TypeError(f'"{name.rpartition(".")[2]}", which is defined inside a function')
    if module == "__main__":
        raise TypeError(f'"{name}" of the main program, which other processes cannot import')
    code = code_of(value)
    if code is not None:
        module = str(module).partition(".")[2]
    reference = f"{module}:{name}"
    try:
        found = imported(reference) if code is None else code.import_name(reference)
    except (ImportError, AttributeError):
        found = None
    is_bound = isinstance(value, MethodType | BuiltinFunctionType)
    if not (found == value if is_bound else found is value):
        raise TypeError(f'"{name}", which is not what module "{module}" has under this name')
    return reference


def _encode_all(values: Any) -> list[Any]:
    return [encode(item) for item in values]


def _of_text(read: Callable[[str], Any]) -> Callable[[Any, Importer], Any]:
    return lambda content, _: read(content)


def _of_items(read: Callable[[Any], Any]) -> Callable[[Any, Importer], Any]:
    return lambda content, importer: read(decode(item, importer) for item in content)


def _call_content(function: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    named = {name: encode(item) for name, item in kwargs.items()}
    return [encode(function), _encode_all(args), named]


def _call_of(content: Any, importer: Importer) -> partial[Any]:
    function, values, named = content
    return partial(
        decode(function, importer),
        *(decode(item, importer) for item in values),
        **{name: decode(item, importer) for name, item in named.items()},
    )


def _record_of(content: Any, importer: Importer) -> Any:
    kind, members = content
    return importer(kind)(**{name: decode(item, importer) for name, item in members.items()})


def _member_key(value: Enum) -> Any:
    """The name of a member; the value of a combination of flags, which has no name."""
    return value.name if value.name in type(value).__members__ else encode(value.value)


def _member_of(content: Any, importer: Importer) -> Any:
    kind, key = content
    return importer(kind)[key] if isinstance(key, str) else importer(kind)(decode(key, importer))


def _rows_text(value: pa.Table | pa.RecordBatch) -> str:
    if value.nbytes > MOST_BYTES:
        raise TypeError(
            f"Arrow data of {value.nbytes:,} bytes; a record has {MOST_BYTES:,} at most"
        )
    target = pa.BufferOutputStream()
    with pa.ipc.new_stream(target, value.schema) as writer:
        writer.write(value)
    return b64encode(target.getvalue()).decode()


def _table_of(text: str) -> pa.Table:
    return pa.ipc.open_stream(b64decode(text)).read_all()


def _batch_of(text: str) -> pa.RecordBatch:
    return pa.ipc.open_stream(b64decode(text)).read_next_batch()


def _schema_text(value: pa.Schema) -> str:
    return b64encode(value.serialize()).decode()


def _schema_of(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(b64decode(text)))


_FORMS: dict[Any, tuple[str, Callable[[Any], Any], Callable[[Any, Importer], Any]]] = {
    Enum: (
        "enum",
        lambda value: [reference_of(type(value)), _member_key(value)],
        _member_of,
    ),
    float: ("float", float.__repr__, _of_text(float)),
    bytes: ("bytes", lambda value: b64encode(value).decode(), _of_text(b64decode)),
    Decimal: ("decimal", str, _of_text(Decimal)),
    datetime: ("datetime", datetime.isoformat, _of_text(datetime.fromisoformat)),
    date: ("date", date.isoformat, _of_text(date.fromisoformat)),
    time: ("time", time.isoformat, _of_text(time.fromisoformat)),
    timedelta: (
        "interval",
        lambda value: value // timedelta(microseconds=1),
        lambda content, _: timedelta(microseconds=content),
    ),
    UUID: ("uuid", str, _of_text(UUID)),
    list: ("list", _encode_all, _of_items(list)),
    tuple: ("tuple", _encode_all, _of_items(tuple)),
    frozenset: ("set", _encode_all, _of_items(frozenset)),
    dict: (
        "dict",
        lambda value: [[encode(key), encode(item)] for key, item in value.items()],
        lambda content, importer: {
            decode(key, importer): decode(item, importer) for key, item in content
        },
    ),
    partial: (
        "partial",
        lambda value: _call_content(value.func, value.args, value.keywords),
        _call_of,
    ),
    pa.Table: ("table", _rows_text, _of_text(_table_of)),
    pa.RecordBatch: ("batch", _rows_text, _of_text(_batch_of)),
    pa.Schema: ("schema", _schema_text, _of_text(_schema_of)),
    pa.DataType: (
        "type",
        lambda value: _schema_text(pa.schema([pa.field("", value)])),
        lambda content, _: _schema_of(content).field(0).type,
    ),
}
"""Stored name, writer and reader, by class. A stored name may not be changed."""
_READERS = {
    **{name: read for name, _, read in _FORMS.values()},
    "call": lambda content, importer: _call_of(content, importer)(),
    "name": lambda content, importer: importer(content),
    "record": _record_of,
}
_WITH_SUBCLASSES = (Enum, pa.Table, pa.RecordBatch, pa.Schema, pa.DataType)
"""Classes whose forms contain the class of the value."""
_PLAIN = (type(None), bool, int, str)
_CALLABLES = (type, FunctionType, BuiltinFunctionType, MethodType)
