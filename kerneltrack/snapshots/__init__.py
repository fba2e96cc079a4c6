"""Snapshots of models: their headers, files, folders of them and the index."""
