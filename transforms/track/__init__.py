"""The keyed step that tracks a model's subspace."""
