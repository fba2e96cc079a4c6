"""Linear learners, one a file."""
