"""`kerneltrack stream`: a live job on Flink, or in this process."""

from __future__ import annotations

import argparse
import gc
import sys
import time
from contextlib import closing
from pathlib import Path

from apache_beam.options.pipeline_options import PipelineOptions

from kerneltrack.errors import ConfigError
from pipelines.calls import Calls
from pipelines.cli import kafka_options
from pipelines.cli.command_line import SIGNAL_EXIT, UsageError, refuse
from pipelines.cluster.folder import named_cluster
from pipelines.cluster.interruption import Interruption
from pipelines.job import say
from pipelines.job_spec import Job
from pipelines.live import options as stream_options
from pipelines.live import stream as on_flink
from pipelines.live.jobs import (
    AUTO,
    FORMATS,
    LATEST,
    LOCAL_RECORD,
    Left,
    Record,
    check_same,
    read_record,
)
from pipelines.live.pipeline import LiveEnds, digest, outputs_of
from pipelines.live.status import letters_command, refusal
from pipelines.local.engine import Engine, Pace
from pipelines.local.models import Models
from pipelines.local.presence import Presence
from pipelines.local.steps import LocalSteps
from pipelines.local.store import Offsets, Store
from pipelines.output_lock import locked_folder
from pipelines.topics.admin import Topics, are_offsets, start_offsets
from transforms.outputs import DEAD_LETTERS, FEATURES
from transforms.read.columns import Columns

FOLDER = "local"
"""Where, in the folder of a cluster, the states of local jobs lie, by topic."""
OF_FLINK = ("flink", "expansion_service", "parallelism")
CHECKPOINT_INTERVAL, MOST_MESSAGES, GAP = 10_000, 30_000, 50
"""Milliseconds between checkpoints, messages of a bundle at most, and milliseconds between two
bundles at least, unless given."""
COLLECT_EVERY = 500_000
"""Objects more after which Python looks for garbage among the newest ones; else 700."""
SWITCH_INTERVAL = 1e-4
"""Seconds after which another thread of Python's may go on; else fifty times as many."""
SHOW_EVERY = 1.0
"""Seconds between two changes of the status line."""


def run(args: argparse.Namespace, columns: Columns, beam_flags: PipelineOptions) -> int:
    """Run the job where `--engine` says; see `pipelines.live.stream.run`.

    Returns:
        The exit code; 130 after Ctrl-C.
    """
    if args.engine == stream_options.FLINK:
        return on_flink.run(args, columns, beam_flags)
    _refuse_flags(args)
    job, snapshots, expiry = on_flink.live_job(args, columns)
    brokers, folder = _place(args)
    flags = stream_options.RUNNER.read(
        args,
        checkpointing_interval=CHECKPOINT_INTERVAL,
        max_bundle_size=MOST_MESSAGES,
        max_bundle_time_mills=GAP,
    )
    with locked_folder(folder, "--state-folder", args.typed):
        registry = kafka_options.registry_settings(args)
        client = kafka_options.client_settings(args, brokers)
        topics = stream_options.topics_from_flags(args)
        known = Topics(client)
        ends = LiveEnds(
            topic=args.topic,
            labels=on_flink.check_topics(args, known, topics, job),
            topics=topics,
            form=args.format,
            output_form=args.output_format,
            consumer={},
            client=client,
            expansion_service="",
            registry=registry,
            snapshots=snapshots,
            expiry=expiry,
        )
        presence = Presence(client, topics[FEATURES])
        place = Path(folder) / LOCAL_RECORD
        presence.refuse_others(read_record(place).name if place.exists() else None)
        # Not before: a start that is refused leaves nothing in the folder.
        store = Store(folder)
        with closing(store), closing(presence):
            on_flink.make_folder(snapshots)
            how = "goes on" if store.holds_job else f"reads from {args.begin}"
            record = _begin(args, store, job, ends, known)
            models = Models()
            steps = LocalSteps(job, ends, models)
            pace = Pace(
                flags.max_bundle_size,
                flags.max_bundle_time_mills / 1e3,
                flags.checkpointing_interval / 1e3,
            )
            with closing(Engine(steps, models, store, ends, record.name, pace)) as engine:
                engine.take_up()
                presence.begin(record.name, args.topic)
                _set_python()
                say(f"job {record.name} runs in this process: it {how}")
                kafka = stream_options.kafka_words(args)
                letters = letters_command(kafka, topics[DEAD_LETTERS])
                line = Line(args.progress, steps, models, engine, letters)
                return _follow(engine, presence, line, record)


def _refuse_flags(args: argparse.Namespace) -> None:
    """Refuse what says nothing to this engine.

    Raises:
        ConfigError: naming the flag.
        UsageError: for flags of Beam.
    """
    refuse(args, OF_FLINK, "left out with --engine local")
    if args.consumer:
        given = args.consumer[0].partition("=")[0]
        raise ConfigError("--consumer", given, "--client with --engine local: it has no Java")
    if args.detach:
        raise UsageError("--detach: left out with --engine local, which runs in this process")
    if args.resume not in (None, AUTO, LATEST):
        raise ConfigError("--resume", args.resume, "latest or auto with --engine local")
    if args.for_beam:
        raise UsageError(f"{args.for_beam[0]}: left out with --engine local, which is not Beam's")


