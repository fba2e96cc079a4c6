"""Budgeted kernel subspace tracking: the numerics, free of any stream engine."""

__version__ = "0.1.0"
