"""Settings: what an annotation says is what is checked, read from texts, and told."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.settings import OneOf, Range, Settings, Words, settings_of


@dataclasses.dataclass(frozen=True, kw_only=True)
class Made(Settings):
    """Settings of every kind."""

    count: Annotated[int, Range(1, 1000), Words(("auto",)), "How many."] = 10
    share: Annotated[float | None, Range(0, 1, "[)"), "What part."] = None
    width: Annotated[float | Literal["median"], Range(0, math.inf, "()"), "How wide."] = "median"
    kind: Annotated[str, OneOf(("a", "b")), "Which one."] = "a"
    column: Annotated[str | None, "Where it is."] = None
    header: Annotated[bool | None, "Whether there is one."] = None
    names: Annotated[Sequence[str], "What they are called."] = ()

    def resolve(self) -> None:
        """Put a number in the place of "auto"."""
        count: Any = self.count
        if count == "auto":
            self.replace("count", 7)


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("count", 0, "an integer from 1 to 1000, or 'auto'"),
        ("count", 2.0, "an integer from 1 to 1000, or 'auto'"),
        ("count", True, "an integer from 1 to 1000, or 'auto'"),
        ("share", 1.0, "a number >= 0 and < 1, or none"),
        ("share", math.nan, "a number >= 0 and < 1, or none"),
        ("share", "0.5", "a number >= 0 and < 1, or none"),
        ("width", 0.0, "a number > 0, or 'median'"),
        ("width", math.inf, "a number > 0, or 'median'"),
        ("width", 10**400, "a number > 0, or 'median'"),
        ("width", "mean", "a number > 0, or 'median'"),
        ("kind", "c", "one of a, b"),
        ("kind", ["a"], "one of a, b"),
        ("column", 3, "a text, or none"),
        ("header", 1, "true or false, or none"),
        ("names", "abc", "a list of texts"),
    ],
)
def test_what_is_out_of_range_is_named(field: str, value: Any, allowed: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Made(**{field: value})
    assert (caught.value.field, caught.value.allowed) == (field, allowed)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *[("count", 1), ("count", 1000), ("share", None), ("share", 0.0), ("width", 1e-300)],
        *[("kind", "b"), ("column", "none"), ("header", False), ("names", ("a", "b"))],
    ],
)
def test_what_is_in_range_is_kept(field: str, value: Any) -> None:
    assert getattr(Made(**{field: value}), field) == value


def test_one_is_one_setting_and_words_are_resolved() -> None:
    given: dict[str, Any] = {"width": 1, "count": "auto"}
    made: Any = Made(**given)
    assert (type(made.width), made.width, made.count) == (float, 1.0, 7)


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        *[("count", "12", 12), ("count", "auto", "auto"), ("share", "none", None)],
        *[("share", "1e-3", 0.001), ("width", "median", "median"), ("kind", "b", "b")],
        # A column may be called so; a flag without a text is what argparse makes of it.
        *[("column", "none", "none"), ("header", False, False)],
    ],
)
def test_texts_are_read(field: str, text: Any, value: Any) -> None:
    assert settings_of(Made)[field].read(text) == value


def test_a_text_that_is_no_number_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"count = 'many': must be an integer from 1 to 1000"):
        settings_of(Made)["count"].read("many")


def test_the_docstring_tells_each_setting() -> None:
    lines = str(Made.__doc__).splitlines()
    assert lines[:3] == ["Settings of every kind.", "", "Attributes:"]
    assert lines[3:6] == [
        "    count: How many (1 to 1,000, auto).",
        "    share: What part (>= 0 and < 1, none).",
        "    width: How wide (> 0, median).",
    ]
    assert len(lines) == 3 + len(settings_of(Made))
