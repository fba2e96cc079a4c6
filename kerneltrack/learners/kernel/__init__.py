"""Learners with a kernel of their own, one a file."""
