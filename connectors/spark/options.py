"""The OPTIONS of a Spark mapping: the data that it reads, and the options passed to Spark.

A mapping reads one of three kinds of data: files or another data source ('format' and 'path', or
the options of that source), a table of Spark's catalog ('table'), or a query in Spark's own SQL
('query'). Options of Spark's file formats are known, so that a wrong one is reported; options of
other sources are passed unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import PurePosixPath

from runnel.base.frozen import frozen
from runnel.errors import ProgrammingError

_FILES = """
    basePath ignoreCorruptFiles ignoreMissingFiles maxFilesPerTrigger mergeSchema modifiedAfter
    modifiedBefore pathGlobFilter recursiveFileLookup compression
"""
_TEXT = """
    encoding charset lineSep locale mode columnNameOfCorruptRecord dateFormat timestampFormat
    timestampNTZFormat timeFormat timeZone samplingRatio enableDateTimeParsingFallback
"""
_CSV = """
    sep delimiter quote escape charToEscapeQuoteEscaping comment header inferSchema preferDate
    enforceSchema ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace nullValue emptyValue nanValue
    positiveInf negativeInf maxColumns maxCharsPerColumn multiLine escapeQuotes quoteAll
    unescapedQuoteHandling
"""
_JSON = """
    primitivesAsString prefersDecimal allowComments allowUnquotedFieldNames allowSingleQuotes
    allowNumericLeadingZeros allowBackslashEscapingAnyCharacter allowUnquotedControlChars
    allowNonNumericNumbers multiLine dropFieldIfAllNull ignoreNullFields
    writeNonAsciiCharacterAsCodePoint
"""
_PARQUET = (
    "datetimeRebaseMode int96RebaseMode parquet.block.size parquet.page.size "
    "parquet.enable.dictionary"
)

FILE_FORMATS: Mapping[str, tuple[str, ...]] = {
    "parquet": tuple(f"{_FILES} {_PARQUET}".split()),
    "orc": tuple(_FILES.split()),
    "csv": tuple(f"{_FILES} {_TEXT} {_CSV}".split()),
    "json": tuple(f"{_FILES} {_TEXT} {_JSON}".split()),
    "text": tuple(f"{_FILES} wholetext lineSep encoding".split()),
}
"""Spark's own file formats with the options of their readers and writers."""

_FLAGS = frozenset(
    """header inferschema multiline mergeschema enforceschema recursivefilelookup ignorecorruptfiles
    ignoremissingfiles ignoreleadingwhitespace ignoretrailingwhitespace quoteall escapequotes
    preferdate primitivesasstring prefersdecimal allowcomments allowunquotedfieldnames
    allowsinglequotes ignorenullfields dropfieldifallnull wholetext""".split()
)
"""Options that are true or false, in lower case."""
_MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
_SYNONYMS = {
    **dict.fromkeys(
        ("separator", "fieldSeparator", "delim", "fieldDelimiter", "columnDelimiter"), "sep"
    ),
    **dict.fromkeys(("hasHeader", "withHeader", "firstRowIsHeader"), "header"),
    "quoteChar": "quote",
    "escapeChar": "escape",
    "commentChar": "comment",
    "nullString": "nullValue",
}
"""Names that other programs have for options of Spark."""

PACKAGED = ("avro", "delta", "iceberg", "jdbc", "kafka", "xml")
"""Other common data sources; Spark has most of them in separate packages."""

VERSIONED = ("delta", "iceberg")
"""The sources whose table versions a writer can mark."""

PARSED = ("csv", "json")
"""The formats whose values are text, which may be malformed."""

_FORMAT_OF_SUFFIX = {
    ".parquet": "parquet",
    ".orc": "orc",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".txt": "text",
}


@frozen
class SparkOptions:
    """The options of a Spark mapping. Exactly one of `table`, `query` and `format` is set.

    format: the format of files, or another data source.
    path: the path of files or of a data source.
    table: a table of Spark's catalog.
    query: a query in Spark's own SQL.
    passed: the options that are passed to Spark.
    follow: whether the data are read as a stream: existing rows, then new ones.
    """

    format: str | None
    path: str | None
    table: str | None
    query: str | None
    passed: Mapping[str, str]
    follow: bool = False

    @property
    def is_file_format(self) -> bool:
        """Whether rows are in files of a format that Runnel can stage."""
        return self.format in FILE_FORMATS and self.path is not None

    @property
    def records_numbers(self) -> bool:
        """Whether the table's versions can record commits, and it has a folder for staged rows."""
        return (self.format or "").lower() in VERSIONED and "/" in (self.path or "")


def read_options(options_by_name: Mapping[str, str], external_name: str | None) -> SparkOptions:
    """Checks the options of a statement.

    ProgrammingError names an option that is unknown, empty, or contradicts another.
    """
    follow = [name for name in options_by_name if name.lower() == "follow"]
    found = _read(
        {name: value for name, value in options_by_name.items() if name not in follow},
        external_name,
    )
    if not follow:
        return found
    text = options_by_name[follow[0]].lower()
    if len(follow) > 1 or text not in ("true", "false"):
        raise ProgrammingError(
            f'option "follow" of connector Spark can\'t be "{options_by_name[follow[0]]}"',
            hint="set it once, to true or false",
        )
    if found.query is not None and text == "true":
        raise ProgrammingError(
            'a Spark mapping on a query can\'t be followed: leave out the option "follow"',
            hint=(
                "follow files, a data source or a table, and put the query into the statement that "
                "reads the mapping"
            ),
        )
    return replace(found, follow=text == "true")


