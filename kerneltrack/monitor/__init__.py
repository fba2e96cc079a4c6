"""What a model's errors say: kernel mismatch, bounds, drift."""
