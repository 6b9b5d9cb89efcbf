"""The functions that stand for others: names of DuckDB, PostgreSQL and Flink for functions that
exist here under another name, and short compositions of such functions.

A line is `NAME = OTHER`, another name of the same function with the same arguments, or
`NAME(x, y) = expression`; a line that begins with two blanks continues the line before it. A name
may have several lines with different numbers of parameters. Where the products differ in the
meaning of a name, the line has DuckDB's. TO_UNITS is the function for the argument `unit`: TO_DAYS
for 'day'.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

OVERLOADED = {
    **dict.fromkeys(("MAX", "MIN", "FLOOR", "CEIL", "CEILING", "ARRAY_SLICE"), 2),
    **dict.fromkeys(("ARG_MAX", "ARG_MIN", "MAX_BY", "MIN_BY"), 3),
}
"""Names of functions that are macros only if called with this number of arguments."""

TEXT = """
# string
INSTR = STRPOS
STRLEN = OCTET_LENGTH
LCASE = LOWER
UCASE = UPPER
LEN = LENGTH
PREFIX = STARTS_WITH
SUFFIX = ENDS_WITH
STARTSWITH = STARTS_WITH
ENDSWITH = ENDS_WITH
LOCATE(part, s) = STRPOS(s, part)
LOCATE(part, s, start) =
  CASE WHEN STRPOS(SUBSTRING(s, start), part) = 0 THEN 0
  ELSE STRPOS(SUBSTRING(s, start), part) + start - 1 END
REGEXP(s, pattern) = s ~ pattern
ELT = CASE
SPLIT_INDEX(s, separator, index) = STRING_SPLIT(s, separator)[index + 1]
STR_TO_MAP(s) = STR_TO_MAP(s, ',', '=')
STR_TO_MAP(s, pairs, separator) =
  MAP_FROM_ENTRIES([ROW(SPLIT_PART(pair, separator, 1),
  SUBSTRING(pair, NULLIF(STRPOS(pair, separator), 0) + LENGTH(separator)))
  FOR pair IN STRING_SPLIT(s, pairs)])
IS_ALPHA(s) = COALESCE(s ~ '^[[:alpha:]]+$', FALSE)
IS_DIGIT(s) = COALESCE(s ~ '^[0-9]+$', FALSE)
IS_DECIMAL(s) = TRY_CAST(s AS DOUBLE) IS NOT NULL
SHA2(s, bits) =
  CASE bits WHEN 224 THEN SHA224(s) WHEN 256 THEN SHA256(s) WHEN 384 THEN SHA384(s)
  WHEN 512 THEN SHA512(s) END
BIN = TO_BIN
TO_BINARY = TO_BIN
STR_SPLIT = STRING_SPLIT
SPLIT = STRING_SPLIT
STRING_SPLIT_REGEX = REGEXP_SPLIT_TO_ARRAY
STR_SPLIT_REGEX = REGEXP_SPLIT_TO_ARRAY
MISMATCHES = HAMMING
FORMATREADABLESIZE = FORMAT_BYTES
NFC_NORMALIZE(s) = NORMALIZE(s, 'NFC')
STRING_TO_TABLE(s, separator) = UNNEST(STRING_TO_ARRAY(s, separator))
STRING_TO_TABLE(s, separator, null_text) = UNNEST(STRING_TO_ARRAY(s, separator, null_text))
REGEXP_SPLIT_TO_TABLE(s, pattern) = UNNEST(REGEXP_SPLIT_TO_ARRAY(s, pattern))
REGEXP_SPLIT_TO_TABLE(s, pattern, flags) = UNNEST(REGEXP_SPLIT_TO_ARRAY(s, pattern, flags))

# math
MULTIPLY(x, y) = x * y
ADD(x, y) = x + y
SUBTRACT(x, y) = x - y
DIVIDE(x, y) = DIV(x, y)
FDIV(x, y) = FLOOR(CAST(x AS DOUBLE) / y)
FMOD(x, y) = x - y * FLOOR(CAST(x AS DOUBLE) / y)
EVEN(x) = SIGN(x) * CEIL(ABS(CAST(x AS DOUBLE)) / 2) * 2
ROUNDBANKERS = ROUND_EVEN
E() = EXP(1.0)
RAND_INTEGER(bound) = CAST(FLOOR(RANDOM() * bound) AS INTEGER)
RAND_INTEGER(seed, bound) = CAST(FLOOR(RANDOM(seed) * bound) AS INTEGER)

