"""Snapshots of models: files, their index, folders of them."""
