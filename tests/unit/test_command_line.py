"""Command lines that are wrong: words that nothing takes, and the names of flags in errors."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerneltrack.errors import ConfigError
from pipelines.cli import main as cli
from pipelines.cli.command_line import UsageError, flags_by_field, flags_named
from pipelines.cli.main import COMMANDS
from tests.unit.test_plain_words import options_of

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        (
            "track a.csv --output o --model-id site dev --time t",
            "'dev' was not understood: --model-id takes one value (inputs stand together: a.csv)",
        ),
        (
            "track --output o --model-id site dev --time t a.csv",
            "'a.csv' was not understood (inputs stand together: dev)",
        ),
        (
            "track a.csv b.csv --output o c.csv",
            "'c.csv' was not understood: --output takes one value "
            "(inputs stand together: a.csv b.csv)",
        ),
        (
            "score a.csv --snapshots s --output o --model-id=site dev",
            "'dev' was not understood: --model-id takes no more (inputs stand together: a.csv)",
        ),
        (
            "landmarks a.csv --output o --overwrite count",
            "'count' was not understood: --overwrite takes no value (did you mean --count?)",
        ),
        (
            "track a.csv --output o --runner=DirectRunner zzz",
            "'zzz' was not understood (inputs stand together: a.csv)",
        ),
        (
            "track a.csv --output o --runner DirectRunner",
            "unknown flag --runner: did you mean --rule? "
            "(Beam's own are given as --runner=DirectRunner)",
        ),
        (
            "track a.csv --output o --features x y --header z",
            "'z' was not understood: --header takes no value (inputs stand together: a.csv)",
        ),
        ("report o1 o2", "'o2' was not understood"),
        ("inspect a --versions", "unknown flag --versions: did you mean --version?"),
        (
            "track --output o --features x y a.csv",
            "the following arguments are required: INPUT (see kerneltrack track --help): "
            "--features takes all words after it, so inputs stand before the flags",
        ),
        (
            "track --output o",
            "the following arguments are required: INPUT (see kerneltrack track --help)",
        ),
    ],
)
def test_what_nothing_takes_is_refused(typed: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        cli.read(typed.split())
    assert str(caught.value) == says


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    made.add_argument("input", nargs="+")
    made.add_argument("--model-id")
    made.add_argument("--max-disorder", type=float, default=1.0)
    made.add_argument("--from", dest="begin")
    made.add_argument("--rank")
    made.add_argument("--budget")
    made.add_argument("--spec")
    return made


@pytest.mark.parametrize(
    ("typed", "raised", "says"),
    [
        ("f", ("model_id", "x", "a column"), "--model-id = 'x': must be a column"),
        ("f", ("begin", "x", "a time"), "--from = 'x': must be a time"),
        (
            "f",
            ("duplicates", "drop", "keep where max_disorder is 0"),
            "duplicates = 'drop': must be keep where --max-disorder is 0",
        ),
        ("f", ("rank", 5, "less (try budget 9)"), "--rank = 5: must be less (try --budget 9)"),
        ("f", ("rank", 5, "at most the budget"), "--rank = 5: must be at most the budget"),
        ("f", ("--rank", 5, "less"), "--rank = 5: must be less"),
        (
            "f",
            ("rank", "x", "a column: model_id, rank of a.csv"),
            "--rank = 'x': must be a column: model_id, rank of a.csv",
        ),
        ("f", ("rank", "x", "other than model_id"), "--rank = 'x': must be other than --model-id"),
        # What the file of --spec says bears its own name.
        ("f --spec s", ("rank", 5, "less"), "rank = 5: must be less"),
        ("f --spec s --rank 5", ("rank", 5, "less"), "--rank = 5: must be less"),
    ],
)
def test_errors_name_flags(typed: str, raised: tuple[str, object, str], says: str) -> None:
    flags = flags_by_field(parser(), parser().parse_args(typed.split()))
    with pytest.raises(ConfigError) as caught, flags_named(flags):
        raise ConfigError(*raised)
    assert str(caught.value) == says


@pytest.mark.parametrize("name", ["track", "score", "landmarks", "stream"])
def test_every_field_of_columns_and_formats_has_its_flag(name: str) -> None:
    made = cli.parser_of(name)
    flags = flags_by_field(made, argparse.Namespace())
    for field in ("model_id", "time", "time_unit", "time_zone", "time_format", "sequence", "label"):
        assert flags[field] == "--" + field.replace("_", "-")
    assert {flags[field] for field in ("label_type", "features", "exclude", "missing")} == {
        *("--label-type", "--features", "--exclude", "--missing")
    }
    if name != "stream":
        for field in ("delimiter", "decimal", "quote", "encoding", "comment", "width", "format"):
            assert flags[field] == f"--{field}"


SAMPLE = str(ROOT / "samples/watch.parquet")
LIGHT = {
    "help": ["track", "--help"],
    "help of the live job": ["stream", "--help"],
    "list": ["list"],
    "settings": ["list", "covariance"],
    "a file that is not there": ["inspect", "nowhere.safetensors"],
    "an input that is not there": ["track", "nowhere.csv", "--output", "out"],
    "a pattern below such a folder": ["track", "nowhere/", "--output", "out"],
    "a wrong column": ["track", SAMPLE, "--model-id", "device", "--output", "out"],
    "results that are there": ["track", SAMPLE, "--output", "."],
    "a command that is none": ["trak"],
}


def run_script(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own, in a folder."""
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", LIGHT)
def test_what_needs_no_job_imports_neither_beam_nor_river(name: str, tmp_path: Path) -> None:
    """They take longer to import than such commands may take."""
    (tmp_path / "features").mkdir()
    script = (
        "import atexit, sys; from pipelines.cli.main import main; "
        "atexit.register(lambda: sys.stdout.write('loaded: ' + ' '.join("
        "sorted({'apache_beam', 'pandas', 'river'} & set(sys.modules))))); "
        f"sys.exit(main({LIGHT[name]!r}))"
    )
    done = run_script(script, tmp_path)
    assert done.returncode == (0 if "help" in name or LIGHT[name][0] == "list" else 2), done.stderr
    assert done.stdout.splitlines()[-1] == "loaded: "


