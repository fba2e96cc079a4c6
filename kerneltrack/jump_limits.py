"""How many rows confirm a jump: apart from `jumps`, which flags and settings need not import."""

JUMP_ROWS = 8
"""Rows that confirm a jump, unless another number is given."""
MOST_JUMP_ROWS = 100
