"""Simulate live jobs: `python -m tests.simulation --seed 0 --steps 1000000`.

One history after the other, each drawn from the next seed, until so many steps are done. The first
that goes wrong is made smaller and printed, with the command that runs it again.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.simulation.history import Bundle, History, draw
from tests.simulation.run import simulate
from tests.simulation.shrink import shrink


def main() -> int:
    """Run histories; return 1 if one went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first history (0)")
    parser.add_argument("--steps", type=int, default=20_000, help="at least so many (20000)")
    parser.add_argument("--shrink", type=float, default=120.0, help="seconds for it (120)")
    asked = parser.parse_args()
    began, steps, seed = time.monotonic(), 0, asked.seed
    while steps < asked.steps:
        history = draw(seed)
        try:
            steps += simulate(history)
        except Exception as error:
            print(report(history, error, asked.shrink))
            return 1
        seed += 1
    took = time.monotonic() - began
    print(f"{steps} steps of {seed - asked.seed} histories, {took:.0f} s: all as the core has it")
    return 0


def report(history: History, error: Exception, seconds: float) -> str:
    """Return what went wrong, in as small a history as is found in these seconds."""
    kind = type(error)

    def fails(smaller: History) -> bool:
        try:
            simulate(smaller)
        except Exception as other:
            return type(other) is kind
        return False

    small = shrink(history, fails, seconds)
    try:
        simulate(small)
    except Exception as last:
        error = last
    lines = [f"Seed {history.setup.seed} goes wrong:", f"{kind.__name__}: {error}"[:4000]]
    lines += ["", f"{small.setup}"]
    for action in small.actions:
        if isinstance(action, Bundle):
            lines.append(f"{action._replace(entries=())}")
            lines += [f"    {entry}" for entry in action.entries]
        else:
            lines.append(f"{action}")
    lines += ["", f"Again: python -m tests.simulation --seed {history.setup.seed} --steps 1"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
