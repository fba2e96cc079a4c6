"""Docstrings' "Example:" as the section that Google's style calls "Examples:"."""

from __future__ import annotations

import re
from typing import Any

import griffe

_HEADING = re.compile(r"^(\s*)Example:$", re.M)


class Examples(griffe.Extension):
    """Rename the heading before docstrings are read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Look at the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = _HEADING.sub(r"\1Examples:", obj.docstring.value)
