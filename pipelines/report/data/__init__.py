"""The report's figures, from a run's files."""
