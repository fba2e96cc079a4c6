"""Beam transforms over chunks of sensor rows: parse, track, write."""
