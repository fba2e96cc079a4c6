"""From chunks to files."""
