"""Episodes over time as a picture, drawn as SVG: a line a device, or a line a channel of one."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import NamedTuple

from kerneltrack.errors import ConfigError
from kerneltrack.monitor.reference import Episode
from kerneltrack.monitor.reference.spec import LEAST_SHARE, RECOVERED

COLOURS = {
    **{"shift": "#c0392b", "ramp": "#d68910", "spike": "#7d3c98", "stuck": "#2471a3"},
    RECOVERED: "#1e8449",
}
_WIDTH, _LEFT, _RIGHT, _LINE, _TOP = 760, 150, 20, 18, 26
_LEAST = 3.0
_MOST_NAME = 20
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Clock(NamedTuple):
    """What shows the times of a picture.

    Attributes:
        zone: Its zone.
        name: Of the zone; empty for times of frames that have none.
    """

    zone: tzinfo = timezone.utc
    name: str = "UTC"


class ShadedSpan(NamedTuple):
    """Times (ns), or indexes, of a model's first and last row."""

    first: int
    last: int


class Plot:
    """A picture that notebooks show.

    Attributes:
        svg: The picture as text.
    """

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def __repr__(self) -> str:
        """Return what it is."""
        return f"<Plot: {len(self.svg):,} characters of SVG>"

    def _repr_svg_(self) -> str:
        """Return the picture, for notebooks."""
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the picture as SVG.

        Raises:
            ConfigError: for a name with another ending, such as `.png`: a picture is SVG.
            OSError: if the file cannot be written.
        """
        if Path(path).suffix.lower() != ".svg":
            raise ConfigError("path", str(path), "a name that ends in .svg, the only format")
        Path(path).write_text(self.svg, encoding="utf-8")


def draw(
    episodes: Sequence[tuple[str, Episode]],
    spans: Mapping[str, ShadedSpan],
    clock: Clock | None,
    models: int,
    most: int,
) -> Plot:
    """Draw models that have episodes, in the order of these.

    Args:
        episodes: Model and episode, the worst first.
        spans: From when to when models have rows.
        clock: What shows times; None: places are rows.
        models: How many models there are in all.
        most: Models that are drawn at most.
    """
    names = list(dict.fromkeys(key for key, _ in episodes))
    shown = names[:most]
    first = min((spans[key].first for key in shown), default=0)
    last = max((spans[key].last for key in shown), default=1)
    scale = (_WIDTH - _LEFT - _RIGHT) / max(last - first, 1)
    parts = [_text(8, 16, f"{len(names):,} of {models:,} devices have episodes", bold=True)]
    for line, key in enumerate(shown):
        top = _TOP + line * _LINE
        name = key if len(key) <= _MOST_NAME else key[: _MOST_NAME - 1] + "…"
        parts.append(_text(8, top + 12, name))
        begin, end = (_LEFT + (at - first) * scale for at in spans[key])
        parts.append(_bar(begin, top + 7, max(end - begin, _LEAST), 2, "#bbb"))
        for model, episode in reversed(episodes):
            if model == key:
                parts.append(_episode(episode, first, scale, clock, top))
    return _whole(parts, len(shown), first, last, clock)


def draw_device(
    name: str,
    episodes: Sequence[Episode],
    channels: Sequence[str],
    span: ShadedSpan,
    clock: Clock | None,
) -> Plot:
    """Draw a device's channels over time: in each episode those that explain it.

    Args:
        name: The device.
        episodes: Its episodes.
        channels: Names of the channels, in the order of the episodes' shares.
        span: From when to when it has rows.
        clock: What shows times; None: places are rows.
    """
    since = min([span.first, *(_span_of(each, clock)[0] for each in episodes)])
    scale = (_WIDTH - _LEFT - _RIGHT) / max(span.last - since, 1)
    count = f"{len(episodes):,} episode{'s' * (len(episodes) != 1)}"
    parts = [_text(8, 16, f"{name}: {count}", bold=True)]
    for line, channel in enumerate(channels):
        top = _TOP + line * _LINE
        parts.append(
            _text(8, top + 12, channel if len(channel) <= _MOST_NAME else channel[:19] + "…")
        )
        parts.append(_bar(_LEFT, top + 7, _WIDTH - _LEFT - _RIGHT, 2, "#bbb"))
        for episode in episodes:
            share = float(episode.shares[line])
            if share >= LEAST_SHARE:
                parts.append(_episode(episode, since, scale, clock, top, share))
    return _whole(parts, len(channels), since, span.last, clock)


def _whole(parts: list[str], lines: int, first: int, last: int, clock: Clock | None) -> Plot:
    """Return a picture of so many lines, with its axis and the colours of the kinds."""
    bottom = _TOP + lines * _LINE + 14
    parts += [
        _text(_LEFT, bottom, when(first, clock)),
        _text(_WIDTH - _RIGHT, bottom, when(last, clock), end=True),
    ]
    at = _LEFT
    for kind, colour in COLOURS.items():
        parts += [_bar(at, bottom + 8, 10, 10, colour), _text(at + 14, bottom + 17, kind)]
        at += 80
    height = bottom + 26
    style = "font-family='sans-serif' font-size='12' fill='#333'"
    return Plot(
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{_WIDTH}' height='{height}' "
        f"viewBox='0 0 {_WIDTH} {height}' {style}>"
        f"<rect width='100%' height='100%' fill='#fff'/>{''.join(parts)}</svg>"
    )


def _span_of(episode: Episode, clock: Clock | None) -> tuple[int, int]:
    if clock is not None:
        return int(episode.times[0]), int(episode.times[2])
    return episode.start, episode.row


def _episode(
    episode: Episode, first: int, scale: float, clock: Clock | None, top: int, share: float = 1.0
) -> str:
    begin, until = _span_of(episode, clock)
    left = _LEFT + max(begin - first, 0) * scale
    width = max((until - max(begin, first)) * scale, _LEAST)
    title = f"{episode.kind}, {episode.state}, since {when(begin, clock)}"
    shown = f"{title}, {share:.0%}" if share < 1 else title
    return _bar(left, top + 3, width, 10, COLOURS[episode.kind], shown, share)


def _bar(
    left: float,
    top: float,
    width: float,
    height: float,
    colour: str,
    title: str = "",
    share: float = 1.0,
) -> str:
    opacity = f" fill-opacity='{0.25 + 0.75 * share:.2f}'" if share < 1 else ""
    inside = f"<title>{html.escape(title)}</title>" if title else ""
    return (
        f"<rect x='{left:.1f}' y='{top:.1f}' width='{width:.1f}' height='{height:.1f}' "
        f"fill='{colour}'{opacity}>{inside}</rect>"
    )


def _text(left: float, top: float, text: str, *, bold: bool = False, end: bool = False) -> str:
    more = " font-weight='bold'" * bold + " text-anchor='end'" * end
    return f"<text x='{left:.0f}' y='{top:.0f}'{more}>{html.escape(text)}</text>"


def when(at: int, clock: Clock | None) -> str:
    """Return a time, ns, to the second on a clock, or a row's index where there is none."""
    if clock is None:
        return f"row {at:,}"
    moment = (_EPOCH + timedelta(microseconds=at // 1000)).astimezone(clock.zone)
    return f"{moment:%Y-%m-%d %H:%M:%S} {clock.name}".strip()
