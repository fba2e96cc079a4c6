"""Batch algorithms: references for the trackers and starting points for them."""
