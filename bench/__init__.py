"""Benchmarks: what Coldcast is measured by."""
