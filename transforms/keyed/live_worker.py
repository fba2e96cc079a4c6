"""What a live job's workers import before they speak to the runner (Beam's `--beam_plugins`)."""

from __future__ import annotations

from transforms.keyed.sampling import sample_often
from transforms.keyed.state_writes import check_writes

check_writes()
sample_often()
