"""Compiled templates, kept in the user's cache: to compile them is a fifth of a second a job."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from jinja2 import FileSystemBytecodeCache
from jinja2.bccache import Bucket

from pipelines.cache import cache_folder


class Compiled(FileSystemBytecodeCache):
    """Templates as they were compiled before, of the same text and by the same settings.

    What cannot be read or written is compiled each time.
    """

    def __init__(self, settings: Path) -> None:
        """Keep them.

        Args:
            settings: The module that says how templates are compiled.
        """
        folder = cache_folder() / "templates"
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        by = hashlib.sha256(settings.read_bytes()).hexdigest()[:16]
        super().__init__(str(folder), f"{by}_%s.cache")

    def load_bytecode(self, bucket: Bucket) -> None:
        """Load a template if it can be read."""
        with contextlib.suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep a template if it can be written."""
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)
