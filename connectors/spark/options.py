"""The OPTIONS of a Spark mapping: what it reads, and what goes on to Spark's reader and writer as
it is.

A mapping reads one of three things: files or another data source ('format' and 'path', or what that
source wants), a table of Spark's catalog ('table'), or a query in Spark's own SQL ('query').
Options of Spark's file formats are known by name, so that a wrong one is named; those of other
sources are Spark's business.
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
"""Spark's own file formats with the options that their readers and writers know."""

_FLAGS = frozenset(
    """header inferschema multiline mergeschema enforceschema recursivefilelookup ignorecorruptfiles
    ignoremissingfiles ignoreleadingwhitespace ignoretrailingwhitespace quoteall escapequotes
    preferdate primitivesasstring prefersdecimal allowcomments allowunquotedfieldnames
    allowsinglequotes ignorenullfields dropfieldifallnull wholetext""".split()
)
"""Options that are true or false, in small letters."""
_MODES = ("FAILFAST", "PERMISSIVE", "DROPMALFORMED")
_OTHERS_SAY = {
    **dict.fromkeys(
        ("separator", "fieldSeparator", "delim", "fieldDelimiter", "columnDelimiter"), "sep"
    ),
    **dict.fromkeys(("hasHeader", "withHeader", "firstRowIsHeader"), "header"),
    "quoteChar": "quote",
    "escapeChar": "escape",
    "commentChar": "comment",
    "nullString": "nullValue",
}
"""What other programs call options of Spark's."""

PACKAGED = ("avro", "delta", "iceberg", "jdbc", "kafka", "xml")
"""Other data sources that many have; Spark has most of them in packages of their own."""

VERSIONED = ("delta", "iceberg")
"""The sources whose tables have versions that a writer can mark."""

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
    """Exactly one of `table`, `query` and `format` is set. `passed` goes on to Spark as it is.
    `follow`: what is read is a stream: what is there, and then what comes."""

    format: str | None
    path: str | None
    table: str | None
    query: str | None
    passed: Mapping[str, str]
    follow: bool = False

    @property
    def is_file_format(self) -> bool:
        """Whether rows are in files of a format whose staging we know."""
        return self.format in FILE_FORMATS and self.path is not None

    @property
    def records_numbers(self) -> bool:
        """Whether the table's versions can record what was committed, and it has a folder for rows
        that wait for that."""
        return (self.format or "").lower() in VERSIONED and "/" in (self.path or "")


def read_options(given: Mapping[str, str], external_name: str | None) -> SparkOptions:
    """Checks the options of a statement; ProgrammingError names one that is unknown, empty or
    contradicts another."""
    follow = [name for name in given if name.lower() == "follow"]
    found = _read(
        {name: value for name, value in given.items() if name not in follow}, external_name
    )
    if not follow:
        return found
    text = given[follow[0]].lower()
    if len(follow) > 1 or text not in ("true", "false"):
        raise ProgrammingError(
            f'option "follow" of connector Spark can\'t be "{given[follow[0]]}"',
            hint="it is given once, and takes true or false",
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


def _read(given: Mapping[str, str], external_name: str | None) -> SparkOptions:
    options: dict[str, str] = {}
    for name, value in given.items():
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
        # Another data source: all else is its business (jdbc has a "query" of its own).
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
            f'and the path "{path}" doesn\'t tell it',
            hint="add OPTIONS ('format' = '…'): "
            + ", ".join(FILE_FORMATS)
            + ", or a source that Spark has a package for",
        )
    _check_passed(name, options)
    return SparkOptions(name, path, None, None, options)


def _check_passed(name: str, options: Mapping[str, str]) -> None:
    """Options of a file format must be known to it, and true or false where they are nothing
    else."""
    known = {option.lower(): option for option in FILE_FORMATS[name]}
    for option, value in options.items():
        if option.lower() not in known:
            raise ProgrammingError(
                f'unknown option "{option}" of Spark\'s format {name}', hint=_meant(option, known)
            )
        takes = _takes(option.lower(), value)
        if takes is not None:
            raise ProgrammingError(
                f'option "{option}" of Spark\'s format {name} can\'t be "{value}"',
                hint=f"it takes {takes}",
            )


def _takes(option: str, value: str) -> str | None:
    """What an option takes, where this value is none of that. Spark would take another in silence,
    or fail over a file."""
    if option in _FLAGS and value.lower() not in ("true", "false"):
        return "true or false"
    if option == "mode" and value.upper() not in _MODES:
        return ", ".join(_MODES)
    if option in ("sep", "delimiter") and value in ("", "\\"):
        return "one character or several, of which a tab is '\\t' and a backslash '\\\\'"
    return None


def _meant(option: str, known: dict[str, str]) -> str:
    """What to do about an option that isn't known: the one whose name is near, or is another for
    it."""
    names = {
        said.lower(): name for said, name in _OTHERS_SAY.items() if name.lower() in known
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
            "a Spark mapping doesn't say what it reads",
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
