"""What is known of devices as metrics for Prometheus.

Only devices that are off, changed or quiet have series of their own, the first `MOST_LISTED` of
them in the order of the table: a fleet of any size has a bounded number of series.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kerneltrack.fleet.devices import CHANGED, OFF, QUIET
from kerneltrack.monitor.reference.spec import LEAST_SHARE
from pipelines.devices.of_run import Line
from pipelines.devices.options import STATES
from pipelines.devices.text import in_order
from pipelines.report.clock import ns_of
from pipelines.report.data.incidents import Incident
from transforms.outputs import SILENT

MOST_LISTED = 1000
LISTED = (OFF, CHANGED, QUIET)

GAUGE, COUNTER = "gauge", "counter"
_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class Sample(NamedTuple):
    """A value of a metric.

    Attributes:
        labels: Labels by name.
        value: The value.
    """

    labels: dict[str, str]
    value: float


class Metric(NamedTuple):
    """A metric with its values.

    Attributes:
        name: Without the prefix `kerneltrack_`.
        kind: `GAUGE` or `COUNTER`.
        about: What it is.
        samples: Its values.
    """

    name: str
    kind: str
    about: str
    samples: Iterable[Sample]


class FleetMetrics:
    """Makes metrics of the lines of a fleet, and counts what begins between two readings."""

    def __init__(self) -> None:
        """Begin the counts at 0, as Prometheus expects of a process."""
        self._episodes: dict[str, int] | None = None
        self._silent: set[str] = set()
        self._began = self._fell_silent = 0

    def text(self, lines: Sequence[Line], incidents: Sequence[Incident] = ()) -> str:
        """Return the metrics in Prometheus' text format.

        Args:
            lines: What is known of each device.
            incidents: Those of which a device is still off.

        Cost: O(n log n) for n devices.
        """
        silent = {line["model_id"] for line in lines if _is_silent(line)}
        self._count(lines, silent)
        metrics = (*self._metrics(in_order(lines), silent), *_of_incidents(incidents))
        return "".join(map(_written, metrics))

    def _count(self, lines: Sequence[Line], silent: set[str]) -> None:
        """Count episodes and silences that are new; a device that is reset begins at 0 again."""
        episodes = {line["model_id"]: line["episodes"] for line in lines}
        if self._episodes is not None:
            before = self._episodes
            more = (many - before.get(name, 0) for name, many in episodes.items())
            self._began += sum(each for each in more if each > 0)
            self._fell_silent += len(silent - self._silent)
        self._episodes, self._silent = episodes, silent

    def _metrics(self, lines: Sequence[Line], silent: set[str]) -> Iterator[Metric]:
        states = [line["state"] for line in lines]
        counts = [Sample({"state": state}, states.count(state)) for state in STATES]
        yield Metric("devices", GAUGE, "Devices by state.", counts)
        about = "Devices that are off because they send nothing."
        yield Metric("devices_silent", GAUGE, about, [Sample({}, len(silent))])
        listed = [line for line in lines if line["state"] in LISTED]
        shown = listed[:MOST_LISTED]
        about = f"Devices off, changed or quiet beyond the {MOST_LISTED} that have series."
        yield Metric("devices_not_listed", GAUGE, about, [Sample({}, len(listed) - len(shown))])
        about = (
            "A device that is off, changed or quiet: its kind and the channel that explains most."
        )
        yield Metric("device_info", GAUGE, about, [Sample(_info(line), 1) for line in shown])
        since = ((line, line.get("since")) for line in shown)
        times = [
            Sample(_device(line), ns_of(time.removesuffix("Z")) / 1e9)
            for line, time in since
            if time
        ]
        about = "Event time since when it is so, in seconds since 1970."
        yield Metric("device_since_timestamp_seconds", GAUGE, about, times)
        severe = [
            Sample(_device(line), line["severity"])
            for line in shown
            if line["state"] != QUIET and line["severity"] is not None
        ]
        about = "Severity of the episode, as of its last update."
        yield Metric("device_severity", GAUGE, about, severe)
        about = "Episodes that began since this process did."
        yield Metric("episodes_total", COUNTER, about, [Sample({}, self._began)])
        about = "Devices that fell silent since this process began."
        yield Metric("silences_total", COUNTER, about, [Sample({}, self._fell_silent)])


def _of_incidents(incidents: Sequence[Incident]) -> Iterator[Metric]:
    about = "Incidents, devices that went off together, of which a device is still off."
    yield Metric("incidents", GAUGE, about, [Sample({}, len(incidents))])
    members = {name for each in incidents for name in each.devices}
    about = "Devices of these incidents, also those that have recovered."
    yield Metric("devices_in_incidents", GAUGE, about, [Sample({}, len(members))])


def _is_silent(line: Line) -> bool:
    return bool(line["state"] == OFF and line["kind"] == SILENT)


def _device(line: Line) -> dict[str, str]:
    return {"device": line["model_id"]}


def _info(line: Line) -> dict[str, str]:
    """Return a listed device's labels; of a quiet one, what ended before says nothing."""
    info = {**_device(line), "state": line["state"]}
    if line["state"] == QUIET:
        return info
    info["kind"] = line["kind"] or ""
    channels = line["channels"] or []
    if channels and channels[0]["share"] >= LEAST_SHARE:
        info["channel"] = channels[0]["channel"]
    return info


def _written(metric: Metric) -> str:
    name = f"kerneltrack_{metric.name}"
    lines = [f"# HELP {name} {metric.about}", f"# TYPE {name} {metric.kind}"]
    for labels, value in metric.samples:
        listed = ",".join(f'{key}="{text.translate(_ESCAPED)}"' for key, text in labels.items())
        lines.append(f"{name}{{{listed}}} {value!r}" if listed else f"{name} {value!r}")
    return "".join(f"{line}\n" for line in lines)
