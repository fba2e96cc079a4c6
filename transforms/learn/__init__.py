"""The keyed step that learns from a model's features."""
