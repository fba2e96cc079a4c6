"""What `kerneltrack cluster status` finds in what a part has printed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from pipelines.cluster.java import find_java
from pipelines.cluster.status import last_error

EATS = """
class Eats {
    public static void main(String[] arguments) {
        var all = new java.util.ArrayList<long[]>();
        while (true) all.add(new long[1 << 20]);
    }
}
"""


def test_why_java_ended_itself_is_found(tmp_path: Path) -> None:
    output, source = tmp_path / "part.out", tmp_path / "Eats.java"
    assert last_error(output) is None
    output.write_text("Terminating due to java.lang.OutOfMemoryError: Metaspace\nanother start\n")
    assert last_error(output) == "java.lang.OutOfMemoryError: Metaspace"
    source.write_text(EATS)
    with output.open("a") as handle:
        flags = ["-Xmx64m", "-XX:+ExitOnOutOfMemoryError"]
        command = [find_java().command, *flags, str(source)]
        assert subprocess.run(command, stdout=handle, timeout=60, check=False).returncode == 3
    assert last_error(output) == "java.lang.OutOfMemoryError: Java heap space"
