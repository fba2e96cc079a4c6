"""`kerneltrack cluster logs`: the last lines of the parts' logs, and those to come."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pipelines.cluster.folder import Folder
from pipelines.cluster.interruption import Interruption
from pipelines.cluster.parts import PARTS
from pipelines.cluster.supervisor import NAME as SUPERVISOR
from pipelines.cluster.tail import Tail

WORKERS = "workers"
"""What the workers print, beside what they log: that comes to the TaskManager's log."""

NAMES = (*(part.name for part in PARTS), WORKERS, SUPERVISOR)
POLL = 0.5


def show(
    folder: Folder, names: Sequence[str], count: int, follow: bool, say: Callable[[str], None]
) -> None:
    """Show the logs of parts, each line behind the part's name if there are several.

    Args:
        folder: The cluster's.
        names: Which parts.
        count: How many of the last lines of each file.
        follow: Go on until Ctrl-C.
        say: Takes a line.
    """
    tails = [
        (f"{name:<12} | " if len(names) > 1 else "", Tail(path))
        for name in names
        for path in (folder.log(name), folder.output(name))
    ]
    for prefix, tail in tails:
        for line in tail.last(count):
            say(prefix + line)
    if not follow:
        return
    with Interruption() as interruption:
        while not interruption.came:
            for prefix, tail in tails:
                for line in tail.more():
                    say(prefix + line)
            interruption.pause(POLL)
