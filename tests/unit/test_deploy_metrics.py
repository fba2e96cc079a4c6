"""Alert rules and dashboards: accepted by Prometheus's own tool, and whole."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from pipelines.flink.counters import KNOWN
from tests.deployment import (
    ALERTS,
    DASHBOARD,
    FLEET_ALERTS,
    FLEET_DASHBOARD,
    check,
    dashboard_queries,
)
from tests.parts import program

SUBJECTS = {
    ALERTS: ("Restarts", "CheckpointAge", "Lag", "LateRows", "InvalidRows"),
    FLEET_ALERTS: ("DeviceOff", "DeviceSilent", "DeviceChanged", "ManyOff"),
}
VARIABLES = {DASHBOARD: ["datasource", "job"], FLEET_DASHBOARD: ["datasource", "fleet", "device"]}
of_each = pytest.mark.parametrize("alerts", SUBJECTS, ids=lambda path: str(path.stem))
of_both = pytest.mark.parametrize("path", VARIABLES, ids=lambda path: str(path.stem))
WIDTH = 24


def promtool() -> str:
    return program("promtool", "prometheus")


def dashboard(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def names_of(alerts: Path) -> list[str]:
    (group,) = yaml.safe_load(alerts.read_text(encoding="utf-8"))["groups"]
    return [rule["alert"] for rule in group["rules"]]


@of_each
def test_promtool_accepts_the_rules(alerts: Path) -> None:
    assert f"SUCCESS: {len(names_of(alerts))} rules found" in check(
        promtool(), "check", "rules", str(alerts)
    )


@of_each
def test_alerts_come_when_they_should_and_only_then(alerts: Path) -> None:
    cases = alerts.with_name(f"{alerts.stem}_test.yaml")
    check(promtool(), "test", "rules", str(cases))
    came: dict[str, set[bool]] = {}
    for case in yaml.safe_load(cases.read_text(encoding="utf-8"))["tests"]:
        for test in case["alert_rule_test"]:
            came.setdefault(test["alertname"], set()).add(bool(test["exp_alerts"]))
    names = names_of(alerts)
    assert came == {name: {True, False} for name in names}
    assert all(any(name.endswith(subject) for name in names) for subject in SUBJECTS[alerts])


@of_both
def test_promtool_reads_every_query_of_a_dashboard(path: Path, tmp_path: Path) -> None:
    queries = [query for panel in dashboard_queries(dashboard(path)).values() for query in panel]
    rules = [
        {
            "record": f"query:{number}",
            "expr": re.sub(r"\$(job|fleet|device)", "x", query.replace("$__rate_interval", "5m")),
        }
        for number, query in enumerate(queries)
    ]
    assert not any("$" in rule["expr"] for rule in rules)
    written = tmp_path / "queries.yaml"
    written.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    check(promtool(), "check", "rules", str(written))


def test_the_table_of_counters_has_all_that_the_status_shows() -> None:
    text = (ALERTS.parent.parent / "README.md").read_text(encoding="utf-8")
    table = text.partition("| counter | what it counts |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.split("\n")[2:])))
    assert set(KNOWN) <= named


@of_both
def test_a_dashboard_is_whole(path: Path) -> None:
    """What Grafana needs of a dashboard: places that do not overlap, ids, sources and texts."""
    shown = dashboard(path)
    assert shown["uid"] == {DASHBOARD: "kerneltrack", FLEET_DASHBOARD: "kerneltrack-fleet"}[path]
    assert shown["schemaVersion"] == 39
    panels = shown["panels"]
    assert [panel["id"] for panel in panels] == list(range(1, len(panels) + 1))
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        assert panel["title"]
        assert panel["description"]
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        taken |= cells
        letters = [target["refId"] for target in panel["targets"]]
        assert letters == [chr(ord("A") + number) for number in range(len(letters))]
        for part in (panel, *panel["targets"]):
            assert part["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    variables = [variable["name"] for variable in shown["templating"]["list"]]
    assert variables == VARIABLES[path]
    used = set(re.findall(r"\$(\w+)|\$\{(\w+)", json.dumps(panels)))
    named = {plain or braced for plain, braced in used if not (plain or braced).startswith("__")}
    assert named == {*variables}
