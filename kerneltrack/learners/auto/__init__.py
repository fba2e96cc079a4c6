"""Experts side by side, and a mixture of them that no setting chooses."""
