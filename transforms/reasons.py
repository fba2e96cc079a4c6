"""Why rows fail: a reason is `NAME = VALUE: WHY`, or only words where there is no value."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

# "ax = nan: missing value": the value would make every reason another one. What a value looks
# like is not known, but the words after it hold no colon.
_VALUE = r"^(?s:(.+?) = .*: ([^:]*))$"


def kinds_of(reasons: pa.Array) -> pa.Array:
    """Return the reasons without their values, so that those of one kind are equal.

    Args:
        reasons: Strings.

    Example:
        >>> kinds_of(pa.array(["ax = nan: missing value", "t = '10:20': no time"])).to_pylist()
        ['ax: missing value', 't: no time']
    """
    return pc.replace_substring_regex(reasons, _VALUE, r"\1: \2")
