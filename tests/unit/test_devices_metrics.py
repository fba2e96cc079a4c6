"""What `kerneltrack devices --serve` shows to Prometheus."""

from __future__ import annotations

import re
import socket
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.likeness import channel
from pipelines.cli.main import main
from pipelines.devices.metrics import MOST_LISTED, FleetMetrics
from pipelines.devices.serve import MetricsServer
from pipelines.report.data.incidents import Incident
from tests.deployment import check
from tests.parts import missing, program

SINCE = "2026-03-01T19:59:00.500000000Z"


def line(name: str, state: str, **changed: Any) -> dict[str, Any]:
    given = {"model_id": name, "state": state, "rows": 9, "since_index": None, "since": None}
    given |= {"episodes": 0, "kind": None, "severity": None, "channels": None}
    return {**given, **changed}


def off(
    name: str, episodes: int = 1, severity: float | None = 12.5, **changed: Any
) -> dict[str, Any]:
    given: dict[str, Any] = {
        "state": "off",
        "kind": "shift",
        "since": SINCE,
        "severity": severity,
        "episodes": episodes,
    }
    given["channels"] = [channel("heat", 0.9, 3.0), channel("flow", 0.1, None)]
    return line(name, **{**given, **changed})


def silent(name: str) -> dict[str, Any]:
    return off(name, 0, kind="silent", severity=None, channels=[])


def values(text: str) -> dict[str, float]:
    """The samples, by name and labels."""
    samples = [each.rpartition(" ") for each in text.splitlines() if not each.startswith("#")]
    return {name.removeprefix("kerneltrack_"): float(value) for name, _, value in samples}


def test_counts_are_of_all_devices_and_series_of_those_to_look_at(tmp_path: Path) -> None:
    odd = 'pump "5"\\\n'
    lines = [line("well", "normal", episodes=3), line("new", "learning"), silent("lost")]
    lines += [off(odd), off("stays", state="changed"), off("rests", state="quiet")]
    members = (("stays", 1), ("rests", 1))
    incident = Incident(1, members, ("rests", "stays"), None, 0, 0, 1, 1e-3)
    text = FleetMetrics().text(lines, [incident])
    found = values(text)
    assert {name: value for name, value in found.items() if "device=" not in name} == {
        'devices{state="off"}': 2,
        'devices{state="changed"}': 1,
        'devices{state="normal"}': 1,
        'devices{state="quiet"}': 1,
        'devices{state="learning"}': 1,
        'devices{state="unwatched"}': 0,
        "devices_silent": 1,
        "devices_not_listed": 0,
        "incidents": 1,
        "devices_in_incidents": 2,
        "episodes_total": 0,
        "silences_total": 0,
    }
    escaped = r'device="pump \"5\"\\\n"'
    assert found[f'device_info{{{escaped},state="off",kind="shift",channel="heat"}}'] == 1
    assert found['device_info{device="stays",state="changed",kind="shift",channel="heat"}'] == 1
    assert found['device_info{device="lost",state="off",kind="silent"}'] == 1
    assert found['device_info{device="rests",state="quiet"}'] == 1
    assert found[f"device_since_timestamp_seconds{{{escaped}}}"] == 1772395140.5
    assert found[f"device_severity{{{escaped}}}"] == 12.5
    assert "well" not in text and 'device_severity{device="rests"' not in text
    # Prometheus' own reader takes them.
    path = tmp_path / "metrics"
    path.write_text(text)
    promtool = program("promtool", "prometheus")
    assert check("sh", "-c", f"{promtool} check metrics < {path}") == ""


def test_a_fleet_of_any_size_has_few_series() -> None:
    """The most severe ones have them, with or without times."""
    many = 3 * MOST_LISTED
    lines = [off(f"pump-{n}", severity=float(n), since=None) for n in range(many)]
    found = values(FleetMetrics().text(lines))
    assert found['devices{state="off"}'] == many
    assert found["devices_not_listed"] == many - MOST_LISTED
    shown = [name for name in found if name.startswith("device_severity")]
    assert len(shown) == MOST_LISTED
    assert shown[0] == f'device_severity{{device="pump-{many - 1}"}}'
    assert not any("since" in name for name in found)


def test_what_begins_is_counted_once() -> None:
    metrics = FleetMetrics()

    def counts(*lines: dict[str, Any]) -> tuple[float, float]:
        found = values(metrics.text(lines))
        return found["episodes_total"], found["silences_total"]

    # What there was before the process is not counted.
    assert counts(off("a", 5), silent("b")) == (0, 0)
    assert counts(off("a", 5), silent("b")) == (0, 0)
    assert counts(off("a", 7), line("b", "normal")) == (2, 0)
    assert counts(off("a", 7), silent("b"), off("new", 1)) == (3, 1)
    # A device that is reset, or gone, takes nothing away.
    assert counts(line("a", "learning"), off("new", 1)) == (3, 1)
    assert counts(off("a", 1), off("new", 1)) == (4, 1)


def test_it_is_served_where_prometheus_asks() -> None:
    def answer(url: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(url, timeout=10) as found:
                assert found.headers["Content-Type"].startswith("text/plain; version=0.0.4")
                return found.status, found.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ""

    with MetricsServer("127.0.0.1:0") as server:
        assert answer(server.url)[0] == 503
        server.show("kerneltrack_devices 1\n")
        assert answer(server.url) == (200, "kerneltrack_devices 1\n")
        assert answer(server.url.replace("/metrics", "/"))[0] == 404
        taken = re.findall(r"//(.*)/metrics", server.url)[0]
        with pytest.raises(ConfigError, match=f"--serve = '{taken}': must be a free address"):
            MetricsServer(taken)


def test_it_is_served_over_ipv6() -> None:
    if not socket.has_ipv6:
        missing("this host has no IPv6")
    with MetricsServer("[::1]:0") as server:
        assert re.fullmatch(r"http://\[::1\]:\d+/metrics", server.url)
        server.show("x 1\n")
        with urllib.request.urlopen(server.url, timeout=10) as found:
            assert found.read() == b"x 1\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["--serve", "9469"], "--serve = '9469': must be HOST:PORT"),
        (["--serve", "127.0.0.1:70000"], "must be HOST:PORT"),
        (["--serve", "127.0.0.1:0", "--json"], "--json = True: must be left out with --serve"),
        (["--serve", "127.0.0.1:0", "--state", "off"], "left out with --serve"),
    ],
)
def test_bad_addresses_are_one_line(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["devices", "run", *words]) == 2
    text = capsys.readouterr().err
    assert error in text and len(text.splitlines()) == 1