# date-time
DATEPART = DATE_PART
DATETRUNC = DATE_TRUNC
DATESUB = DATE_SUB
EPOCH(x) = CAST(EXTRACT('epoch', x) AS DOUBLE)
EPOCH_NS(x) = EPOCH_US(x) * 1000
DATE_ADD(x, amount) = x + amount
DATE_SUBTRACT(x, amount) = x - amount
DATE_SUB(x, amount) = x - amount
DATE_SUB(unit, start, stop) = COMPLETE_UNITS(unit, start, stop)
DAYS_IN_MONTH(x) = EXTRACT('day', LAST_DAY(x))
YEARWEEK(x) = ISOYEAR(x) * 100 + WEEK(x)
JULIAN(x) = EXTRACT('julian', x)
MICROSECOND(x) = EXTRACT('microseconds', x)
MILLISECOND(x) = CAST(FLOOR(EXTRACT('milliseconds', x)) AS BIGINT)
NANOSECOND(x) = EXTRACT('microseconds', x) * 1000
TO_CENTURIES(count) = TO_YEARS(count * 100)
TO_MILLENNIA(count) = TO_YEARS(count * 1000)
GET_CURRENT_TIMESTAMP = NOW
GET_CURRENT_TIME = CURRENT_TIME
CURRENT_LOCALTIMESTAMP = LOCALTIMESTAMP
CURRENT_LOCALTIME = LOCALTIME
AGO(amount) = NOW() - amount
FLOOR(x, unit) = DATE_TRUNC(unit, x)
CEIL(x, unit) =
  CASE WHEN DATE_TRUNC(unit, x) = x THEN DATE_TRUNC(unit, x)
  ELSE DATE_TRUNC(unit, x) + TO_UNITS(1) END
CEILING = CEIL
TIMESTAMPADD(unit, count, x) = x + TO_UNITS(count)
TIMESTAMPDIFF(unit, start, stop) = COMPLETE_UNITS(unit, start, stop)
CONVERT_TZ(x, zone, other) =
  DATE_FORMAT(CAST(x AS TIMESTAMP) AT TIME ZONE zone AT TIME ZONE other, 'yyyy-MM-dd HH:mm:ss')

