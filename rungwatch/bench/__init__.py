"""Benchmarks: which problems each kernel is timed on, and the rows that come of it."""
