"""A page's templates are compiled once for all jobs, and again wherever that cannot be kept."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jinja2 import Environment

from pipelines.report.page.page import templates

NAME = "provenance.html"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the templates that are compiled; other tests have the process's own cache again."""
    found: list[str] = []
    compile_source: Any = Environment.compile

    def compile_and_say(self: Environment, source: str, name: str, *rest: Any) -> Any:
        found.append(name)
        return compile_source(self, source, name, *rest)

    monkeypatch.setattr(Environment, "compile", compile_and_say)
    yield found
    templates.cache_clear()


def read() -> str:
    templates.cache_clear()
    return templates().get_template(NAME).render(command="track", provenance={})


def test_what_was_compiled_is_read_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    monkeypatch.setenv("KERNELTRACK_CACHE", str(tmp_path / "cache"))
    page = read()
    assert compiled == [NAME]
    assert read() == page
    assert compiled == [NAME]
    (kept,) = (tmp_path / "cache/templates").iterdir()
    for damaged in (b"", kept.read_bytes()[:-20], b"x" * 400):
        kept.write_bytes(damaged)
        assert read() == page
    assert compiled == 4 * [NAME]
    shutil.rmtree(tmp_path / "cache")
    assert read() == page
    assert compiled == 5 * [NAME]


def test_a_cache_that_cannot_be_written_costs_time_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("KERNELTRACK_CACHE", str(tmp_path / "file"))
    assert read() == read()
    assert compiled == [NAME, NAME]
