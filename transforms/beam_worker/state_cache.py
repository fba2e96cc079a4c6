"""How Beam's cache of state measures its entries: each as it is, and quickly.

It measures each value that it takes, with objsize, which by default first collects the globals of
all loaded modules so as to leave them out: .3 to 1 ms a value, several for each message; without
them .03. What state holds refers to no module's globals but through types, modules and functions,
which Beam leaves out itself: the sizes are the same. What an entry takes besides its value, several
times as much as an empty cell, it does not count: 64 MB of what models that came and went leave
behind would be 400 MB of memory. What our cells hold most often, flat entries in a list, is added
up here: 18 microseconds for the cells of a device in place of 90.

Changes: `statecache.objsize`.
Needless once: Beam measures without modules' globals and counts what an entry takes. No issue asks
for that; apache/beam#28802 collects what else the cache should do better.
"""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

from apache_beam.runners.worker import statecache

from transforms.chunks import Chunk

VERSIONS = ("2.76", "2.77")
WITHOUT = "reads and writes of state take longer, and its cache more memory than its bound"

ENTRY = 400
"""Bytes of an entry of the cache beside its value: its keys and the table's own."""


def measure_entries() -> None:
    """Let the cache of this process's Beam worker measure an entry whole, and nothing else."""
    beam = vars(statecache)
    value_size = beam["objsize"].get_deep_size

    def entry_size(*values: Any, **how: Any) -> int:
        size = _flat_size(values[0]) if len(values) == 1 else None
        if size is None:
            size = int(value_size(*values, exclude_modules_globals=False, **how))
        return ENTRY + size

    beam["objsize"] = SimpleNamespace(get_deep_size=entry_size)


_FLAT = frozenset((bytes, int, float, bool, str, type(None)))


def _flat_size(value: Any) -> int | None:
    """Return what a list of flat entries takes; None if it is none."""
    if type(value) is not list:
        return None
    seen: dict[int, int] = {}
    for entry in (value, *value):
        seen[id(entry)] = sys.getsizeof(entry)
        if isinstance(entry, tuple):
            for part in entry:
                # A clock has a tuple of times.
                inner = part if type(part) is tuple else (part,)
                if any(type(each) not in _FLAT for each in inner):
                    return None
                for each in (part, *inner):
                    seen[id(each)] = sys.getsizeof(each) if each is not None else 0
        elif isinstance(entry, Chunk) and entry.records is not None:
            seen[id(entry.records.data)] = sys.getsizeof(entry.records.data)
        elif isinstance(entry, Chunk):
            seen[id(entry.batch)] = sys.getsizeof(entry.batch)
            seen[id(entry.batch.schema)] = sys.getsizeof(entry.batch.schema)
        elif entry is not value and type(entry) not in _FLAT:
            return None
    return sum(seen.values())
