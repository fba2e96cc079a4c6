"""Bounded input by partition: rows of a model come together in one process, without Beam."""
