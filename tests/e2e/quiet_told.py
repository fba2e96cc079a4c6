"""Quiet times that live jobs are told of while they run, and what the file job makes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.cli.main import main
from tests.e2e.clusters import wait_for
from tests.e2e.jobs import features_of, table_of, track
from tests.e2e.live import COLUMNS, SPECS, Live, Recording, assert_same_bits, settled
from transforms.keyed.commands import HEADER, QUIET, SAID

SCORES = ("loss", "ref_loss", "ref_distance", "ref_score", "p")
WRONG = b'{"device": "watch", "from": "soon", "to": "2026-03-02"}'


class ToldTimes:
    """Quiet times of a recording: one of a device, one of all, one that is cancelled.

    Args:
        recording: The rows; the times are of those of its second half.
        folder: Where the file of quiet times, and that of the devices, go.
        reference: Flags of the reference.
    """

    def __init__(self, recording: Recording, folder: Path, *reference: str) -> None:
        """Find the times."""
        self._recording, self._folder, self._reference = recording, folder, reference
        table = pq.read_table(recording.files[0])
        self.name = min(table.column("model_id").to_pylist())
        own = table.filter(pa.compute.equal(table.column("model_id"), self.name))
        self._times = own.column("time").cast(pa.timestamp("ns")).to_numpy()
        self.file, self._halls = folder / "told.csv", folder / "halls.csv"
        names = sorted(
            {
                name
                for each in recording.files
                for name in pq.read_table(each)["model_id"].to_pylist()
            }
        )
        self._halls.write_text("device,group\n" + "".join(f"{name},north\n" for name in names))

    def _span(self, first: int, stop: int) -> tuple[str, ...]:
        at = [np.datetime_as_string(self._times[row], unit="ns") + "Z" for row in (first, stop)]
        return "--from", at[0], "--to", at[1]

    def tell(self, live: Live) -> None:
        """Tell a job, and write them down."""
        told = ("--send", live.topic, *live.place, "--file", str(self.file))
        by_hall = (*told, "--groups", str(self._halls))
        assert main(["quiet", self.name, *self._span(700, 800), "--why", "bearing", *told]) == 0
        assert main(["quiet", "*", *self._span(1000, 1040), *by_hall]) == 0
        assert main(["quiet", "--group", "north", *self._span(850, 900), *by_hall]) == 0
        assert main(["quiet", self.name, *self._span(950, 1180), *told]) == 0
        assert main(["quiet", self.name, *self._span(950, 1180), *told, "--cancel"]) == 0
        producer = confluent_kafka.Producer(live.client)
        headers: Any = [(HEADER, QUIET.encode()), (SAID, WRONG)]
        producer.produce(live.topic, None, self.name.encode(), headers=headers)
        assert producer.flush(60) == 0

    def check(self, live: Live) -> None:
        """Hold what comes out against a file job whose file has them."""
        assert self.file.read_text().count("\n") == 4
        recording, output = self._recording, self._folder / "of-files"
        files = [*map(str, recording.files), *COLUMNS, *SPECS, *self._reference]
        # A file job knows the group of a device by a column.
        text = self.file.read_text().replace("*,,", "*,").replace(f"{self.name},,", f"{self.name},")
        text = text.replace("device,group", "device").replace(",north,", "*,")
        quiet = self._folder / "quiet.csv"
        quiet.write_text(text)
        track(*files, "--quiet", str(quiet), "--output", str(output))
        wanted = settled(features_of(output), recording.rows)
        passed = np.isnan(wanted.column("p").to_numpy().astype(float))
        of_device = wanted.column("model_id").to_numpy() == self.name
        index = wanted.column("index").to_numpy()
        assert passed[of_device & (index >= 700) & (index < 800)].all()
        assert passed[of_device & (index >= 1040)].sum() == 0
        assert passed[~of_device & (index >= 700) & (index < 800)].sum() == 0
        found = live.read("", wanted.num_rows, self._folder)
        assert_same_bits(found, wanted, SCORES)
        episodes = settled(table_of(output, "episodes"), recording.rows)
        lines = live.read("-episodes", len(episodes), self._folder)
        assert_same_bits(lines, episodes, ("episode", "state", "p", "start_index"))
        letters = f"{live.topic}-out-dead-letters"
        wait_for("the dead letter", lambda: sum(live.sizes(letters)) > 0)
        consumer = confluent_kafka.Consumer({**live.client, "group.id": "letters"})
        parts = range(len(live.sizes(letters)))
        consumer.assign([confluent_kafka.TopicPartition(letters, part, 0) for part in parts])
        letter = consumer.poll(60)
        consumer.close()
        assert letter is not None
        reason = dict(letter.headers() or [])["reason"]
        assert isinstance(reason, bytes)
        text = reason.decode()
        assert text.startswith("command quiet: entry 1, from = 'soon': must be a time in ISO")
