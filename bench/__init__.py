"""Benchmarks: real services, real processes, one file a figure."""
