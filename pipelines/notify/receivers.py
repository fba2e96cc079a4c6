"""Receivers of notifications: what one is, Alertmanager, and webhooks."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kerneltrack.errors import printable
from pipelines.notify.notices import Event, iso_of
from pipelines.notify.post import post
from pipelines.notify.templates import filled

ALERTS = "/api/v2/alerts"
YEAR = 365 * 86_400
MOST_ALERTS = 500
"""Alerts of a request."""


class Receiver(Protocol):
    """Somebody who is notified."""

    @property
    def name(self) -> str:
        """What it is called, the same for each run."""
        ...

    @property
    def most(self) -> int:
        """Notifications of one message, at most."""
        ...

    @property
    def again(self) -> float | None:
        """Seconds after which all that goes on is sent again; None: never."""
        ...

    def send(self, events: Sequence[Event]) -> None:
        """Send notifications, at most `most`.

        Raises:
            DeliveryError: if they were not delivered.
        """
        ...


@dataclass(frozen=True)
class Alertmanager:
    """Prometheus' Alertmanager, by its API v2.

    An alert ends a year after it was sent last, unless its end is sent: Alertmanager would take it
    for resolved after five minutes. It keeps alerts in memory alone, so they are sent again.

    Attributes:
        url: Its address, without `ALERTS`.
        headers: More headers.
        labels: More labels of each alert.
    """

    url: str
    headers: Mapping[str, str]
    labels: Mapping[str, str]
    name: str = "alertmanager"
    most: int = MOST_ALERTS
    again: float | None = 60.0

    def send(self, events: Sequence[Event]) -> None:
        """Send alerts; see `Receiver.send`."""
        now = time.time_ns()
        alerts = [self._alert(event, now) for event in events]
        post("Alertmanager", self.url.rstrip("/") + ALERTS, alerts, self.headers)

    def _alert(self, event: Event, now: int) -> dict[str, Any]:
        notice = event.opened
        start = now if notice.start is None else min(notice.start, now)
        end = now + YEAR * 10**9
        if event.over:
            end = max(min(event.until or now, now), start + 10**6)
        return {
            "labels": {
                "alertname": "DeviceOff",
                "device": printable(notice.device),
                **({"kind": notice.settled_kind} if notice.settled_kind else {}),
                "episode": notice.own,
                **self.labels,
            },
            "annotations": {"summary": event.summary, "channels": event.channels},
            "startsAt": iso_of(start),
            "endsAt": iso_of(end),
        }


@dataclass(frozen=True)
class Webhook:
    """An address that takes JSON: a message for each notification.

    Attributes:
        url: The address.
        template: What is sent, as of `templates.filled`.
        headers: More headers.
        secret: What `${secret}` is in the template; "" without.
    """

    url: str
    template: Any
    headers: Mapping[str, str]
    secret: str = ""
    name: str = "webhook"
    most: int = 1
    again: float | None = None

    def send(self, events: Sequence[Event]) -> None:
        """Send a message for each; see `Receiver.send`."""
        for event in events:
            post("The webhook", self.url, filled(self.template, event, self.secret), self.headers)
