"""Doubly stochastic component analysis: random features that are never stored."""
