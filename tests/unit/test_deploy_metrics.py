"""Alert rules and the dashboard: accepted by Prometheus's own tool, and whole."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from pipelines.flink.counters import KNOWN
from tests.deployment import ALERTS, DASHBOARD, check, dashboard_queries
from tests.parts import program

CASES = ALERTS.with_name("alerts_test.yaml")
SUBJECTS = ("Restarts", "CheckpointAge", "Lag", "LateRows", "InvalidRows")
WIDTH = 24


def promtool() -> str:
    return program("promtool", "prometheus")


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def alerts() -> list[str]:
    (group,) = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    return [rule["alert"] for rule in group["rules"]]


def test_promtool_accepts_the_rules() -> None:
    assert f"SUCCESS: {len(alerts())} rules found" in check(
        promtool(), "check", "rules", str(ALERTS)
    )


def test_alerts_come_when_they_should_and_only_then() -> None:
    check(promtool(), "test", "rules", str(CASES))
    came: dict[str, set[bool]] = {}
    for case in yaml.safe_load(CASES.read_text(encoding="utf-8"))["tests"]:
        for test in case["alert_rule_test"]:
            came.setdefault(test["alertname"], set()).add(bool(test["exp_alerts"]))
    assert came == {name: {True, False} for name in alerts()}
    assert all(any(name.endswith(subject) for name in alerts()) for subject in SUBJECTS)


def test_promtool_reads_every_query_of_the_dashboard(tmp_path: Path) -> None:
    queries = [query for panel in dashboard_queries(dashboard()).values() for query in panel]
    rules = [
        {
            "record": f"query:{number}",
            "expr": query.replace("$__rate_interval", "5m").replace("$job", ".*"),
        }
        for number, query in enumerate(queries)
    ]
    assert not any("$" in rule["expr"] for rule in rules)
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}))
    check(promtool(), "check", "rules", str(path))


def test_the_table_of_counters_has_all_that_the_status_shows() -> None:
    text = (ALERTS.parent.parent / "README.md").read_text(encoding="utf-8")
    table = text.partition("| counter | what it counts |")[2].partition("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", "".join(row.split("|")[1] for row in table.split("\n")[2:])))
    assert set(KNOWN) <= named


def test_the_dashboard_is_whole() -> None:
    """What Grafana needs of a dashboard: places that do not overlap, ids, sources and texts."""
    shown = dashboard()
    assert (shown["uid"], shown["schemaVersion"]) == ("kerneltrack", 39)
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
    assert variables == ["datasource", "job"]
