"""The statements of Flink SQL: CREATE TABLE … WITH ('connector' = …) as CREATE MAPPING.

Imports the other modules of `parse`. Begin with `tables`, which reads the statement; `options`
translates the options of each connector, `generated` has the times of generated rows, `hints` the
options of a query, and `types` reads Flink's types.
"""
