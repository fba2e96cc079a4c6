"""What a live job's workers import before they speak to the runner (Beam's `--beam_plugins`)."""

from __future__ import annotations

from transforms.beam_worker.install import install

install()
