"""A live job among 100,000 hostile messages: all good rows come out, each bad message is a letter.

    python benchmarks/bench_hostile.py [MESSAGES]

Starts a cluster in a folder of its own and runs the job of `tests/e2e/test_stream_hostile.py` on
it, with its checks, a third of the messages each in JSON, Arrow and Avro; in Arrow the time is the
record's timestamp. Prints the seconds that each took.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from benchmarks.record import TIMES, Table
from tests.e2e.clusters import running
from tests.e2e.hostile_live import assert_undisturbed

MESSAGES = 100_000
FORMS = (("json", False), ("arrow", True), ("avro", False))


def main(messages: int) -> int:
    """Run all forms; a check that fails raises."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "cluster") as cluster:
        columns = ["form", "hostile messages, each a dead letter", "restarts", "s"]
        table = Table("live", "hostile", columns, tolerance=TIMES)
        for form, by_record in FORMS:
            begin = time.monotonic()
            count = -(-messages // len(FORMS))
            assert_undisturbed(cluster, form, count, by_record, Path(folder))
            seconds = time.monotonic() - begin
            table.add(form, f"{count:,}", 0, f"{seconds:.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else MESSAGES))
