"""The texts of docs/functions.md that are not tables, by the title of their section."""

BEFORE = {
    "Casts": """
A number with a fraction becomes the nearest integer, as in PostgreSQL: a DECIMAL half away from
zero, a REAL or DOUBLE half to even. A text that is cast to an integer must be a whole number. No
value wraps around.
"""
}
"""Texts above the table of a section."""

AFTER = {
    "Array": """
### Rows and maps

`{'a': 1, 'b': 'x'}` and `STRUCT_PACK(a := 1, b := 'x')` make a ROW with named fields, `ROW(1, 'x')`
one with the fields `f1` and `f2`. `s.a`, `t.s.a.b`, `(f(x)).a`, `s['a']` and `STRUCT_EXTRACT(s,
'a')` read a field. `MAP {'a': 1}`, `MAP(['a'], [1])` and `MAP['a', 1]` make a MAP; `m['a']` reads
the value of a key, NULL if the key is missing. The name of a table in FROM is the ROW of its
columns, if no column has the name: `SELECT row_to_json(t) FROM t`.

`a[1]` is the first element of an ARRAY, `a[-1]` the last one, and NULL outside the array. `a[2:3]`,
`a[-2:]` and `a[:2]` are slices, with both ends.

### Lambda functions

- `LIST_TRANSFORM(list, x -> x + 1)` applies an expression to each element.
- `LIST_FILTER(list, x -> x > 1)` selects the elements for which a condition is true.
- `LIST_REDUCE(list, (result, x) -> result + x)` computes one value from all elements.

`lambda x: x + 1` is another spelling of `x -> x + 1`. A further parameter is the position of the
element, which counts from one: `(x, i) -> …` and `(result, x, i) -> …`. The expression can use
columns of the row, parameters of the statement, subqueries, and other lambda functions; a parameter
hides a column of the same name, which `t.x` then refers to. The expression contains no window
function, and neither a subquery nor an aggregate in it refers to its parameters.

The function of LIST_REDUCE begins with the first element as result, or with the third argument of
LIST_REDUCE: `LIST_REDUCE(list, (result, x) -> result + x, 0)`. Without it, an empty ARRAY is an
error. The type of the result holds all its values so far; for a product of DECIMALs, which has more
fractional digits than its operands, write a CAST in the function. The result for a NULL ARRAY is
NULL.
"""
}
"""Texts below the table of a section."""
