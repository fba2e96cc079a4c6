"""Adaptive Nyström (OANA): landmarks by online k-means."""