# array
LIST_VALUE = [
LIST_PACK = [
ARRAY_VALUE = [
LIST_EXTRACT(x, index) = x[index]
LIST_ELEMENT(x, index) = x[index]
ARRAY_EXTRACT(x, index) = x[index]
LIST_FIRST(x) = x[1]
LIST_LAST(x) = x[-1]
LIST_UNIQUE(x) = LENGTH(ARRAY_REMOVE(ARRAY_DISTINCT(x), NULL))
ARRAY_UNIQUE = LIST_UNIQUE
LIST_COUNT(x) = LENGTH(ARRAY_REMOVE(x, NULL))
ARRAY_PUSH_BACK = ARRAY_APPEND
ARRAY_PUSH_FRONT(x, item) = ARRAY_PREPEND(item, x)
ARRAY_POP_BACK(x) = ARRAY_SLICE(x, 1, LENGTH(x) - 1)
ARRAY_POP_FRONT(x) = ARRAY_SLICE(x, 2, LENGTH(x))
ARRAY_SLICE(x, first) = ARRAY_SLICE(x, first, LENGTH(x))
TRIM_ARRAY(x, count) = ARRAY_SLICE(x, 1, LENGTH(x) - count)
ARRAY_UPPER(x, dimension) = ARRAY_LENGTH(x, dimension)
ARRAY_SUBSCRIPTS(x, dimension) = ARRAY_SERIES(1, ARRAY_LENGTH(x, dimension))
GENERATE_SUBSCRIPTS(x, dimension) = UNNEST(ARRAY_SUBSCRIPTS(x, dimension))
ARRAY_LOWER(x, dimension) = CASE WHEN ARRAY_LENGTH(x, dimension) > 0 THEN 1 END
LIST_ANY_VALUE(x) = (SELECT ANY_VALUE(u.v) FROM UNNEST(x) AS u(v))
LIST_MEDIAN(x) = (SELECT MEDIAN(u.v) FROM UNNEST(x) AS u(v))
LIST_MODE(x) = (SELECT MODE(u.v) FROM UNNEST(x) AS u(v))
LIST_PRODUCT(x) = (SELECT PRODUCT(u.v) FROM UNNEST(x) AS u(v))
LIST_BOOL_AND(x) = (SELECT BOOL_AND(u.v) FROM UNNEST(x) AS u(v))
LIST_BOOL_OR(x) = (SELECT BOOL_OR(u.v) FROM UNNEST(x) AS u(v))
LIST_BIT_AND(x) = (SELECT BIT_AND(u.v) FROM UNNEST(x) AS u(v))
LIST_BIT_OR(x) = (SELECT BIT_OR(u.v) FROM UNNEST(x) AS u(v))
LIST_BIT_XOR(x) = (SELECT BIT_XOR(u.v) FROM UNNEST(x) AS u(v))
LIST_STDDEV_POP(x) = (SELECT STDDEV_POP(u.v) FROM UNNEST(x) AS u(v))
LIST_STDDEV_SAMP(x) = (SELECT STDDEV_SAMP(u.v) FROM UNNEST(x) AS u(v))
LIST_VAR_POP(x) = (SELECT VAR_POP(u.v) FROM UNNEST(x) AS u(v))
LIST_VAR_SAMP(x) = (SELECT VAR_SAMP(u.v) FROM UNNEST(x) AS u(v))
LIST_SKEWNESS(x) = (SELECT SKEWNESS(u.v) FROM UNNEST(x) AS u(v))
LIST_KURTOSIS(x) = (SELECT KURTOSIS(u.v) FROM UNNEST(x) AS u(v))
LIST_KURTOSIS_POP(x) = (SELECT KURTOSIS_POP(u.v) FROM UNNEST(x) AS u(v))
LIST_SEM(x) = (SELECT SEM(u.v) FROM UNNEST(x) AS u(v))
LIST_APPROX_COUNT_DISTINCT(x) = (SELECT APPROX_COUNT_DISTINCT(u.v) FROM UNNEST(x) AS u(v))
LIST_STRING_AGG(x) = (SELECT STRING_AGG(u.v, ',') FROM UNNEST(x) AS u(v))
LIST_AGGREGATE(x, name) = (SELECT AGGREGATE(u.v) FROM UNNEST(x) AS u(v))
LIST_AGGREGATE(x, name, y) = (SELECT AGGREGATE(u.v, y) FROM UNNEST(x) AS u(v))
LIST_AGGR = LIST_AGGREGATE
ARRAY_AGGREGATE = LIST_AGGREGATE
ARRAY_AGGR = LIST_AGGREGATE
AGGREGATE = LIST_AGGREGATE
GRADE_UP = LIST_GRADE_UP
ARRAY_GRADE_UP = LIST_GRADE_UP
ARRAY_WHERE = LIST_WHERE
ARRAY_SELECT = LIST_SELECT
ARRAY_RESIZE = LIST_RESIZE
LIST_DOT_PRODUCT = LIST_INNER_PRODUCT
ARRAY_DOT_PRODUCT = LIST_INNER_PRODUCT
ARRAY_INNER_PRODUCT = LIST_INNER_PRODUCT
ARRAY_DISTANCE = LIST_DISTANCE
ARRAY_COSINE_SIMILARITY = LIST_COSINE_SIMILARITY
LIST_COSINE_DISTANCE(x, y) = 1 - LIST_COSINE_SIMILARITY(x, y)
ARRAY_COSINE_DISTANCE = LIST_COSINE_DISTANCE
LIST_NEGATIVE_INNER_PRODUCT(x, y) = -LIST_INNER_PRODUCT(x, y)
LIST_NEGATIVE_DOT_PRODUCT = LIST_NEGATIVE_INNER_PRODUCT
ARRAY_NEGATIVE_INNER_PRODUCT = LIST_NEGATIVE_INNER_PRODUCT
ARRAY_NEGATIVE_DOT_PRODUCT = LIST_NEGATIVE_INNER_PRODUCT

ARRAY_UNION(x, y) = ARRAY_DISTINCT(ARRAY_CAT(x, y))
ARRAY_JOIN = ARRAY_TO_STRING

# map
MAP_FROM_ARRAYS(keys, items) = MAP(keys, items)
MAP_UNION(x, y) = MAP_CONCAT(x, y)
MAP_EXTRACT(x, key) = CASE WHEN MAP_CONTAINS(x, key) THEN [x[key]] ELSE [] END
MAP_EXTRACT_VALUE(x, key) = x[key]
MAP_CONTAINS_VALUE(x, value) = ARRAY_CONTAINS(MAP_VALUES(x), value)
MAP_CONTAINS_ENTRY(x, key, value) = MAP_CONTAINS(x, key) AND x[key] IS NOT DISTINCT FROM value

# json
JSONB_ARRAY_LENGTH = JSON_ARRAY_LENGTH
JSONB_EXTRACT_PATH = JSON_EXTRACT_PATH
JSONB_EXTRACT_PATH_TEXT = JSON_EXTRACT_PATH_TEXT
JSONB_STRIP_NULLS = JSON_STRIP_NULLS
JSONB_TYPEOF = JSON_TYPEOF
JSONB_CONTAINS = JSON_CONTAINS
ARRAY_TO_JSON = TO_JSON
JSON_QUOTE = TO_JSON
JSON(x) = CAST(x AS JSON)
PARSE_JSON(x) = CAST(x AS JSON)
TRY_PARSE_JSON(x) = TRY_CAST(x AS JSON)
JSON_STRING(x) = CAST(TO_JSON(x) AS VARCHAR)
JSON_UNQUOTE(x) = CAST(x AS JSON) ->> '$'
JSON_OBJECT_KEYS(x) = UNNEST(JSON_KEYS(x))
JSONB_OBJECT_KEYS = JSON_OBJECT_KEYS
JSON_ARRAY_ELEMENTS(x) = UNNEST(JSON_ELEMENTS(x))
JSONB_ARRAY_ELEMENTS = JSON_ARRAY_ELEMENTS
JSON_ARRAY_ELEMENTS_TEXT(x) = UNNEST(JSON_ELEMENTS_TEXT(x))
JSONB_ARRAY_ELEMENTS_TEXT = JSON_ARRAY_ELEMENTS_TEXT
JSON_EACH(x) = UNNEST(JSON_ENTRIES(x))
JSONB_EACH = JSON_EACH
JSON_EACH_TEXT(x) = UNNEST(JSON_ENTRIES_TEXT(x))
JSONB_EACH_TEXT = JSON_EACH_TEXT
JSON_SCALAR = TO_JSON
JSON_SERIALIZE(x) = CAST(x AS VARCHAR)
JSONB_PATH_QUERY(x, path) = UNNEST(JSON_FOUND(x, path))
JSONB_PATH_EXISTS(x, path) = JSON_EXISTS(x, path)
JSON_BUILD_OBJECT = JSON_OBJECT NULL
JSONB_BUILD_OBJECT = JSON_OBJECT NULL
JSON_BUILD_ARRAY = JSON_ARRAY NULL
JSONB_BUILD_ARRAY = JSON_ARRAY NULL

# aggregates
LIST = ARRAY_AGG
MEAN = AVG
ARBITRARY = FIRST
COUNT_STAR() = COUNT(*)
FAVG(x) = AVG(CAST(x AS DOUBLE))
FSUM(x) = SUM(CAST(x AS DOUBLE))
KAHAN_SUM = FSUM
SUMKAHAN = FSUM
GEOMEAN(x) = EXP(AVG(LN(x)))
GEOMETRIC_MEAN = GEOMEAN
SEM(x) = STDDEV_POP(x) / SQRT(NULLIF(COUNT(x), 0))
WAVG(x, weight) = SUM(CAST(x AS DOUBLE) * weight) / SUM(weight)
WEIGHTED_AVG = WAVG
COLLECT = HISTOGRAM
HISTOGRAM(x) = LIST_HISTOGRAM(ARRAY_AGG(x) FILTER (WHERE x IS NOT NULL))
ENTROPY(x) = LIST_ENTROPY(COALESCE(ARRAY_AGG(x) FILTER (WHERE x IS NOT NULL), []))
MAD(x) = LIST_MAD(ARRAY_AGG(CAST(x AS DOUBLE)) FILTER (WHERE x IS NOT NULL))
MAX(x, n) = ARRAY_FIRSTS(ARRAY_AGG(x ORDER BY x DESC) FILTER (WHERE x IS NOT NULL), n)
MIN(x, n) = ARRAY_FIRSTS(ARRAY_AGG(x ORDER BY x) FILTER (WHERE x IS NOT NULL), n)
ARG_MAX(x, y, n) =
  ARRAY_FIRSTS(ARRAY_AGG(x ORDER BY y DESC)
  FILTER (WHERE x IS NOT NULL AND y IS NOT NULL), n)
ARG_MIN(x, y, n) =
  ARRAY_FIRSTS(ARRAY_AGG(x ORDER BY y)
  FILTER (WHERE x IS NOT NULL AND y IS NOT NULL), n)
MAX_BY = ARG_MAX
MIN_BY = ARG_MIN
JSON_AGG = JSON_ARRAYAGG NULL
JSONB_AGG = JSON_ARRAYAGG NULL
JSON_GROUP_ARRAY = JSON_ARRAYAGG NULL
JSON_OBJECT_AGG = JSON_OBJECTAGG NULL
JSONB_OBJECT_AGG = JSON_OBJECTAGG NULL
JSON_GROUP_OBJECT = JSON_OBJECTAGG NULL

# windows
RANK_DENSE = DENSE_RANK

# conditional
NVL(x, y) = COALESCE(x, y)
IFF = IF
CONSTANT_OR_NULL(x, y) = CASE WHEN y IS NULL THEN NULL ELSE x END

# utility
VERSION() = $VERSION
CURRENT_DATABASE() = $DATABASE
CURRENT_CATALOG() = $DATABASE
CURRENT_SCHEMA() = $SCHEMA
CURRENT_SETTING(name, missing_ok) =
  (SELECT s.setting FROM pg_catalog.pg_settings AS s
  WHERE s.name = CASE LOWER(name) WHEN 'threads' THEN 'cooperative_threads'
  WHEN 'worker_threads' THEN 'cooperative_threads'
  WHEN 'max_memory' THEN 'memory_limit' ELSE LOWER(name) END)
CURRENT_SETTING(name) = SETTING_FOUND(name, CURRENT_SETTING(name, TRUE))
CURRENT_USER() = $USER
SESSION_USER() = $USER
USER() = $USER
CURRENT_ROLE() = $USER

# catalog
PG_GET_EXPR(text, relation) = CAST(text AS VARCHAR)
PG_GET_EXPR(text, relation, is_pretty) = CAST(text AS VARCHAR)
PG_GET_FUNCTION_ARGUMENTS(function) =
  (SELECT p.proarguments FROM pg_catalog.pg_proc AS p WHERE p.oid = function)
PG_GET_FUNCTION_IDENTITY_ARGUMENTS = PG_GET_FUNCTION_ARGUMENTS
PG_GET_FUNCTION_RESULT(function) =
  (SELECT p.proresult FROM pg_catalog.pg_proc AS p WHERE p.oid = function)
PG_GET_RULEDEF(rule, is_pretty) = CAST(rule AS VARCHAR)
PG_GET_TRIGGERDEF(trigger) = CAST(trigger AS VARCHAR)
PG_GET_TRIGGERDEF(trigger, is_pretty) = CAST(trigger AS VARCHAR)
PG_GET_PARTKEYDEF(relation) = CASE WHEN relation IS NULL THEN NULL ELSE '' END
PG_GET_STATISTICSOBJDEF_COLUMNS(object) = CAST(object AS VARCHAR)
PG_PARTITION_ANCESTORS_ARRAY(relation) = CAST([] AS BIGINT[])
PG_PARTITION_ANCESTORS(relation) = UNNEST(PG_PARTITION_ANCESTORS_ARRAY(relation))
PG_RELATION_IS_PUBLISHABLE(relation) = FALSE
PG_FUNCTION_IS_VISIBLE(function) = function IS NOT NULL
PG_TYPE_IS_VISIBLE(type) = type IS NOT NULL
PG_COLLATION_IS_VISIBLE(collation) = collation IS NOT NULL
PG_ENCODING_TO_CHAR(encoding) = CASE encoding WHEN 6 THEN 'UTF8' ELSE '' END
PG_CLIENT_ENCODING() = 'UTF8'
PG_IS_IN_RECOVERY() = FALSE
HAS_TABLE_PRIVILEGE(relation, privilege) = PG_TABLE_IS_VISIBLE(relation) IS NOT NULL
HAS_TABLE_PRIVILEGE(user, relation, privilege) = PG_TABLE_IS_VISIBLE(relation) IS NOT NULL
HAS_SCHEMA_PRIVILEGE(schema, privilege) = schema IS NOT NULL
HAS_SCHEMA_PRIVILEGE(user, schema, privilege) = schema IS NOT NULL
HAS_DATABASE_PRIVILEGE(database, privilege) = database IS NOT NULL
HAS_DATABASE_PRIVILEGE(user, database, privilege) = database IS NOT NULL
SHOBJ_DESCRIPTION(x, kind) = CASE WHEN x < 0 THEN kind END
"""


class Macro(NamedTuple):
    """A function that stands for another function, or for an expression.

    family: the group under which it is listed.
    parameters: the names of the parameters; None: all arguments are passed to `body`.
    body: the name of a function if `parameters` is None, else an expression.
    """

    family: str
    parameters: tuple[str, ...] | None
    body: str


@cache
def macros() -> dict[str, tuple[Macro, ...]]:
    """All macros, by name; a name has one macro for each number of arguments."""
    found: dict[str, tuple[Macro, ...]] = {}
    family = ""
    for line in TEXT.replace("\n  ", " ").splitlines():
        if line.startswith("#"):
            family = line[2:]
            continue
        head, _, body = line.partition(" = ")
        if not body:
            continue
        name, bracket, parameters = head.partition("(")
        names = tuple(item.strip() for item in parameters.rstrip(")").split(",") if item.strip())
        macro = Macro(family, names if bracket else None, body)
        found[name] = (*found.get(name, ()), macro)
    return found
