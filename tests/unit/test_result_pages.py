"""The pages of the benchmarks' results are their JSON, and a run writes what is kept."""

from __future__ import annotations

import dataclasses
import importlib.util
import re
import subprocess
from pathlib import Path

import pytest

from benchmarks import pages
from benchmarks.paper.parts import COLUMNS, Found, cells, outcome, read_manifest
from benchmarks.places import ROOT
from benchmarks.record import KEPT, Table, read, write
from kerneltrack.registry import LEARNERS
from tests.parts import missing

NAMES = pages.pages()


@pytest.mark.parametrize("page", NAMES)
def test_a_page_has_the_tables_of_its_file(page: str) -> None:
    assert (KEPT / f"{page}.md").read_text(encoding="utf-8") == pages.filled(page)


@pytest.mark.parametrize("page", NAMES)
def test_a_file_of_tables_is_as_it_is_written(page: str, tmp_path: Path) -> None:
    write(tmp_path / "a.json", read(KEPT / f"{page}.json"))
    assert (tmp_path / "a.json").read_bytes() == (KEPT / f"{page}.json").read_bytes()


@pytest.mark.parametrize("page", NAMES)
def test_every_table_has_its_source_and_even_rows(page: str) -> None:
    for name, table in read(KEPT / f"{page}.json").items():
        assert re.match(r"python -m (benchmarks|pytest)", table.command), name
        assert table.machine and re.match(r"[0-9a-f]{7,}", table.commit), name
        assert re.match(r"20\d\d-\d\d-\d\d", table.date), name
        # Runs of today write the time of day; those of the papers did not at first.
        assert "T" in table.date or table.by_hand or name.startswith("paper-"), name
        assert table.rows and {len(row) for row in table.rows} == {len(table.columns)}, name


def test_commands_of_the_docs_are_modules() -> None:
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *KEPT.glob("*.md")]
    named = {
        (page.name, name)
        for page in pages
        for name in re.findall(r"python -m (benchmarks[\w.]*)", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 30
    assert [each for each in named if importlib.util.find_spec(each[1]) is None] == []


def test_every_peer_has_its_file_and_its_figures() -> None:
    text = (KEPT / "README.md").read_text(encoding="utf-8").partition("## Peers")[2]
    peers = re.findall(r"^\| (.+) \| (`.+`) \| \[(\w+)\.md\]\(\3\.md\): (.+) \|$", text, re.M)
    assert len(peers) == text.count("\n|") - 2 > 20
    for name, written, page, figures in peers:
        for place in re.findall(r"`([^`]+)`", written):
            found = place.removeprefix("--learner ")
            assert found in LEARNERS or (KEPT.parent / found).exists(), (name, place)
        tables = read(KEPT / f"{page}.json").values()
        heads = {head for table in tables for head in table.columns}
        assert figures in heads | {row[0] for table in tables for row in table.rows}, name


def git(*arguments: str) -> str:
    """Ask git about the project's folder; nothing where that is no repository."""
    called = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(called, capture_output=True, text=True, check=False).stdout.strip()


def test_every_kept_table_comes_of_a_commit_of_the_history() -> None:
    if git("rev-parse", "--is-shallow-repository") != "false":
        missing("the commits of results were not looked up: that needs git and the whole history")
    history = git("rev-list", "HEAD").splitlines()
    unknown = [
        (file.name, name, table.commit)
        for file in KEPT.glob("**/*.json")
        for name, table in read(file).items()
        if not any(commit.startswith(table.commit) for commit in history)
    ]
    assert not unknown, "tables are kept of runs on commits that are in the history"


def test_the_papers_tables_have_the_ranges_and_status_of_the_manifest() -> None:
    for paper, parts in read_manifest().items():
        tables = read(KEPT / f"{paper}.json")
        for name, part in parts.items():
            if part.status == "impossible":
                assert f"paper-{name}" not in tables
                continue
            table = tables[f"paper-{name}"]
            assert table.columns == COLUMNS
            found = Found({row[0]: float(row[2]) for row in table.rows})
            assert tuple(cells(part, found)) == table.rows, (paper, name)
            assert outcome(part, found) == part.status, (paper, name)


def test_a_page_with_a_place_too_many_or_a_table_too_many_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pages, "KEPT", tmp_path)
    write(tmp_path / "a.json", {"one": next(iter(read(KEPT / "drift.json").values()))})
    for text in (
        "none",
        "<!-- one -->\n<!-- end -->\n<!-- two -->\n<!-- end -->",
        "<!-- one -->\n<!-- end -->\n<!-- one -->\n<!-- end -->",
    ):
        (tmp_path / "a.md").write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"one|two"):
            pages.filled("a")


def test_a_run_writes_what_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNELTRACK_RESULTS", str(tmp_path / "fresh"))
    monkeypatch.setattr(pages, "KEPT", tmp_path)
    first = Table("a", "one", ["", "ours"])
    first.add("x", 1.5)
    first.add("y", ".25")
    Table("a", "two", ["", "ours"], tolerance=0.5).add("x", 2)
    with pytest.raises(ValueError, match="3 cells"):
        first.add("z", 1, 2)
    pages.keep(["a/one"])
    found = read(tmp_path / "a.json")
    assert list(found) == ["one"] and found["one"].rows == (("x", "1.5"), ("y", ".25"))
    assert found["one"].commit and found["one"].machine and found["one"].date
    pages.keep(["a"])
    assert read(tmp_path / "a.json")["two"].tolerance == 0.5
    (tmp_path / "a.md").write_text("<!-- two -->\n<!-- end -->\n<!-- one -->\n<!-- end -->\n")
    text = pages.filled("a")
    assert "| y | .25 |" in text and found["one"].command in text
    (tmp_path / "a.md").write_text(text)
    assert pages.filled("a") == text
    by_hand = dataclasses.replace(found["one"], by_hand=True)
    write(tmp_path / "a.json", {**read(tmp_path / "a.json"), "one": by_hand})
    assert "`, put together by hand; " in pages.filled("a") != text
    assert read(tmp_path / "a.json")["one"] == by_hand
    moved = dataclasses.replace(found["one"], rows=(("x", "2"),))
    write(tmp_path / "a.json", {**read(tmp_path / "a.json"), "one": moved})
    assert pages.filled("a") != text
