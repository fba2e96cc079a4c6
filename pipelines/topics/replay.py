"""`kerneltrack replay`: the rows of files as a live stream of messages."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import io
import json
import shlex
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import fastavro
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kerneltrack.errors import ConfigError, KerneltrackError
from kerneltrack.settings import Range, check_number
from pipelines.cli import input_options
from pipelines.cli.command_line import INTERRUPTED_EXIT
from pipelines.cluster.interruption import Interruption
from pipelines.files.first_look import check_first_times
from pipelines.files.local_times import local_times, local_times_text
from pipelines.job import say
from pipelines.topics import options as replay_options
from pipelines.topics.admin import Topics
from transforms.chunks import encode_batch
from transforms.kafka import send
from transforms.read.column_options import LABEL_TYPES
from transforms.read.columns import Columns
from transforms.read.date_and_time import time_column
from transforms.read.formats import PieceRows
from transforms.read.local_times import LocalTimes, RowPlaces, read_times, settle, with_passages
from transforms.read.look import Input
from transforms.read.matrix import Feature, to_matrix
from transforms.read.model_ids import model_ids

SECOND = 1_000_000_000
MOST_ROWS = 100_000
FLUSH = 120.0
SEED = 20_260_101
"""Of the disorder: the same command sends the same order."""


class Sendable(NamedTuple):
    """A message to be sent.

    Attributes:
        due: ns since the first row, on the clock of the rows.
        key: The model's id.
        rows: Places of its rows in the table, in the order in which they are in it.
    """

    due: int
    key: str
    rows: npt.NDArray[np.int64]


class Replay:
    """Rows of files, in order of time, as messages.

    Args:
        files: The files.

    Attributes:
        columns: What each column is. What `--missing drop` leaves out is not sent, so that a list
            has as many numbers as are left.
        table: The features and the label, if there is one.
        models: Each row's model id.
        skipped: Rows without a usable id or time.
        local: Rows whose local time was in doubt.
    """

    def __init__(self, files: Input) -> None:
        """Read all rows, and put them in order."""
        columns = files.columns
        if columns.time is None:
            raise ConfigError("--time", "", "the column of the rows' times")
        tables, parts = [], []
        for source, info in enumerate(files.infos):
            for rows in info.read(columns.requests):
                tables.append(pa.Table.from_batches([rows.batch.select([*columns.requests])]))
                parts.append(_placed(rows, source, columns))
        table = pa.concat_tables(tables, promote_options="permissive").combine_chunks()
        times, ids, usable = (np.concatenate([part[i] for part in parts]) for i in range(3))
        self.local = functools.reduce(LocalTimes.plus, (part[3] for part in parts))
        self.skipped = len(table) - int(usable.sum())
        order = np.argsort(times, kind="stable")
        order = order[usable[order]]
        if not len(order):
            raise ConfigError("INPUT", files.paths[0], "files with a row that has a time")
        self.times = times[order]
        self.models = ids[order]
        self.columns, self.table = _shortened(columns, table.take(pa.array(order)))

    def messages(self, size: int, disorder: int) -> list[Sendable]:
        """Return messages of up to `size` rows of one model, in order of sending.

        Args:
            size: Rows of each; a model's last one may have fewer.
            disorder: ns, by less than which rows come after their turn.
        """
        since = self.times - self.times[0]
        arrival = since
        if disorder:
            arrival = since + np.random.default_rng(SEED).integers(0, disorder, len(since))
        turn = np.argsort(arrival, kind="stable")
        found = []
        for name in dict.fromkeys(self.models.tolist()):
            rows = turn[self.models[turn] == name]
            for start in range(0, len(rows), size):
                part = rows[start : start + size]
                found.append(Sendable(int(arrival[part[-1]]), name, part))
        return sorted(found, key=lambda message: message.due)

    def value(self, rows: npt.NDArray[np.int64], times: npt.NDArray[np.int64], form: str) -> bytes:
        """Write rows as one message.

        Args:
            rows: Their places.
            times: Their times, ns.
            form: "json", "arrow" or "avro".
        """
        part = self.table.take(pa.array(rows))
        columns: dict[str, Any] = {"time": pa.array(times)}
        table = self.columns.long
        names = [feature.name for feature in self.columns.features]
        names += [] if table is None else [table.metric, table.value]
        if self.columns.label is not None:
            names.append(self.columns.label)
        columns |= {name: _whole(part, name) for name in names}
        if form == "arrow":
            return encode_batch(pa.RecordBatch.from_pydict(columns))
        listed = {name: column.to_pylist() for name, column in columns.items()}
        records = [
            dict(zip(listed, row, strict=True)) for row in zip(*listed.values(), strict=True)
        ]
        if form == "avro":
            return _avro(columns, records)
        return json.dumps(records[0] if len(records) == 1 else records).encode("utf-8")


def _shortened(columns: Columns, table: pa.Table) -> tuple[Columns, pa.Table]:
    """Return lists with the numbers that are channels alone."""
    features = list(columns.features)
    for at, feature in enumerate(features):
        if feature.keep is None:
            continue
        name, place = feature.name, table.schema.get_field_index(feature.name)
        part = to_matrix(pa.RecordBatch.from_pydict({name: _whole(table, name)}), [feature], "f8")
        lists = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), part.shape[1])
        table = table.set_column(place, name, lists)
        features[at] = Feature(name, part.shape[1])
    return dataclasses.replace(columns, features=tuple(features)), table


def _placed(rows: PieceRows, source: int, columns: Columns) -> tuple[Any, Any, Any, LocalTimes]:
    """Return rows' times and ids, which of them have both, and how many times were in doubt."""
    times = read_times(time_column(rows.batch, columns), columns)
    names, model = model_ids(rows.batch, columns)
    places = RowPlaces(names, model, np.full(len(model), source, dtype=np.int32), rows.row)
    settled = settle(times, columns, places)
    usable = ~times.bad & (model >= 0)
    for refused, _ in settled.refused:
        usable &= ~refused
    return settled.time, np.array([*names, None], dtype=object)[model], usable, settled.counts


