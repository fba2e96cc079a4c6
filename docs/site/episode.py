"""The picture of one episode in docs/detection.md, of a pump of `make demo`."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
PUMP = "pump-180"
CHANNEL = "wz"
REFERENCE_ROWS = 512
# Read on a light page and on a dark one.
INK = "#808080"
SPAN = "#d4891c"


def of_pump(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the rows of a table that are of the pump."""
    return table[table[name] == PUMP]


def main() -> None:
    """Draw a channel of the pump and how surprising its rows are, with the episode's times."""
    rows = of_pump(pd.read_parquet(ROOT / "build/fleet/rows.parquet"), "device")
    features = of_pump(pd.read_parquet(ROOT / "build/demo/features"), "model_id")
    episode = of_pump(pd.read_parquet(ROOT / "build/demo/episodes"), "model_id").iloc[-1]
    features = features.sort_values("index")
    plt.rcParams.update(
        {
            "svg.hashsalt": "episode",
            "font.size": 9,
            "text.color": INK,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "xtick.color": INK,
            "ytick.color": INK,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    )
    figure, (above, below) = plt.subplots(2, sharex=True, figsize=(8, 3.6), layout="constrained")
    above.plot(range(len(rows)), rows[CHANNEL], color=INK, linewidth=0.6)
    above.set_ylabel(f"{PUMP}: {CHANNEL}")
    below.plot(features["index"], features.ref_score, color=INK, linewidth=0.6)
    below.set_ylabel("ref_score")
    below.set_xlabel("row")
    top = rows[CHANNEL].max()
    above.text(REFERENCE_ROWS / 2, top, "taken as normal", ha="center", va="top")
    for panel in (above, below):
        panel.axvspan(0, REFERENCE_ROWS, color=INK, alpha=0.12, linewidth=0)
        panel.axvspan(episode.start_index, episode.last_index, color=SPAN, alpha=0.25, linewidth=0)
        panel.axvline(episode.start_index, color=SPAN)
        panel.axvline(episode.detected_index, color=SPAN, linestyle="--")
    above.text(episode.start_index - 6, top, "start", ha="right", va="top")
    above.text(episode.detected_index + 6, top, "detected", ha="left", va="top")
    figure.savefig(
        ROOT / "docs/images/episode.svg", transparent=True, metadata={"Date": None, "Creator": None}
    )


if __name__ == "__main__":
    main()
