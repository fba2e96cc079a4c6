"""One small plant, written in each of the forms that data comes in."""

from __future__ import annotations

import datetime
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from tests.workbooks import workbook

MINUTE = datetime.timedelta(minutes=1)
DAY = datetime.timedelta(days=1)
DEVICES = ("north", "south")
CHANNELS = ("flow", "heat")


class Row(NamedTuple):
    """A row of the plant; its values have two decimals, so that texts hold them exactly."""

    device: str
    time: datetime.datetime
    flow: float
    heat: float


def plant(step: datetime.timedelta = MINUTE, rows: int = 120) -> list[Row]:
    """Return the rows of two devices, a row of each at every step, in the order of their times."""
    rng = np.random.default_rng(7)
    values = np.round(rng.normal((5.0, 60.0), (1.0, 8.0), (rows, len(DEVICES), 2)), 2)
    start = datetime.datetime(2026, 3, 1)
    return [
        Row(device, start + at * step, *values[at, number].tolist())
        for at in range(rows)
        for number, device in enumerate(DEVICES)
    ]


PLANT = plant()


class Form(NamedTuple):
    """A form of the table in docs/tracking.md.

    Attributes:
        write: Writes the files of the example into the current folder.
        rows: The rows that are written.
        devices: The plant's device by the id that the job gives it.
    """

    write: Callable[[list[Row]], None]
    rows: list[Row] = PLANT
    devices: Mapping[str, str] = dict(zip(DEVICES, DEVICES, strict=True))


def save(name: str, lines: Iterable[str]) -> None:
    """Write lines of text."""
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def written(time: str) -> Callable[[list[Row]], None]:
    """Return what writes a plain CSV file whose times have a format."""
    return lambda rows: save(
        "pumps.csv",
        ["device,time,flow,heat"]
        + [f"{r.device},{r.time.strftime(time)},{r.flow},{r.heat}" for r in rows],
    )


def _european(rows: list[Row]) -> None:
    lines = ["Anlage;Zeit;Durchfluss;Temperatur"]
    for r in rows:
        values = f"{r.flow};{r.heat}".replace(".", ",")
        lines.append(f"{r.device};{r.time:%d.%m.%Y %H:%M};{values}")
    save("pumps.csv", lines)


def _milliseconds(rows: list[Row]) -> None:
    utc = datetime.timezone.utc
    save(
        "pumps.csv",
        ["device,time,flow,heat"]
        + [
            f"{r.device},{round(r.time.replace(tzinfo=utc).timestamp() * 1000)},{r.flow},{r.heat}"
            for r in rows
        ],
    )


def _central_european(rows: list[Row]) -> None:
    hour = datetime.timedelta(hours=1)
    written("%Y-%m-%d %H:%M:%S CET")([r._replace(time=r.time + hour) for r in rows])


def _excel(rows: list[Row]) -> None:
    lines = ["device,time,flow,heat"]
    for r in rows:
        serial = (r.time - datetime.datetime(1899, 12, 30)) / DAY
        lines.append(f"{r.device},{serial:.8f},{r.flow},{r.heat}")
    save("pumps.csv", lines)


def _two_columns(rows: list[Row]) -> None:
    save(
        "pumps.csv",
        ["device,Date,Time,flow,heat"]
        + [f"{r.device},{r.time:%d/%m/%Y,%H:%M:%S},{r.flow},{r.heat}" for r in rows],
    )


def _headerless(rows: list[Row]) -> None:
    save("pumps.csv", [f"{r.device},{r.time.isoformat()},{r.flow},{r.heat}" for r in rows])


def _by_device(path: str) -> Callable[[list[Row]], None]:
    """Return what writes a CSV file for each device, whose path has its name in it."""

    def write(rows: list[Row]) -> None:
        for device in DEVICES:
            own = [f"{r.time.isoformat()},{r.flow},{r.heat}" for r in rows if r.device == device]
            save(path.format(device=device), ["time,flow,heat", *own])

    return write


def _json_lines(rows: list[Row]) -> None:
    save(
        "pumps.jsonl",
        [
            json.dumps(
                {"pump": {"name": r.device}, "time": r.time.isoformat(), "x": [r.flow, r.heat]}
            )
            for r in rows
        ],
    )


def _zipped(rows: list[Row]) -> None:
    _ISO(rows)
    with zipfile.ZipFile("pumps.csv.zip", "w") as archive:
        archive.write("pumps.csv")
    Path("pumps.csv").unlink()


def _workbook(rows: list[Row]) -> None:
    cells = [[r.device, r.time, r.flow, r.heat] for r in rows]
    Path("pumps.xlsx").write_bytes(workbook(Sheet1=[["device", "time", "flow", "heat"], *cells]))


def _snapshots(rows: list[Row]) -> None:
    for r in rows:
        save(f"pumps/{r.device}/{r.time:%Y.%m.%d.%H.%M.%S}", [f"{r.flow}\t{r.heat}"])


def _long(rows: list[Row]) -> None:
    lines = [
        f"{r.device},{r.time.isoformat()}Z,{metric},{getattr(r, metric)}"
        for r in rows
        for metric in CHANNELS
    ]
    save("pumps.csv", ["device,time,metric,value", *lines])


