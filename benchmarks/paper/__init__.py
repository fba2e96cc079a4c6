"""The tables and figures of the five papers by command, the papers' values beside ours."""
