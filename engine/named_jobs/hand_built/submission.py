"""The submission of a hand-built DAG as a named job, and its update."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from runnel.dag import DAG
from runnel.errors import InterfaceError, NotSupportedError, ProgrammingError, suggest
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.hand_built.dag_record import dag_to_json, described
from runnel.named_jobs.record.options import (
    AUTO,
    NamedJobOptions,
    OptionValue,
    changed_options,
    read_options,
)
from runnel.named_jobs.record.record import JobRecord
from runnel.named_jobs.record.states import ENDED, check_allowed
from runnel.named_jobs.replacement import ChangeableJob, replace_work
from runnel.processor import Guarantee


def dag_record(
    dag: DAG, name: str, guarantee: object, options: Mapping[str, object], created: int, zone: str
) -> JobRecord:
    """The record of a new job that runs a DAG. ProgrammingError if a supplier or an argument of one
    cannot be stored.

    guarantee: a Guarantee, or its name.
    options: options of CREATE JOB by name; a value is text, a number or a boolean.
    created: wall time in µs since the epoch (UTC).
    zone: time zone of the connection.
    """
    if not name:
        raise ProgrammingError(
            "a job with a guarantee has a name", hint='give it one: submit(dag, name="…", …)'
        )
    read = replace(read_options(_texts(options)), guarantee=_guarantee(guarantee))
    _check_options(read)
    content = dag_to_json(dag)
    query = described(content)
    return JobRecord(
        id=0,
        name=name,
        query=query,
        text=query,
        options=read,
        created=created,
        zone=zone,
        runtime=TASKLETS,
        dag=content,
    )


def update_dag(
    job: ChangeableJob, dag: DAG, options: Mapping[str, object], timeout: float | None
) -> None:
    """Replaces the DAG of a job, which keeps its state by the names of the vertices. A running job
    is suspended, and resumed; if that fails, it continues with its old DAG, and the error is
    raised."""
    record = job.record
    if not isinstance(dag, DAG):
        raise InterfaceError(
            f"a DAG can't be a value of class {type(dag).__name__}",
            hint="pass a runnel.dag.DAG",
        )
    if record.dag is None:
        raise NotSupportedError(
            f'job "{record.name}" runs a query, not a DAG',
            hint=f"ALTER JOB {record.name} AS … gives it another query",
        )
    check_allowed("suspended" if job.status in ENDED else "resumed", record.name, job.status)
    read = changed_options(record.options, _texts(options))
    _check_options(read)
    content = dag_to_json(dag)
    query = described(content)
    replace_work(job, {"dag": content, "query": query, "text": query, "options": read}, timeout)


def _texts(options: Mapping[str, object]) -> Iterable[OptionValue]:
    if not isinstance(options, Mapping):
        raise InterfaceError(
            f"options can't be a value of class {type(options).__name__}",
            hint='pass a mapping such as {"snapshotIntervalMillis": 1000}',
        )
    for name, value in options.items():
        if not isinstance(name, str) or not isinstance(value, str | int):
            raise InterfaceError(
                f"option {name!r} can't be {value!r}",
                hint="options are named as in CREATE JOB; values are texts, integers and booleans",
            )
        yield name, str(value).lower() if isinstance(value, bool) else str(value), None


def _guarantee(value: object) -> Guarantee:
    if isinstance(value, Guarantee):
        return value
    names = {item.value.lower(): item for item in Guarantee}
    found = names.get(value.lower()) if isinstance(value, str) else None
    if found is None:
        known = [item.value for item in Guarantee]
        raise ProgrammingError(
            f"a guarantee can't be {value!r}",
            hint=suggest(str(value), known, f"it is one of {', '.join(known)}"),
        )
    return found


def _check_options(options: NamedJobOptions) -> None:
    if options.runtime not in (AUTO, TASKLETS):
        raise NotSupportedError(
            f"a hand-built DAG can't run on {options.runtime}", hint="leave 'runtime' out"
        )