def _long_with_units(rows: list[Row]) -> None:
    units = {"flow": " l/s", "heat": "°C"}
    lines = [
        f"{r.device},{r.time.isoformat()}Z,{metric},{getattr(r, metric)}{unit}"
        for r in rows
        for metric, unit in units.items()
    ]
    save("pumps.csv", ["device,time,metric,value", *lines])


def _lines(rows: list[Row], header: str = "device,time,flow,heat") -> list[str]:
    """The lines of a plain CSV file."""
    return [header, *(f"{r.device},{r.time.isoformat()},{r.flow},{r.heat}" for r in rows)]


def _toa5(rows: list[Row]) -> None:
    above = ['"TOA5","plant","CR1000","1234","CR1000.Std.32","CPU:pumps.CR1","5678","minute"']
    names = '"TIMESTAMP","RECORD","device","flow","heat"'
    units = ['"TS","RN","","l/s","Deg C"', '"","","Smp","Avg","Avg"']
    lines = [f'"{r.time}",{at},"{r.device}",{r.flow},{r.heat}' for at, r in enumerate(rows)]
    save("pumps.dat", [*above, names, *units, *lines])


def _influx(rows: list[Row]) -> None:
    above = [
        "#group,false,false,false,true,false,false",
        "#datatype,string,long,dateTime:RFC3339,string,double,double",
        "#default,_result,,,,,",
        ",result,table,_time,device,flow,heat",
    ]
    table = {name: at for at, name in enumerate(DEVICES)}
    lines = [
        f",,{table[r.device]},{r.time.isoformat()}Z,{r.device},{r.flow},{r.heat}" for r in rows
    ]
    save("pumps.csv", [*above, *lines])


def _indexed(rows: list[Row]) -> None:
    first, *others = _lines(rows)
    save("pumps.csv", ["," + first, *(f"{at},{line}" for at, line in enumerate(others))])


_ISO = written("%Y-%m-%dT%H:%M:%SZ")


def _with_units(rows: list[Row]) -> None:
    lines = [f"{r.device},{r.time.isoformat()},{r.flow} l/s,{r.heat}°C" for r in rows]
    save("pumps.csv", ["device,time,flow,heat", *lines])


def _with_thousands(rows: list[Row]) -> None:
    lines = [f'{r.device},{r.time.isoformat()},"{r.flow:,}",{r.heat}' for r in rows]
    save("pumps.csv", ["device,time,flow,heat", *lines])


FORMS: dict[str, Form] = {
    "one row per line, times in ISO 8601": Form(written("%Y-%m-%dT%H:%M:%SZ")),
    "semicolons, decimal commas, times such as 01.03.2026 00:10": Form(_european),
    "date and time of day in two columns": Form(_two_columns),
    "times with the name of a zone, such as 2026-03-01 01:00:00 CET": Form(_central_european),
    "times such as Sun Mar 1 00:00:00 2026": Form(written("%a %b %d %H:%M:%S %Y")),
    "times such as 202603010000, as numbers or texts": Form(written("%Y%m%d%H%M")),
    "times of Excel or MATLAB, LabVIEW, Windows, .NET": Form(_excel),
    "times as numbers": Form(_milliseconds),
    "no header": Form(_headerless),
    "a file for each device": Form(_by_device("pumps/{device}.csv")),
    "a folder for each device, as Hive and Spark write them": Form(
        _by_device("pumps/device={device}/part-0.csv")
    ),
    "a file for each moment, device and time in its path": Form(_snapshots),
    "JSON, an object a line": Form(_json_lines),
    "an Excel workbook": Form(_workbook),
    "compressed text, a zip of one file": Form(_zipped),
    "standard input": Form(_ISO),
    "a row for each value (InfluxDB, Home Assistant, PI, OPC UA)": Form(_long),
    "a row for each value, with its unit after it": Form(_long_with_units),
    "lines above the header": Form(
        lambda rows: save("pumps.csv", ["Pumps, all of them", "2026", "", *_lines(rows)])
    ),
    "Excel's line `sep=;`": Form(
        lambda rows: save("pumps.csv", ["sep=;", *(x.replace(",", ";") for x in _lines(rows))])
    ),
    "units below the header": Form(
        lambda rows: save("pumps.csv", [_lines(rows)[0], ",,l/s,°C", *_lines(rows)[1:]])
    ),
    "Campbell's TOA5": Form(_toa5),
    "InfluxDB's annotated CSV, after `pivot`": Form(_influx),
    "a delimiter at the end of each line": Form(
        lambda rows: save("pumps.csv", [_lines(rows)[0], *(f"{x}," for x in _lines(rows)[1:])])
    ),
    "the index of pandas' `to_csv`": Form(_indexed),
    "a unit after each number": Form(_with_units),
    "thousands separators": Form(
        _with_thousands, [r._replace(flow=round(1000 * r.flow, 2)) for r in PLANT]
    ),
}
"""By the first cell of the table's row."""
