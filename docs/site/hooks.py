"""What MkDocs does beside its own work: pages from elsewhere in the project, and made ones.

Pages stand in one place and are read on GitHub as well: links between them are the files' own, and
are turned into the site's here. The pages of flags, settings and schemas are made from the code.
"""

from __future__ import annotations

import functools
import posixpath
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
# MkDocs imports this file alone.
sys.path.insert(0, str(ROOT))

from docs.site import api, notebooks, reference  # noqa: E402

FROM_ELSEWHERE = {
    "overview.md": "README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
    "conduct.md": "CODE_OF_CONDUCT.md",
    "deploy/index.md": "deploy/README.md",
    "deploy/upgrade.md": "deploy/upgrade.md",
    "results/index.md": "benchmarks/results/README.md",
    **{
        f"results/{page.name}": f"benchmarks/results/{page.name}"
        for page in sorted((ROOT / "benchmarks" / "results").glob("[a-z]*.md"))
    },
}
"""Pages of the site, by their names in it, that lie outside of docs/."""
NOTEBOOKS = {
    f"gallery/{name}.md": f"examples/{name}.ipynb"
    for name in ("which_pump_is_off", "classify_exercises")
}
"""Pages of executed notebooks."""
MADE: dict[str, Callable[[], str]] = {
    "reference/flags.md": reference.flags,
    "reference/settings.md": reference.settings,
    "reference/schemas.md": reference.schemas,
    api.INDEX: api.index,
    **api.pages(),
    **{
        page: functools.partial(notebooks.page_of, Path(notebook).stem)
        for page, notebook in NOTEBOOKS.items()
    },
}
"""Pages that are made from the code, by what makes them."""
_WEIGHTS = {
    "changelog": 0.0,
    "conduct": 0.0,
    "reference/api": 0.001,
    "reference/": 0.1,
    "examples": 0.2,
    "accuracy": 0.3,
    "benchmarks": 0.6,
    "results/": 0.1,
    "deploy/": 0.6,
    "beam": 0.5,
    "coming_from": 0.5,
    "glossary": 0.5,
    "index": 0.3,
    "overview": 0.6,
    "gallery/": 0.4,
    "off": 1.5,
    "python": 1.4,
    "operate": 1.2,
    "tracking": 1.5,
    "detection": 1.2,
    "troubleshooting": 1.2,
}
"""What a page's hits count in the search, by the beginning of its name: 1 unless here, 0 never.
Pages for looking something up have all words; a question is about the others."""
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)


def on_config(config: Any) -> Any:
    """Show the version on each page, and the pages of the API in the contents."""
    found = re.search(
        r'^__version__ = "(.+)"$', (ROOT / "kerneltrack/__init__.py").read_text(), re.M
    )
    for section in config.nav:
        for title, parts in section.items() if isinstance(section, dict) else ():
            if title == "Reference":
                parts[parts.index(api.INDEX) : parts.index(api.INDEX) + 1] = api.nav()
    config.copyright = f"kerneltrack {found[1] if found else ''}, Apache License 2.0"
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in docs/."""
    for name, source in FROM_ELSEWHERE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    for name, make in MADE.items():
        files.append(File.generated(config, name, content=make()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links to files of the project into the site's."""
    name = page.file.src_uri
    weight = next((weight for start, weight in _WEIGHTS.items() if name.startswith(start)), None)
    if weight is not None:
        page.meta["search"] = {"boost": weight} if weight else {"exclude": True}
    if name in MADE:
        return markdown
    parts = _FENCE.split(markdown)
    known = {file.src_uri for file in files}
    return "".join(
        part
        if part.startswith("```")
        else _LINK.sub(lambda found: _link(found, name, known, config.extra["sources"]), part)
        for part in parts
    )


def _link(found: re.Match[str], name: str, known: set[str], sources: str) -> str:
    """Return a link as the site has it; what the site has not is linked to at `sources`.

    Where no address of the sources is known either, the link's text is left alone.
    """
    mark, text, target = found.groups()
    path, hash_mark, anchor = target.partition("#")
    if not path or re.match(r"[a-z]+:", path):
        return found[0]
    place = posixpath.dirname(FROM_ELSEWHERE.get(name, f"docs/{name}"))
    file = posixpath.normpath(posixpath.join(place, path))
    if not (ROOT / file).exists():
        # Left as it is: MkDocs names it.
        return found[0]
    pages = {**FROM_ELSEWHERE, **NOTEBOOKS}
    in_site = {source: each for each, source in pages.items()}.get(file)
    if in_site is None and file.startswith("docs/") and file.removeprefix("docs/") in known:
        in_site = file.removeprefix("docs/")
    if in_site is None:
        index = posixpath.join(file, "README.md")
        in_site = next((each for each, source in FROM_ELSEWHERE.items() if source == index), None)
    if in_site is None:
        return f"{mark}[{text}]({sources}/{file}{hash_mark}{anchor})" if sources else text
    relative = posixpath.relpath(in_site, posixpath.dirname(name) or ".")
    return f"{mark}[{text}]({relative}{hash_mark}{anchor})"
