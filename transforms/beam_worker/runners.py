"""The in-process runner by its full name.

Changes: nothing. Beam's `DirectRunner` looks on the network for the binary of another runner first,
Prism (apache/beam#34612). Checked with Beam 2.76 and 2.77; where the name is gone, Beam says so
before a job begins. Needless once: Beam names the in-process runner so that nothing is fetched.
"""

from __future__ import annotations

IN_PROCESS_RUNNER = "apache_beam.runners.portability.fn_api_runner.fn_runner.FnApiRunner"
