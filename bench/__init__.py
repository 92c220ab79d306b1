"""Benchmarks: figures that the package promises, measured against stated bounds. Run ``python -m bench``."""
