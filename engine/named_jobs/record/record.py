"""The durable record of a named job, and its form on disk: JSON values only, arguments with their
types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from runnel.base.error_records import CLASSES, CODES, class_name, code_name
from runnel.base.frozen import frozen
from runnel.connector import Token
from runnel.errors import Error, OperationalError
from runnel.foreign.job_runtime import TASKLETS
from runnel.named_jobs.record.options import NamedJobOptions
from runnel.named_jobs.record.stored_metrics import metrics_from_json
from runnel.runtime.light_job import JobStatus
from runnel.storage.value_codec import decode, encode

FORMAT = 2
"""The version of the record's format. Version 1 had no checksum."""
DAG_FORMAT = 3
"""The version of the format of a record with a DAG. A version of Runnel without such jobs refuses
it, instead of running its query."""
PATH_FORMAT = 4
"""The version of the format of a record with a path. A version of Runnel without it refuses the
record, instead of reading tables of the schema public."""
FORMATS = (FORMAT, DAG_FORMAT, PATH_FORMAT)
"""The versions that have a checksum."""


@frozen
class RecordedError:
    """An error as a record stores it.

    kind: stored name of its class (`error_records`).
    code: stored name of its code (`error_records`).
    message, detail, hint: its texts.
    """

    kind: str
    code: str
    message: str
    detail: str | None = None
    hint: str | None = None

    @staticmethod
    def of(error: Error) -> RecordedError:
        """The stored form of an error."""
        return RecordedError(
            class_name(error), code_name(error.code), error.message, error.detail, error.hint
        )

    def error(self) -> Error:
        """An error with the same class, code and texts."""
        kind = CLASSES.get(self.kind, OperationalError)
        return kind(self.message, code=CODES.get(self.code), detail=self.detail, hint=self.hint)

    def to_json(self) -> dict[str, Any]:
        """JSON values by stored name."""
        return {
            "kind": self.kind,
            "code": self.code,
            "message": self.message,
            "detail": self.detail,
            "hint": self.hint,
        }

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> RecordedError:
        """The failure that `to_json` wrote."""
        return RecordedError(
            value["kind"], value["code"], value["message"], value.get("detail"), value.get("hint")
        )

    def __str__(self) -> str:
        return self.message if self.detail is None else f"{self.message} ({self.detail})"