def _read(options_by_name: Mapping[str, str], external_name: str | None) -> SparkOptions:
    options: dict[str, str] = {}
    for name, value in options_by_name.items():
        key = next(
            (own for own in ("format", "path", "table", "query") if own == name.lower()), name
        )
        if key.lower() in (other.lower() for other in options):
            raise ProgrammingError(f'option "{key}" of connector Spark is given twice')
        if not value and key != name:
            raise ProgrammingError(f'option "{key}" of connector Spark is empty')
        options[key] = value
    if external_name is not None:
        if "table" in options:
            raise ProgrammingError(
                'a Spark mapping has both an external name and the option "table"',
                hint="leave one out",
            )
        options["table"] = external_name
    for own in ("format", "path", "table", "query"):
        if options.get(own) == "":
            raise ProgrammingError(f'option "{own}" of connector Spark is empty')
    if options.get("format", "").lower() not in ("", *FILE_FORMATS):
        # Another data source: all other options are passed to it (jdbc has an option "query" of its
        # own).
        return _source(options)
    return _of_files(options) if "format" in options or "path" in options else _of_name(options)


def _source(options: dict[str, str]) -> SparkOptions:
    source = options.pop("format")
    return SparkOptions(source, options.pop("path", None), None, None, options)


def _of_files(options: dict[str, str]) -> SparkOptions:
    for other in ("table", "query"):
        if other in options:
            first = "format" if "format" in options else "path"
            raise ProgrammingError(
                f'options "{first}" and "{other}" of connector Spark contradict each other',
                hint=(
                    "give 'format' and 'path' for files, 'table' for a table of Spark's catalog, "
                    "or 'query' for a query"
                ),
            )
    path = options.pop("path", None)
    if path is None:
        raise ProgrammingError(
            'option "path" of connector Spark is missing',
            hint="add OPTIONS ('path' = '…'), a file or folder that Spark can reach",
        )
    name = options.pop("format", "").lower() or _FORMAT_OF_SUFFIX.get(
        PurePosixPath(path.rstrip("/")).suffix.lower(), ""
    )
    if not name:
        raise ProgrammingError(
            'option "format" of connector Spark is missing, '
            f'and the path "{path}" does not imply it',
            hint="add OPTIONS ('format' = '…'): "
            + ", ".join(FILE_FORMATS)
            + ", or a source that Spark has a package for",
        )
    _check_passed(name, options)
    return SparkOptions(name, path, None, None, options)


def _check_passed(name: str, options: Mapping[str, str]) -> None:
    """Checks options of a file format: they must be known, and flags must be true or false."""
    known = {option.lower(): option for option in FILE_FORMATS[name]}
    for option, value in options.items():
        if option.lower() not in known:
            raise ProgrammingError(
                f'unknown option "{option}" of Spark\'s format {name}', hint=_meant(option, known)
            )
        allowed = _allowed(option.lower(), value)
        if allowed is not None:
            raise ProgrammingError(
                f'option "{option}" of Spark\'s format {name} can\'t be "{value}"',
                hint=f"it accepts {allowed}",
            )


def _allowed(option: str, value: str) -> str | None:
    """The allowed values of an option if `value` is not one of them; else None.

    Spark would silently use another value, or fail when it reads a file.
    """
    if option in _FLAGS and value.lower() not in ("true", "false"):
        return "true or false"
    if option == "mode" and value.upper() not in _MODES:
        return ", ".join(_MODES)
    if option in ("sep", "delimiter") and value in ("", "\\"):
        return "one character or several, of which a tab is '\\t' and a backslash '\\\\'"
    return None


def _meant(option: str, known: dict[str, str]) -> str:
    """The hint for an unknown option: the option with a similar name, or with that meaning."""
    names = {
        said.lower(): name for said, name in _SYNONYMS.items() if name.lower() in known
    } | known
    near = get_close_matches(option.replace("_", "").lower(), names, n=1, cutoff=0.6)
    return (
        f'did you mean "{names[near[0]]}"?'
        if near
        else f"Spark's reader and writer have {', '.join(known.values())}"
    )


def _of_name(options: dict[str, str]) -> SparkOptions:
    table, query = options.pop("table", None), options.pop("query", None)
    if table is not None and query is not None:
        raise ProgrammingError(
            'options "table" and "query" of connector Spark contradict each other',
            hint="leave one out",
        )
    if table is None and query is None:
        raise ProgrammingError(
            "a Spark mapping needs a format and path, a table or a query",
            hint=(
                "add OPTIONS ('format' = 'parquet', 'path' = '…'), "
                "('table' = '…') or ('query' = '…')"
            ),
        )
    if options:
        kind = "table" if table is not None else "query"
        raise ProgrammingError(
            f'option "{next(iter(options))}" of connector Spark is not for a mapping on a {kind}',
            hint="options of a reader go with 'format' and 'path'",
        )
    return SparkOptions(None, None, table, query, {})
