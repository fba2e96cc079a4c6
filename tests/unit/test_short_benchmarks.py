"""`make bench`: every benchmark has a short form that is run, and what moves is named."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks import short
from benchmarks.record import KEPT, Kept, read, write
from benchmarks.short import LEFT_OUT, SHORT, Move, Short

SCRIPTS = {path.stem for path in Path(short.__file__).parent.glob("bench_*.py")}
TABLE = Kept("python -m benchmarks.a", "m", "c", "d", 0.02, ("", "ours"), (("x", ".500 (2 of 9)"),))


def test_every_benchmark_has_a_short_form_or_says_why_not() -> None:
    modules = {each.module for each in SHORT if each.module.startswith("bench_")}
    assert modules | set(LEFT_OUT) == SCRIPTS
    assert not modules & set(LEFT_OUT)
    papers = {each.flags.split()[0] for each in SHORT if each.module == "paper"}
    assert papers == {"okfeb", "nolana", "doubly", "polk", "bcd"}


@pytest.mark.parametrize("name", sorted(SCRIPTS - {"bench_anchors"}))
def test_every_benchmark_writes_its_tables_by_the_helper(name: str) -> None:
    source = (Path(short.__file__).parent / f"{name}.py").read_text(encoding="utf-8")
    assert "Table(" in source and ("benchmarks.record" in source or "record.Table" in source)


def test_kept_short_forms_are_as_they_are_written(tmp_path: Path) -> None:
    files = sorted((KEPT / "short").glob("*.json"))
    for file in files:
        write(tmp_path / file.name, read(file))
        assert (tmp_path / file.name).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("cell", "moves"),
    [
        (".500 (2 of 9)", False),
        (".509 (2 of 9)", False),
        (".520 (2 of 9)", True),
        (".500 (5 of 9)", True),
        (".500 (2 of 9): missed", True),
        ("", True),
    ],
)
def test_a_cell_moves_beyond_its_tolerance_and_a_last_digit(cell: str, moves: bool) -> None:
    now = dataclasses.replace(TABLE, rows=(("x", cell),))
    assert bool(list(short.moved("a/t", TABLE, now))) is moves


def test_other_rows_and_columns_are_named() -> None:
    more = dataclasses.replace(TABLE, rows=(*TABLE.rows, ("y", "1")))
    assert list(short.moved("a/t", TABLE, more)) == [Move("a/t: 1 -> 2 rows")]
    renamed = dataclasses.replace(TABLE, columns=("", "theirs"))
    assert "other columns" in next(short.moved("a/t", TABLE, renamed)).text
    another = dataclasses.replace(TABLE, rows=(("z", ".500 (2 of 9)"),))
    assert list(short.moved("a/t", TABLE, another)) == [Move("a/t: x -> z")]


@pytest.mark.parametrize(
    ("column", "row", "tolerance", "timed"),
    [
        ("ours", "x", 0.5, True),
        ("µs a row", "x", 0.02, True),
        ("ms until usable", "x", 0.02, True),
        ("rows/s", "x", 0.02, True),
        ("s over runner", "x", 0.02, True),
        ("ours", "ε = 0, seconds", 0.02, True),
        ("ours", "time off a straight line, share", 0.02, True),
        ("ours", "second half over first", 0.02, False),
        ("ours", "error over the targets' deviation", 0.02, False),
        ("nats", "times it moved", 0.02, False),
    ],
)
def test_times_are_listed_from_three_times_as_long_on_and_on_the_same_machine(
    column: str, row: str, tolerance: float, timed: bool
) -> None:
    before = dataclasses.replace(
        TABLE, columns=("", column), rows=((row, "2 and 9"),), tolerance=tolerance
    )
    slower = dataclasses.replace(before, rows=((row, "5 and 9"),))
    far = dataclasses.replace(before, rows=((row, "2 and 99"),))
    elsewhere = dataclasses.replace(far, machine="other")
    found = [[each.time for each in short.moved("t", before, now)] for now in (slower, far)]
    assert found == ([[], [True]] if timed else [[False], [False]])
    assert bool(list(short.moved("t", before, elsewhere))) is not timed


@pytest.mark.nightly
def test_times_alone_do_not_decide(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(short, "FRESH", tmp_path / "fresh")
    monkeypatch.setattr(short, "STORED", tmp_path / "stored")
    table = Short("bench_backlog", "2000", times=True)
    monkeypatch.setattr(short, "SHORT", (table,))
    monkeypatch.setattr("sys.argv", ["short", "--keep"])
    assert short.main() == 0
    kept = read(tmp_path / "stored" / "files.json")["backlog"]
    rows = tuple((row[0], row[1], "999", *row[3:]) for row in kept.rows)
    write(tmp_path / "stored" / "files.json", {"backlog": dataclasses.replace(kept, rows=rows)})
    capsys.readouterr()
    monkeypatch.setattr("sys.argv", ["short"])
    assert short.main() == 0
    out = capsys.readouterr().out
    assert "nothing moved" in out and f"{len(rows)} times more than 3 times" in out


@pytest.mark.nightly
def test_a_run_is_compared_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(short, "FRESH", tmp_path / "fresh")
    monkeypatch.setattr(short, "STORED", tmp_path / "stored")
    monkeypatch.setattr(short, "SHORT", (Short("paper", "okfeb --only fig4"),))
    monkeypatch.setattr("sys.argv", ["short"])
    assert short.main() == 1
    assert "okfeb/paper-fig4: not kept yet" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["short", "--keep"])
    assert short.main() == 0
    monkeypatch.setattr("sys.argv", ["short"])
    assert short.main() == 0
    assert "nothing moved" in capsys.readouterr().out
    kept = read(tmp_path / "stored" / "okfeb.json")["paper-fig4"]
    row = (kept.rows[0][0], kept.rows[0][1], "0.25", *kept.rows[0][3:])
    write(
        tmp_path / "stored" / "okfeb.json", {"paper-fig4": dataclasses.replace(kept, rows=(row,))}
    )
    assert short.main() == 1
    assert "okfeb/paper-fig4" in capsys.readouterr().out


def test_a_benchmark_that_fails_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(short, "FRESH", tmp_path / "fresh")
    monkeypatch.setattr(short, "STORED", tmp_path / "stored")
    broken = Short("bench_backlog", "many")
    absent = Short("bench_core", needs="no-such-program")
    monkeypatch.setattr(short, "SHORT", (broken, absent))
    monkeypatch.setattr("sys.argv", ["short"])
    assert short.main() == 1
    out = capsys.readouterr().out
    assert "bench_backlog many: failed: ValueError" in out
    assert "left out: bench_core: no no-such-program on the path" in out
