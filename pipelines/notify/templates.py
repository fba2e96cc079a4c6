"""What a webhook is sent: JSON with places for what there is to say."""

from __future__ import annotations

import json
import string
from pathlib import Path
from typing import Any

from kerneltrack.errors import ConfigError, DataError
from pipelines.notify.notices import RESOLVED, Event, Notice, iso_of

PLAIN = {
    name: f"${{{name}}}"
    for name in (
        *("key", "status", "device", "kind", "episode", "since", "until", "severity"),
        *("channels", "summary"),
    )
}
_SLACK = {"text": "${summary}"}
_TEAMS = {
    "type": "message",
    "attachments": [
        {
            "contentType": "application/vnd.microsoft.card.adaptive",
            "content": {
                "$$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": [{"type": "TextBlock", "text": "${summary}", "wrap": True}],
            },
        }
    ],
}
_PAGERDUTY = {
    "routing_key": "${secret}",
    "event_action": "${action}",
    "dedup_key": "${key}",
    "payload": {
        "summary": "${summary}",
        "source": "${device}",
        "severity": "error",
        "timestamp": "${since}",
        "component": "${channels}",
        "class": "${kind}",
    },
}
PRESETS = {"plain": PLAIN, "slack": _SLACK, "teams": _TEAMS, "pagerduty": _PAGERDUTY}
"""Slack's incoming webhooks, Teams' workflows, PagerDuty's Events API v2."""

FIELDS = (*PLAIN, "action", "secret")
"""Places that a template may have."""
MOST_TEMPLATE = 1 << 16


def read_template(field: str, path: str) -> Any:
    """Read a template: a JSON file.

    Raises:
        DataError: if it cannot be read.
        ConfigError: for a place that there is not, naming it.
    """
    try:
        data = Path(path).read_bytes()[:MOST_TEMPLATE]
        template = json.loads(data)
    except (OSError, ValueError) as error:
        raise DataError(path, f"{field} cannot be read as JSON: {error}") from error
    nothing = Notice("", 1, "", "open", 0, None, None, None, [])
    try:
        filled(template, Event(nothing), "")
    except KeyError as error:
        allowed = ", ".join(f"${{{name}}}" for name in FIELDS)
        raise ConfigError(f"{field}, {path}", f"${{{error.args[0]}}}", f"of {allowed}") from None
    except ValueError as error:
        raise ConfigError(f"{field}, {path}", str(error), "$$ for a dollar sign") from None
    return template


def filled(template: Any, event: Event, secret: str) -> Any:
    """Return a template with its places filled in.

    A text that is one place and nothing else becomes its value, a number for numbers; what has none
    is left out of its object.

    Example:
        >>> notice = Notice("pump-5", 2, "shift", "open", 9, None, None, 12.5, [])
        >>> filled({"text": "${device}: ${kind}", "level": "${severity}"}, Event(notice), "")
        {'text': 'pump-5: shift', 'level': 12.5}
    """
    return _filled(template, _values(event, secret))


def _values(event: Event, secret: str) -> dict[str, Any]:
    notice = event.opened
    return {
        "key": notice.key,
        "status": event.status,
        "device": notice.device,
        "kind": event.kind,
        "episode": notice.episode,
        "since": iso_of(notice.start),
        "until": iso_of(event.until),
        "severity": notice.severity,
        "channels": event.channels,
        "summary": event.summary,
        "action": "resolve" if event.status == RESOLVED else "trigger",
        "secret": secret,
    }


def _filled(part: Any, values: dict[str, Any]) -> Any:
    if isinstance(part, dict):
        found = {_text(name, values): _filled(value, values) for name, value in part.items()}
        kept = zip(found.items(), part.values(), strict=True)
        return {name: value for (name, value), given in kept if value is not None or given is None}
    if isinstance(part, list):
        return [_filled(each, values) for each in part]
    if not isinstance(part, str):
        return part
    name = part.removeprefix("${").removesuffix("}")
    if part == f"${{{name}}}" and name in values:
        return values[name]
    return _text(part, values)


def _text(text: str, values: dict[str, Any]) -> str:
    shown = {name: "" if value is None else value for name, value in values.items()}
    return string.Template(text).substitute(shown)