@frozen(kw_only=True)
class JobRecord:
    """The durable record of a named job. Times are in µs since the epoch (UTC).

    id: number that is unique among all jobs.
    name: name of the job.
    query: the INSERT or SINK that it runs.
    text: the statement that created it.
    options: its options.
    created: when it was created.
    zone: time zone of the connection when it was created.
    arguments: values of the query's parameters.
    status: its status.
    started: when its current or last execution began; None: it never ran.
    finished: when it ended; None: it has not.
    restarts: number of restarts after failures, by users, and by processes that opened the
        directory.
    last_error: the last error, also of a job that was restarted after it.
    is_user_cancelled: a user ended it.
    is_unbounded: its query reads a source without an end.
    is_resumable: the last snapshot was taken when the job was stopped, so it is used even without
        a processing guarantee.
    resumes: it is suspended for a change, and resumes even if the change fails.
    may_drop_state: the state that it starts with may belong to another query.
    guarantee: the job's guarantee from end to end.
    signatures: state signatures by vertex of its plan.
    modules: sources of Python modules, by name.
    beginnings: first position that was read of sources that may begin anywhere, by vertex and
        partition.
    runtime: engine that runs it; never changes.
    is_confined: the files that its query names are opened within bounds; never changes.
    rows_in, rows_out, late_rows: of the execution that ended last.
    late_in_all: late rows of all executions that have ended.
    last_batch: for a job that another engine runs, the number of the last batch and when it was
        committed, as known when its last execution ended.
    metrics: stored form of the metrics of the execution that ended last (`stored_metrics.py`).
    snapshot: number of the last snapshot that was completed and recorded.
    dag: stored form of a hand-built DAG (`hand_built/dag_record.py`), which the job runs; `query`
        then only describes it. None: the job runs its query.
    path: keys of the schemas in which unqualified names of its query are looked up; (): public.
    """

    id: int
    name: str
    query: str
    text: str
    options: NamedJobOptions
    created: int
    zone: str = "UTC"
    arguments: tuple[Any, ...] = ()
    status: JobStatus = JobStatus.NOT_RUNNING
    started: int | None = None
    finished: int | None = None
    restarts: int = 0
    last_error: RecordedError | None = None
    is_user_cancelled: bool = False
    is_unbounded: bool = False
    is_resumable: bool = False
    resumes: bool = False
    may_drop_state: bool = False
    guarantee: str = ""
    signatures: Mapping[str, str] = field(default_factory=dict)
    modules: Mapping[str, str] = field(default_factory=dict)
    beginnings: Mapping[str, Mapping[str, Token]] = field(default_factory=dict)
    runtime: str = TASKLETS
    is_confined: bool = False
    rows_in: int = 0
    rows_out: int = 0
    late_rows: int = 0
    late_in_all: int = 0
    last_batch: Sequence[int] = ()
    snapshot: int | None = None
    metrics: Sequence[Mapping[str, Any]] = ()
    dag: Mapping[str, Any] | None = None
    path: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """JSON values by stored name."""
        value = {name: getattr(self, attribute) for name, attribute in _ATTRIBUTES.items()}
        if self.dag is None:
            del value["dag"]
        if not self.metrics:
            del value["metrics"]
        if not self.path:
            del value["path"]
        error = self.last_error
        return {
            "format": self._format,
            **value,
            "options": self.options.to_json(),
            "meanings": dict(self.signatures),
            "modules": dict(self.modules),
            "beginnings": {vertex: dict(items) for vertex, items in self.beginnings.items()},
            "arguments": [encode(item) for item in self.arguments],
            "status": self.status.value,
            "last_error": None if error is None else error.to_json(),
        }

    @property
    def _format(self) -> int:
        if self.path:
            return PATH_FORMAT
        return FORMAT if self.dag is None else DAG_FORMAT

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> JobRecord:
        """The record that `to_json` wrote; ValueError, KeyError or TypeError if `value` is not
        one."""
        if value["format"] not in (1, *FORMATS):
            raise ValueError(f"its format is {value['format']}, not {PATH_FORMAT}")
        error = value["last_error"]
        metrics_from_json(value.get("metrics", ()))
        converted = {
            **value,
            "options": NamedJobOptions.from_json(value["options"]),
            "arguments": tuple(decode(item) for item in value["arguments"]),
            "status": JobStatus(value["status"]),
            "last_error": None if error is None else RecordedError.from_json(error),
            "last_batch": tuple(value.get("last_batch", ())),
            "path": tuple(value.get("path", ())),
        }
        return JobRecord(
            **{
                attribute: converted[name]
                for name, attribute in _ATTRIBUTES.items()
                if name in converted
            }
        )


_ATTRIBUTES = {
    "id": "id",
    "name": "name",
    "query": "query",
    "text": "text",
    "options": "options",
    "created": "created",
    "zone": "zone",
    "arguments": "arguments",
    "status": "status",
    "started": "started",
    "finished": "finished",
    "restarts": "restarts",
    "last_error": "last_error",
    "is_user_cancelled": "is_user_cancelled",
    "is_unbounded": "is_unbounded",
    "is_resumable": "is_resumable",
    "resumes": "resumes",
    "may_drop_state": "may_drop_state",
    "promise": "guarantee",
    "meanings": "signatures",
    "modules": "modules",
    "beginnings": "beginnings",
    "runtime": "runtime",
    "is_confined": "is_confined",
    "rows_in": "rows_in",
    "rows_out": "rows_out",
    "late_rows": "late_rows",
    "late_in_all": "late_in_all",
    "last_batch": "last_batch",
    "snapshot": "snapshot",
    "metrics": "metrics",
    "dag": "dag",
    "path": "path",
}
"""The attributes of a record by stored name, in the order in which they are written. An attribute
may be renamed, a stored name may not."""