def _place(args: argparse.Namespace) -> tuple[str, str]:
    """Return Kafka's brokers, and the folder of the job's state."""
    brokers, folder = args.brokers, args.state_folder
    if args.cluster is not None:
        found = named_cluster(args.cluster)
        brokers = brokers or found.settings.address("kafka")
        folder = folder or str(found.folder.root / FOLDER / args.topic)
    if brokers is None:
        raise ConfigError("--brokers", "", "HOST:PORT of Kafka's brokers (or give --cluster)")
    if folder is None:
        raise ConfigError("--state-folder", "", "a folder for the job's state")
    return brokers, str(Path(folder).absolute())


def _begin(
    args: argparse.Namespace, store: Store, job: Job, ends: LiveEnds, known: Topics
) -> Record:
    """Return the job that the store holds, or begin one in it.

    Raises:
        ConfigError: if it holds one and none is to go on, or the other way round, or another one.
    """
    settings, path = job.settings(), Path(store.folder) / LOCAL_RECORD
    if not store.holds_job:
        if args.resume == LATEST:
            raise ConfigError("--resume", LATEST, f"left out: {store.folder} holds no job")
        name, offsets = on_flink.job_name(args.topic), _offsets(args, ends, known)
        partitions = {topic: known.partitions[topic] for topic in offsets}
        numbers = digest(settings), settings, FORMATS, partitions
        outputs = {output: ends.topics[output] for output in outputs_of(job)}
        record = Record(name, name, time.time(), args.topic, *numbers, outputs=outputs)
        record.write(path)
        store.begin(offsets)
        return record
    record = read_record(path)
    if args.resume is None:
        allowed = f"another folder, or --resume latest: it holds job {record.name}"
        raise ConfigError("--state-folder", store.folder, allowed)
    if record.topic != args.topic:
        raise ConfigError("--topic", args.topic, f"{record.topic}, as in {path}")
    check_same(Left(store.folder, record), settings)
    return record


def _offsets(args: argparse.Namespace, ends: LiveEnds, known: Topics) -> Offsets:
    """Return where a new job begins to read; see `pipelines.live.input.begin`."""
    offsets = {args.topic: known.offsets(args.topic)}
    offsets[args.topic] |= start_offsets(args.begin, args.topic, known, ends.client)
    if ends.labels is not None:
        late = args.begin != "earliest" and not are_offsets(args.begin)
        offsets[ends.labels.topic] = known.offsets(ends.labels.topic, end=late)
    return offsets


def _set_python() -> None:
    """Look seldom for garbage that refers to itself, of which bundles leave next to none.

    They make so many objects, and models hold so many, that a fifth of the time went into it. The
    thread that commits a bundle does not wait for the one that runs the next.
    """
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY)
    sys.setswitchinterval(SWITCH_INTERVAL)


def _follow(engine: Engine, presence: Presence, line: Line, record: Record) -> int:
    """Run bundles until a signal comes; then write the models and end."""
    with Interruption() as interruption:
        while not interruption.came:
            engine.bundle()
            engine.look_around()
            presence.go_on()
            line.show()
        engine.checkpoint()
    line.end()
    say(f"job {record.name} has ended: go on with --resume latest")
    return SIGNAL_EXIT + interruption.number


class Line:
    """A line of the terminal that says how the job gets on.

    Args:
        show: Whether it is shown; None: on a terminal.
        steps: What counts.
        models: The models.
        engine: What knows the newest message.
        letters: The command that reads the messages that were refused.
    """

    def __init__(
        self, show: bool | None, steps: LocalSteps, models: Models, engine: Engine, letters: str
    ) -> None:
        self._shows = sys.stderr.isatty() if show is None else show
        self._steps, self._models, self._engine = steps, models, engine
        self._command = letters
        self._at, self._rows, self._letters = time.monotonic(), 0, 0

    def show(self) -> None:
        """Show it anew, now and then; and the reason of the first message that is refused."""
        span = time.monotonic() - self._at
        if span < SHOW_EVERY:
            return
        counts = self._steps.counts
        letters = self._steps.refused
        if letters >= max(10 * self._letters, 1):
            self.clear()
            self._say_refused()
            self._letters = letters
        if self._shows:
            rows = counts["rows_read"]
            text = (
                f"{rows:,} rows, {(rows - self._rows) / span:,.0f}/s, {len(self._models):,} devices"
            )
            if letters:
                text += f", {letters:,} refused"
            if self._engine.newest is not None:
                text += f", {max(time.time() - self._engine.newest, 0.0):.1f} s behind"
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()
            self._rows = rows
        self._at = time.monotonic()

    def end(self) -> None:
        """Say at the end how many messages were refused, and how the trackers were called."""
        self.clear()
        if (calls := Calls.of(self._steps.counts)) is not None:
            say(f"tracked in {calls} since the start")
        if self._steps.refused:
            self._say_refused()

    def _say_refused(self) -> None:
        steps = self._steps
        count = f"{steps.refused:,} since the start, this one last"
        say(f"refused: {refusal(steps.last_reason)} ({count}; all of them: {self._command})")

    def clear(self) -> None:
        """Leave an empty line."""
        if self._shows:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
