"""Turn the input of Lookout for Equipment, or of Azure's Anomaly Detector, into a table.

    python examples/from_services.py lookout ASSETS --output rows.parquet
    python examples/from_services.py lookout ASSETS --output rows.parquet \
        --labels labels.csv --quiet quiet.csv
    python examples/from_services.py azure DIR_OR_ZIP --device pump-1 --output rows.parquet

`lookout`: a folder for each asset, with one CSV file of all sensors or one for each sensor; the
first column is the time. The folder's name becomes the device. `--labels` is a CSV file without a
header, with two times a line between which the asset was known to be abnormal. It becomes a file
for `--quiet`, so that nothing of these times is learned as normal. If there are several assets,
`--device` names the one.

`azure`: a folder or zip archive with a CSV file for each variable, with the columns `timestamp` and
`value`, or one CSV file with all variables. One such folder is one device.

The output has a row for each device and time, sorted; a sensor without a value at some time is
missing there. Needs pandas.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pandas as pd


def read_times(texts: pd.Series, where: Path, month_first: bool) -> pd.Series:
    """Read the times of a file, all in one form; without a zone they are UTC.

    Raises:
        SystemExit: if a time cannot be read.
    """
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            times = pd.to_datetime(texts, utc=True, dayfirst=not month_first)
        except ValueError as error:
            raise SystemExit(f"{where}: {error}") from error
    # A first number of 13 or more where months are expected is but a warning of pandas.
    if warned:
        raise SystemExit(f"{where}: {warned[0].message}")
    return times


def table_of(path: Path, month_first: bool) -> pd.DataFrame:
    """Return a file's columns by time; the first column is the time.

    Raises:
        SystemExit: if the file has no second column, or a time twice.
    """
    table = pd.read_csv(path)
    if table.shape[1] < 2:
        raise SystemExit(f"{path}: must have a column of times and one of values")
    times = read_times(table.iloc[:, 0], path, month_first)
    table = table.iloc[:, 1:].set_axis(times, axis="index").rename_axis("time")
    if twice := times[times.duplicated()].head(1).tolist():
        raise SystemExit(f"{path}: has two rows of the time {twice[0]}")
    return table.rename(columns={"value": path.stem}) if list(table.columns) == ["value"] else table


def device_rows(files: list[Path], device: str, month_first: bool) -> pd.DataFrame:
    """Return a device's rows, its files side by side.

    Raises:
        SystemExit: if a sensor is in two files, or there is no file.
    """
    if not files:
        raise SystemExit(f"{device}: no CSV file")
    tables = [table_of(path, month_first) for path in files]
    names = pd.Series([name for table in tables for name in table.columns])
    if names.duplicated().any():
        raise SystemExit(f"{device}: two files have the sensor {names[names.duplicated()].iloc[0]}")
    rows = pd.concat(tables, axis="columns").sort_index().reset_index()
    rows.insert(0, "device", device)
    return rows


def of_lookout(args: argparse.Namespace) -> Iterator[pd.DataFrame]:
    """Yield the rows of each asset's folder, or of the one that has the files itself."""
    folders = sorted(each for each in args.input.iterdir() if each.is_dir()) or [args.input]
    for folder in folders:
        yield device_rows(sorted(folder.rglob("*.csv")), folder.name, args.month_first)


def of_azure(args: argparse.Namespace) -> Iterator[pd.DataFrame]:
    """Yield the rows of the one device."""
    device = args.device or args.input.stem
    if args.input.suffix != ".zip":
        files = sorted(args.input.rglob("*.csv")) if args.input.is_dir() else [args.input]
        yield device_rows(files, device, args.month_first)
        return
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(args.input) as archive:
        archive.extractall(folder)
        yield device_rows(sorted(Path(folder).rglob("*.csv")), device, args.month_first)


def write_quiet(args: argparse.Namespace, devices: list[str]) -> None:
    """Write the labels as quiet times.

    Raises:
        SystemExit: if it is not clear whose they are, or one ends before it begins.
    """
    if args.device not in devices and len(devices) > 1:
        raise SystemExit(f"--device: must name the asset of --labels: {', '.join(devices)}")
    labels = pd.read_csv(args.labels, header=None, names=["from", "to"], usecols=[0, 1])
    for name in ("from", "to"):
        labels[name] = read_times(labels[name], args.labels, args.month_first)
    if (wrong := labels[labels["to"] <= labels["from"]]).size:
        raise SystemExit(f"{args.labels}, line {wrong.index[0] + 1}: ends before it begins")
    labels.insert(0, "device", args.device or devices[0])
    labels["why"] = "labelled as abnormal"
    labels.to_csv(args.quiet, index=False, date_format="%Y-%m-%dT%H:%M:%SZ")


def main() -> None:
    """Convert what the flags name."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("service", choices=("lookout", "azure"))
    parser.add_argument("input", type=Path, help="folder, file or zip archive")
    parser.add_argument("--output", type=Path, required=True, help="Parquet file to write")
    parser.add_argument("--device", help="azure: the device; lookout: the asset of --labels")
    parser.add_argument("--labels", type=Path, help="lookout: CSV file of abnormal times")
    parser.add_argument("--quiet", type=Path, help="file to write for kerneltrack's --quiet")
    parser.add_argument(
        "--day-first", dest="month_first", action="store_false", help="3/1/2020 is 3 January"
    )
    args = parser.parse_args()
    if (args.labels is None) != (args.quiet is None):
        parser.error("--labels and --quiet go together")
    tables = list({"lookout": of_lookout, "azure": of_azure}[args.service](args))
    rows = pd.concat(tables, ignore_index=True)
    rows.to_parquet(args.output, index=False)
    devices = [str(table["device"].iloc[0]) for table in tables]
    if args.quiet is not None:
        write_quiet(args, devices)
    print(f"{len(rows):,} rows of {', '.join(devices)}: {', '.join(rows.columns[2:])}")


if __name__ == "__main__":
    main()
