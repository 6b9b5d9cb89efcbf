"""Benchmarks: each compares Runnel with other engines, measured in the same run on the same
machine."""
