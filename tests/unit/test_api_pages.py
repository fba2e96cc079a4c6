"""The site has a page for every public class and function, and names none that is not there."""

from __future__ import annotations

from types import ModuleType

import pytest

import kerneltrack
import kerneltrack.beam
import kerneltrack.monitor
from docs.site import api

NAMES = [name for names in api.GROUPS.values() for name in names]


@pytest.mark.parametrize("module", [kerneltrack, kerneltrack.beam, kerneltrack.monitor])
def test_every_public_name_has_a_page(module: ModuleType) -> None:
    own = [name for name in dir(module) if not name.startswith("_")]
    called = {name for name in own if callable(getattr(module, name))}
    assert called - {name.rpartition(".")[2] for name in NAMES} == set()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_begins_with_what_the_thing_is(name: str) -> None:
    assert len(api.first_line(name).split()) > 2


def test_the_index_leads_to_every_page() -> None:
    assert len(set(NAMES)) == len(NAMES)
    for name in NAMES:
        assert f"](api/{name}.md) | " in api.index()
    (contents,) = api.nav()
    assert str(contents).count("reference/api/") == len(NAMES)
