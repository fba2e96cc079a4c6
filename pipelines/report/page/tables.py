"""The frame of a table that a script fills, sorts and filters."""

from __future__ import annotations


def table_frame(name: str) -> str:
    """Return the frame of the table `name`; its heading has the id `name-title`.

    Args:
        name: Id of the table, and first part of the ids of its parts.
    """
    return (
        f'<p class="toolbar" id="{name}-tools" hidden><label>Filter <input type="search" '
        f'id="{name}-filter" placeholder="model id" autocomplete="off" spellcheck="false"></label>'
        f'<span id="{name}-count" aria-live="polite"></span></p>\n'
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{name}-title">'
        f'<table id="{name}"></table></div>\n'
        f'<p><button type="button" id="{name}-more" hidden></button></p>\n'
    )
