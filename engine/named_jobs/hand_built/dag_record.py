"""The stored form of a hand-built DAG: its vertices, with their suppliers as references and
arguments, and its edges."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from runnel.dag import DAG, Edge, Routing, Vertex
from runnel.errors import ErrorCode, OperationalError, ProgrammingError, exception_text
from runnel.processors.sinks.result_queue import ResultSink
from runnel.storage.value_codec import Importer, UnknownForm, decode, encode, imported

FORMAT = 2
"""The newest version of the stored form. A DAG without partition functions is written as version 1,
which has none."""

LONGEST = 200
"""Maximum length of an argument in the description of state; of a longer one its digest is used."""

MOST_TEXT = 1 << 21
"""Maximum length of the stored form of a supplier or a partition function, in characters."""

_HINT = (
    "a named job is started again in other processes: use a function or class of an importable "
    "module, with arguments by functools.partial, and dataclasses as suppliers; or submit the DAG "
    "without a guarantee, as a light job"
)

_NEWER = "a newer version of Runnel wrote it: open the directory with that version"


def dag_to_json(dag: DAG) -> dict[str, Any]:
    """The stored form of a DAG. ProgrammingError if it is invalid, if a supplier cannot be stored,
    or if it returns rows to its caller."""
    dag.validate()
    has_functions = any(edge.partitioner is not None for edge in dag.edges)
    return {
        "format": FORMAT if has_functions else 1,
        "vertices": [_vertex_to_json(vertex) for vertex in dag.vertices.values()],
        "edges": [_edge_to_json(edge) for edge in dag.edges],
    }


def dag_from_json(value: Mapping[str, Any], importer: Importer = imported) -> DAG:
    """The DAG that `dag_to_json` wrote. OperationalError, with the vertex, if a function or class
    cannot be imported, or refuses its arguments, or if a value has an unknown form."""
    if value["format"] not in range(1, FORMAT + 1):
        raise OperationalError(
            f"the job's DAG has format {value['format']}, not one from 1 to {FORMAT}",
            code=ErrorCode.GENERIC,
            hint=_NEWER,
        )
    dag = DAG()
    for item in value["vertices"]:
        name = item["name"]
        dag.vertex(name, _supplier_of(name, item["supplier"], importer), item["parallelism"])
    for item in value["edges"]:
        dag.edge(_edge_of(item, importer))
    return dag


_DESCRIPTION = "DAG: "


def described(value: Mapping[str, Any]) -> str:
    """A stored DAG in one line, for lists of jobs."""
    return _DESCRIPTION + ", ".join(str(item["name"]) for item in value["vertices"])


def is_description(query: str) -> bool:
    """Whether the query of a job is the description of a DAG. No SQL begins like it."""
    return query.startswith(_DESCRIPTION)


def state_texts(value: Mapping[str, Any]) -> dict[str, str]:
    """The text that identifies the state of each vertex: the reference of its supplier, and for
    suppliers of Runnel their arguments too, since these determine the form of the state."""
    return {item["name"]: f"DAG {_state_text(item['supplier'])}" for item in value["vertices"]}


def _vertex_to_json(vertex: Vertex) -> dict[str, Any]:
    if vertex.supplier is ResultSink:
        raise ProgrammingError(
            f'vertex "{vertex.name}" returns rows to the caller, which a named job does not have',
            hint="write them to a mapping, or submit the DAG without a guarantee, as a light job",
        )
    return {
        "name": vertex.name,
        "supplier": _encoded(vertex.supplier, f'the supplier of vertex "{vertex.name}"'),
        "parallelism": vertex.parallelism,
    }


def _encoded(value: Any, owner: str) -> Any:
    try:
        found = encode(value)
        length = len(json.dumps(found))
        if length <= MOST_TEXT:
            return found
        reason = f"its stored form has {length:,} characters, more than {MOST_TEXT:,}"
        hint = "write the data to a file or a mapping, and pass its name"
    except TypeError as error:
        reason, hint = f"it has {error}", _HINT
    except RecursionError:
        reason, hint = "it has a value that is nested too deeply, or contains itself", _HINT
    raise ProgrammingError(f"{owner} can't be stored with a named job", detail=reason, hint=hint)


def _supplier_of(vertex: str, value: Any, importer: Importer) -> Any:
    return _imported(value, f'the supplier of vertex "{vertex}"', importer)


def _imported(value: Any, owner: str, importer: Importer) -> Any:
    try:
        return decode(value, importer)
    except UnknownForm as error:
        raise OperationalError(
            f"{owner} can't be read", code=ErrorCode.GENERIC, detail=str(error), hint=_NEWER
        ) from error
    except (Exception, SystemExit) as error:
        raise OperationalError(
            f"{owner} can't be imported",
            code=ErrorCode.GENERIC,
            detail=exception_text(error),
            hint="make its module importable, as when the job was created, and resume the job",
        ) from error


def _edge_to_json(edge: Edge) -> dict[str, Any]:
    stored = {
        "source": edge.source,
        "target": edge.target,
        "source_ordinal": edge.source_ordinal,
        "target_ordinal": edge.target_ordinal,
        "routing": edge.routing.value,
        "keys": list(edge.keys),
        "priority": edge.priority,
        "queue_size": edge.queue_size,
        "watermarks": None if edge.watermarks is None else [list(item) for item in edge.watermarks],
    }
    if edge.partitioner is not None:
        owner = f'the partition function of the edge "{edge.source}" → "{edge.target}"'
        stored["partitioner"] = _encoded(edge.partitioner, owner)
    return stored


def _edge_of(value: Mapping[str, Any], importer: Importer) -> Edge:
    watermarks = value["watermarks"]
    return Edge(
        value["source"],
        value["target"],
        value["source_ordinal"],
        value["target_ordinal"],
        Routing(value["routing"]),
        tuple(value["keys"]),
        value["priority"],
        value["queue_size"],
        None if watermarks is None else tuple((old, new) for old, new in watermarks),
        _partitioner_of(value, importer),
    )


def _partitioner_of(edge: Mapping[str, Any], importer: Importer) -> Any:
    if "partitioner" not in edge:
        return None
    owner = f'the partition function of the edge "{edge["source"]}" → "{edge["target"]}"'
    return _imported(edge["partitioner"], owner, importer)


def _state_text(supplier: Any) -> str:
    reference = _reference(supplier)
    return _call_text(supplier) if reference.startswith("runnel.") else reference


def _reference(value: Any) -> str:
    """The reference of the function or class of an encoded supplier."""
    ((kind, content),) = value.items()
    if kind == "name":
        return str(content)
    return content[0] if isinstance(content[0], str) else _reference(content[0])


def _call_text(value: Any) -> str:
    """An encoded value as text that reads like Python."""
    if not isinstance(value, dict):
        return repr(value)
    ((kind, content),) = value.items()
    if kind in ("call", "partial"):
        arguments = [_call_text(item) for item in content[1]]
        arguments += [f"{name}={_call_text(item)}" for name, item in content[2].items()]
        return f"{_call_text(content[0])}({', '.join(arguments)})"
    text = content if isinstance(content, str) else json.dumps(content)
    if len(text) <= LONGEST:
        return text
    name = content[0] if kind == "record" else kind
    return f"{name}({sha256(text.encode()).hexdigest()[:16]})"
