"""How many models are compared with each other; apart, as flags name it and need no NumPy."""

MOST_COMPARED = 2_000
"""Models that are compared, unless told otherwise."""
