"""CAST and TRY_CAST: conversions between SQL types.

Imports the engine's basics, `columns`, the files of `engine/expressions`, its `kernels`, and
single files of `json`, `numbers`, `text` and `time`.

Begin with `cast.conversion_of`: it selects the conversion for a pair of types. The other files
are one family each: `from_text`, `to_text`, `numbers`, `temporal`, `nested`. `try_cast` returns
NULL where a value can't be converted.
"""
