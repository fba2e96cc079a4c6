"""The rows themselves as features."""
