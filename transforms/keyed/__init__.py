"""What keyed steps share: timers, expiry, the runner's state."""