def test_a_job_imports_no_pandas_and_who_asks_later_has_it(tmp_path: Path) -> None:
    """Beam and Arrow import it where it is there, which takes a third of a small job's time."""
    path = ROOT / "samples" / "watch.parquet"
    job = ["track", str(path), "--model-id", "model_id", "--output", str(tmp_path / "out")]
    script = (
        "import sys; from pipelines.cli.main import main; "
        f"code = main({job!r}); loaded = {{'bson', 'pandas', 'pymongo'}} & set(sys.modules); "
        "import pyarrow; frame = pyarrow.table({'x': [1.0]}).to_pandas(); "
        "import pandas; series = pyarrow.array(pandas.Series([1.0])); "
        "print(code, sorted(loaded), frame.x.sum(), series[0])"
    )
    done = run_script(script, tmp_path)
    assert done.stdout.splitlines()[-1] == "0 [] 1.0 1.0", done.stderr


@pytest.mark.parametrize("name", ["help", "help of the live job", "an input that is not there"])
def test_help_and_a_misspelt_file_need_no_arrays(name: str, tmp_path: Path) -> None:
    """NumPy and Arrow take longer to import than all else that these do."""
    script = (
        "import sys; from pipelines.cli.main import main\n"
        f"try: code = main({LIGHT[name]!r})\n"
        "except SystemExit as end: code = end.code\n"
        "print('loaded:', *sorted({'numpy', 'pyarrow', 'yaml'} & set(sys.modules)), code)"
    )
    done = run_script(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"loaded: {0 if 'help' in name else 2}"


@pytest.mark.parametrize(
    ("text", "code", "last"),
    [("", 7, "handler\n"), ("lost", 120, "No space left on device\n")],
    ids=["flushed", "cannot be flushed"],
)
def test_exit_handlers_run_and_then_nothing_is_taken_down(
    text: str, code: int, last: str, tmp_path: Path
) -> None:
    """A library's threads may abort a process whose Python is being taken down."""
    script = (
        "import atexit, os, sys\n"
        "from pipelines.cli import list_parts, main\n"
        "class Held:\n"
        f"    def __del__(self, leave=os._exit): {'pass' if text else 'leave(1)'}\n"
        "held = Held()\n"
        "def run(args):\n"
        "    atexit.register(os.write, 2, b'handler\\n')\n"
        f"    full = open('/dev/full', 'w'); full.write({text!r}); sys.stdout = full\n"
        "    return 7\n"
        "list_parts.run = run; sys.argv = ['kerneltrack', 'list']; sys.exit(main.main())"
    )
    done = run_script(script, tmp_path)
    assert done.stderr.startswith("handler\n")
    assert done.stderr.endswith(last)
    assert done.returncode == code


def test_a_reader_that_leaves_early_is_no_error() -> None:
    """As `kerneltrack list covariance | head -1`."""
    command = [sys.executable, "-m", "pipelines.cli", "list", "covariance"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stderr is not None
        run.stdout.close()
        output_text = run.stderr.read()
        assert (run.wait(), output_text) == (cli.PIPE_EXIT, b"")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_flag_of_many_values_that_is_given_twice_loses_none(command: str) -> None:
    many = (argparse.ONE_OR_MORE, argparse.ZERO_OR_MORE)
    for name, action in options_of(command):
        if action.option_strings and action.nargs in many:
            assert isinstance(action, argparse._ExtendAction), name


def test_columns_that_are_excluded_one_by_one_are_all_excluded() -> None:
    typed = "track a.csv --output o --exclude b --rank 3 --exclude c d".split()
    assert cli.parser_of("track").parse_args(typed).exclude == ["b", "c", "d"]