def _avro(columns: dict[str, pa.Array], records: list[dict[str, Any]]) -> bytes:
    """Write records as an Avro object container file."""
    kinds = [(name, _avro_type(column.type)) for name, column in columns.items()]
    fields = [{"name": name, "type": ["null", kind]} for name, kind in kinds]
    handle = io.BytesIO()
    fastavro.writer(handle, {"type": "record", "name": "Row", "fields": fields}, records)
    return handle.getvalue()


def _avro_type(kind: pa.DataType) -> Any:
    if pa.types.is_fixed_size_list(kind):
        return {"type": "array", "items": ["null", "double"]}
    if pa.types.is_floating(kind):
        return "double"
    return "long" if pa.types.is_integer(kind) else "string"


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    return column.chunk(0) if isinstance(column, pa.ChunkedArray) else column


def run(args: argparse.Namespace) -> int:
    """Send the rows.

    Returns:
        The exit code: 0, or 130 after Ctrl-C.

    Raises:
        ConfigError: for a bad flag or column.
        KerneltrackError: if Kafka does not answer or messages do not arrive.
    """
    check_number("--speed", args.speed, Range(0, 1e6))
    check_number("--message-rows", args.message_rows, Range(1, MOST_ROWS))
    check_number("--disorder", args.disorder, Range(0, 1e6))
    client = replay_options.client_settings(args)
    topics = Topics(client)
    if args.create_topic:
        topics.create([args.topic], args.create_topic)
    topics.check_output("--topic", args.topic)
    looked = input_options.look_at_input(args)
    files = Input(looked.infos, with_passages(looked.infos, looked.columns))
    for warning in check_first_times(files.infos, files.columns):
        say(f"warning:  {warning}")
    replay = Replay(files)
    messages = replay.messages(args.message_rows, round(args.disorder * SECOND))
    if args.rows is not None:
        messages = _first(messages, args.rows)
    sender = Sender(client)
    with Interruption() as interruption:
        sent = _send_all(replay, messages, sender, args, interruption)
        came = interruption.came
    sender.finish()
    skipped = f", {replay.skipped:,} rows without id or time left out" if replay.skipped else ""
    doubt = local_times_text(local_times(files.columns, replay.local))
    say(f"{sent:,} rows in {sender.sent:,} messages sent to {args.topic}{skipped}{doubt}")
    if args.create_topic:
        say("a live job reads them with " + " ".join(_flags(replay.columns, args.message_format)))
    return INTERRUPTED_EXIT if came else 0


def _flags(columns: Columns, form: str) -> list[str]:
    """Return the flags of `stream` for what is sent: the model's id is the message's key."""
    names = [
        feature.name if feature.width is None else f"{feature.name}[{feature.width}]"
        for feature in columns.features
    ]
    flags = [] if form == "json" else ["--format", form]
    if columns.long is not None:
        names = list(columns.long.channels)
        flags += ["--metric", columns.long.metric, "--value", columns.long.value]
    words = [*flags, "--features", *names, "--time", "time", "--time-unit", "ns"]
    if columns.label is not None:
        words += ["--label", columns.label]
        # A live job, which sees no file first, takes labels for texts.
        if columns.label_type != pa.string():
            (kind,) = (n for n in LABEL_TYPES if pa.type_for_alias(n) == columns.label_type)
            words += ["--label-type", kind]
    if columns.options.missing == "hold":
        words += ["--missing", "hold"]
    return [shlex.quote(word) for word in words]


def _first(messages: Sequence[Sendable], rows: int) -> list[Sendable]:
    kept, total = [], 0
    for message in messages:
        if total >= rows:
            break
        kept.append(message._replace(rows=message.rows[: rows - total]))
        total += len(message.rows)
    return kept


def _send_all(
    replay: Replay,
    messages: Sequence[Sendable],
    sender: Sender,
    args: argparse.Namespace,
    interruption: Interruption,
) -> int:
    """Send each message when it is due; return the number of rows."""
    began, first, sent = time.time_ns(), int(replay.times[0]), 0
    started = time.monotonic_ns()  # The wall clock may jump.
    for message in messages:
        if args.speed:
            wait = started + message.due / args.speed - time.monotonic_ns()
            if wait > 0:
                interruption.pause(wait / SECOND)
        if interruption.came:
            break
        times = replay.times[message.rows]
        if args.times == "now":
            times = began + ((times - first) / (args.speed or 1)).astype(np.int64)
        value = replay.value(message.rows, times, args.message_format)
        sender.send(args.topic, (message.key.encode(), value, []))
        sent += len(message.rows)
    return sent


class Sender(send.Sender):
    """A producer whose messages must all arrive."""

    def finish(self) -> None:
        """Wait until all have arrived.

        Raises:
            KerneltrackError: if they do not.
        """
        failed = self.flush(FLUSH)
        if failed:
            why = str(self.errors[0]) if self.errors else "no answer"
            raise KerneltrackError(f"{failed} messages did not arrive: {why}")
