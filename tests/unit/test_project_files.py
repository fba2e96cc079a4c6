"""What a project is joined by: workflows, forms, the citation."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import kerneltrack

ROOT = Path(__file__).resolve().parents[2]
GITHUB = ROOT / ".github"
SCHEMAS = {
    "vendor.github-workflows": sorted((GITHUB / "workflows").glob("*.yml")),
    "vendor.github-issue-forms": [
        path
        for path in sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
        if path.name != "config.yml"
    ],
    "vendor.github-issue-config": [GITHUB / "ISSUE_TEMPLATE" / "config.yml"],
    "vendor.citation-file-format": [ROOT / "CITATION.cff"],
}


@pytest.mark.nightly
@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_are_as_their_schemas_say(schema: str) -> None:
    assert SCHEMAS[schema]
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *SCHEMAS[schema]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_run_targets_that_there_are() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for path in SCHEMAS["vendor.github-workflows"]:
        jobs = yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].values()
        lines = [step["run"] for job in jobs for step in job.get("steps", []) if "run" in step]
        for line in lines:
            if line.startswith("make "):
                asked = {word for word in shlex.split(line)[1:] if "=" not in word}
                assert asked <= targets, (path.name, line)


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == kerneltrack.__version__


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
    assert len(pages) > 8
    lost = []
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
            path = target.partition("#")[0]
            if path and "://" not in path and not (page.parent / path).exists():
                lost.append((page.name, target))
    assert lost == []
