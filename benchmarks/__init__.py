"""Measures what the project promises in numbers: `python -m benchmarks [NAME…]`, see docs/benchmarks.md."""
