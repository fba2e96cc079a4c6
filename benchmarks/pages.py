"""The pages of benchmarks/results/: their words are written by hand, their tables from JSON.

    python -m benchmarks.pages               # write the pages' tables anew from what is kept
    python -m benchmarks.pages --keep PAGE[/TABLE] ...   # first keep tables of the last runs

A page has places, `<!-- NAME -->` to `<!-- end -->`, for the tables of the file of its name. Each
table has its command, machine, commit and date under it.
"""

from __future__ import annotations

import argparse
import re
import sys

from benchmarks.record import KEPT, fresh, read, write

_PLACE = re.compile(r"<!-- (?P<name>[a-z0-9_-]+) -->\n.*?<!-- end -->", re.S)


def filled(page: str) -> str:
    """Return a page with its tables as they are kept.

    Raises:
        ValueError: if a place has no table or a table no place.
    """
    tables = read(KEPT / f"{page}.json")
    text = (KEPT / f"{page}.md").read_text(encoding="utf-8")
    places = [place["name"] for place in _PLACE.finditer(text)]
    if odd := sorted(set(places) ^ set(tables)) or sorted(
        {n for n in places if places.count(n) > 1}
    ):
        raise ValueError(f"{page}: {odd} stand as a table or in a place, not in both once")

    def table(place: re.Match[str]) -> str:
        name = place["name"]
        return "\n".join([f"<!-- {name} -->", "", *tables[name].markdown(), "", "<!-- end -->"])

    return _PLACE.sub(table, text)


def pages() -> list[str]:
    """Return the names of the pages with tables."""
    return sorted(path.stem for path in KEPT.glob("*.json"))


def keep(names: list[str]) -> None:
    """Copy tables of the last runs to those that are kept, a page's all or one (`PAGE/TABLE`)."""
    for name in names:
        page, _, table = name.partition("/")
        found = read(fresh() / f"{page}.json")
        chosen = {table: found[table]} if table else found
        write(KEPT / f"{page}.json", {**read(KEPT / f"{page}.json"), **chosen})


def main() -> None:
    """Keep tables, if any are named, and write the pages."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", nargs="+", metavar="PAGE[/TABLE]", default=[])
    keep(parser.parse_args().keep)
    for page in pages():
        (KEPT / f"{page}.md").write_text(filled(page), encoding="utf-8")
        sys.stdout.write(f"{KEPT / page}.md\n")


if __name__ == "__main__":
    main()
