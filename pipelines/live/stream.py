"""The live job: rows from a Kafka topic in; features, predictions, alerts to topics out."""

from __future__ import annotations

import argparse
import dataclasses
import logging
import re
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions

from kerneltrack.errors import ConfigError, KerneltrackError
from kerneltrack.paths import is_local, join, whole
from pipelines.cli import kafka_options
from pipelines.cli.beam_options import beam_options
from pipelines.cli.command_line import UsageError, flags_named
from pipelines.cli.entries_file import check_groups
from pipelines.cli.groups_file import read_groups
from pipelines.cli.job_flags import refuse_without
from pipelines.flink.client import ENDED
from pipelines.job import say
from pipelines.job_spec import Job, job_from_flags, refuse_periods
from pipelines.live import options as stream_options
from pipelines.live.columns import label_columns
from pipelines.live.input import Inputs, LiveInput, begin, go_on
from pipelines.live.jobs import (
    FORMATS,
    Left,
    NotSubmittedError,
    Place,
    Record,
    check_same,
    find_left,
    find_place,
    refuse_shared,
)
from pipelines.live.pipeline import Labels, LiveEnds, build, digest, outputs_of
from pipelines.live.status import follow
from pipelines.topics.admin import Topics
from transforms.beam_worker.runners import IN_PROCESS_RUNNER
from transforms.beam_worker.step_ids import use_stable_ids
from transforms.kafka.formats import RECORD_TIME
from transforms.keyed.expiry import Expiry
from transforms.outputs import DEVICES, PERIODS
from transforms.read.columns import Columns
from transforms.track.order import DROP, Order
from transforms.track.periods import check_live_periods

DEFAULTS: dict[str, Any] = {
    "streaming": True,
    # No max_parallelism: Beam would have so many readers, as far as there are partitions. It takes
    # one message of each in turn, and waits milliseconds at each that has none: few busy models in
    # a topic of many partitions would be read at tens of messages a second. Without it there is one
    # for each subtask, which reads all its partitions at once.
    #
    # Else a checkpoint may send the watermark ahead of a bundle's output.
    "finish_bundle_before_checkpointing": True,
    # Beam's flag for *not* failing, its default being to fail: a checkpoint that cannot be written
    # is tried again, and the job goes on meanwhile.
    "fail_on_checkpointing_errors": True,
    # Without it every read of state is a round trip.
    "max_cache_memory_usage_mb": 64,
}
"""Beam's flags of a live job, unless given."""
LARGE = {"max_cache_memory_usage_mb": 256}
"""The same where models keep more than a tracker: references, learners."""

WORKER_MODULE = "transforms.beam_worker.live_worker"
"""What workers import before they speak to the runner."""

COMPACTED = {DEVICES: "current states of devices", PERIODS: "days that devices are compared by"}
"""Outputs of which the last message of each key counts, and what is lost where others go."""
IDLE = "idle"
"""Where, in the folder of the snapshots, models lie that have expired."""

SUBMIT_PATIENCE = 300.0
POLL = 0.25


def _snapshots_from_flags(args: argparse.Namespace) -> str | None:
    """Return the folder of the snapshots."""
    writers = ["snapshot_every", "expire_after"]
    if args.snapshots is None:
        for flag in writers:
            refuse_without(args, flag, ["snapshots"])
        return None
    if args.resume is None and all(getattr(args, flag) is None for flag in writers):
        refuse_without(args, "snapshots", writers)
    folder = whole(args.snapshots)
    if args.warm_start is not None and folder == whole(args.warm_start):
        # A job that went back to a checkpoint would begin from what it has written since.
        raise ConfigError("--snapshots", args.snapshots, "another folder than --warm-start")
    return folder


def _expiry_from_flags(
    args: argparse.Namespace, snapshots: str | None, order: Order
) -> Expiry | None:
    if snapshots is None:
        return None
    with flags_named({"after": "--expire-after"}):
        expiry = Expiry(join(snapshots, IDLE), args.expire_after)
        expiry.check_longer(order.idle_flush)
    return expiry


def live_job(args: argparse.Namespace, columns: Columns) -> tuple[Job, str | None, Expiry | None]:
    """Return what a live job does with rows, where its snapshots go, and when models expire.

    Raises:
        ConfigError: for a bad flag.
    """
    order = {
        "max_disorder": stream_options.MAX_DISORDER,
        "max_jump": stream_options.MAX_JUMP,
        "idle_flush": stream_options.IDLE_FLUSH,
    }
    job = job_from_flags(args, columns, order, "--labels-topic")
    refuse_periods(job, check_live_periods)
    if job.reference is None:
        refuse_without(args, "devices_topic", ["reference"])
        refuse_without(args, "silent_after", ["reference"])
    for flag, entries in job.known_by_flag.items():
        check_groups(entries, args.groups, flag, ("--groups", "the file of the devices' groups"))
    if args.groups is not None:
        job = job.in_groups(read_groups(args.groups))
    if job.before is None:
        refuse_without(args, "overlap", ["warm_start"])
    job = dataclasses.replace(
        job, devices=args.devices_topic is not None, drop_overlap=args.overlap == DROP
    )
    if job.order.max_disorder == float("inf"):
        raise ConfigError("max_disorder", job.order.max_disorder, "a finite number of seconds")
    snapshots = _snapshots_from_flags(args)
    return job, snapshots, _expiry_from_flags(args, snapshots, job.order)


def run(args: argparse.Namespace, columns: Columns, beam_flags: PipelineOptions) -> int:
    """Submit the job and, unless detached, follow it.

    Returns:
        The exit code: 0; 130 after Ctrl-C, which stops the job with a savepoint.

    Raises:
        ConfigError: for a bad flag, spec or topic, or settings that differ from the resumed ones.
        KerneltrackError: if Kafka or Flink do not answer, or the job fails.
    """
    job, snapshots, expiry = live_job(args, columns)
    settings, runner = job.settings(), dataclasses.asdict(stream_options.RUNNER.read(args))
    place = find_place(args.cluster, args.flink, args.state_folder)
    topics = stream_options.topics_from_flags(args)
    outputs = {name: topics[name] for name in outputs_of(job)}
    refuse_shared(place, outputs, stream_options.place_words(args))
    left = None
    if args.resume is not None:
        left = find_left(place, args.resume, args.topic, outputs)
    if left is not None:
        check_same(left, settings)
    name = job_name(args.topic)
    large = any(part is not None for part in (job.reference, job.learner, job.periods))
    usual = {**DEFAULTS, **LARGE} if large else DEFAULTS
    ends, taken = _ends(args, place, topics, job, name, left)
    ends = dataclasses.replace(ends, snapshots=snapshots, expiry=expiry)
    if left is not None and taken.source != left.record.source:
        # The source's: all other steps are the same.
        usual = {**usual, "allow_non_restored_state": True}
    options = _beam_options(beam_flags, usual, runner, place, name, left)
    pipeline = beam.Pipeline(options=options)
    use_stable_ids(pipeline)
    build(pipeline, job, ends)
    make_folder(snapshots)
    result = pipeline.run()
    flink_job = _wait_until_runs(place, name, result)
    record = Record(
        flink_job,
        name,
        time.time(),
        args.topic,
        digest(settings),
        settings,
        FORMATS,
        taken.partitions,
        taken.source,
        taken.deleted,
        outputs,
    )
    record.write(place.state / f"{flink_job}.json")
    origin = "goes on from " + left.path if left else f"reads {args.topic} from {args.begin}"
    say(f"job {name} ({flink_job}) runs: it {origin}")
    if args.detach:
        return 0
    return follow(place, record, ends, args.progress, stream_options.kafka_words(args))


def _beam_options(
    given: PipelineOptions,
    usual: dict[str, Any],
    flink: dict[str, int],
    place: Place,
    name: str,
    left: Left | None,
) -> PipelineOptions:
    """Return Beam's options with the usual ones and those of the local cluster added."""
    values = given.get_all_options(drop_default=True)
    if values.get("runner") == IN_PROCESS_RUNNER:
        del values["runner"]
    if "runner" not in values:
        if not place.beam_flags:
            raise UsageError("--runner: give --cluster, or Beam's flags of a Flink runner")
        local = beam_options(place.beam_flags).get_all_options(drop_default=True)
        values = {**local, **values}
    plugins = [*(values.get("beam_plugins") or ()), WORKER_MODULE]
    own: dict[str, Any] = {"job_name": name, "beam_plugins": plugins, **flink}
    if left is not None:
        own["savepoint_path"] = left.path
    options: PipelineOptions = PipelineOptions.from_dictionary({**usual, **values, **own})
    return options


def _ends(
    args: argparse.Namespace,
    place: Place,
    topics: dict[str, str],
    job: Job,
    name: str,
    left: Left | None,
) -> tuple[LiveEnds, LiveInput]:
    """Check the topics, and say how both clients reach them, and what is read."""
    brokers = args.brokers or place.brokers
    if brokers is None:
        raise ConfigError("--brokers", "", "HOST:PORT of Kafka's brokers (or give --cluster)")
    expansion = args.expansion_service or place.expansion_service
    if expansion is None:
        raise ConfigError("--expansion-service", "", "HOST:PORT of Beam's expansion service")
    registry = kafka_options.registry_settings(args)
    client = kafka_options.client_settings(args, brokers)
    known = Topics(client)
    labels = check_topics(args, known, topics, job)
    names = [args.topic, *([] if labels is None else [labels.topic])]
    inputs = Inputs(names, known, client, name)
    taken = begin(inputs, args.begin) if left is None else go_on(inputs, left)
    consumer = {**kafka_options.consumer_settings(args, brokers), **taken.start}
    ends = LiveEnds(
        topic=args.topic,
        labels=labels,
        topics=topics,
        form=args.format,
        output_form=args.output_format,
        consumer=consumer,
        client=client,
        expansion_service=expansion,
        source=taken.source,
        registry=registry,
    )
    return ends, taken


def check_topics(
    args: argparse.Namespace, known: Topics, topics: dict[str, str], job: Job
) -> Labels | None:
    """Check a job's topics, and make those that are missing if that is asked for.

    Returns:
        Where delayed labels come from; None: there are none.

    Raises:
        ConfigError: naming the topic that cannot be read or written.
    """
    partitions = known.check_input(args.topic)
    outputs = {output: topics[output] for output in outputs_of(job)}
    if args.topic in outputs.values():
        raise ConfigError("--topic", args.topic, "another topic than the outputs'")
    _refuse_shared(outputs)
    compacted = {outputs[name]: what for name, what in COMPACTED.items() if name in outputs}
    if args.create_topics:
        known.create(outputs.values(), partitions, compacted)
    for output, topic in outputs.items():
        known.check_output(stream_options.topic_flag(output), topic)
    for topic, what in compacted.items():
        if "compact" not in known.cleanup_policy(topic):
            say(f"{topic} is not compacted: Kafka may delete {what} (cleanup.policy=compact)")
    if job.columns.time == RECORD_TIME and known.timestamp_type(args.topic) != "CreateTime":
        say(f"event time is when the broker took a message: {args.topic} has LogAppendTime")
    labels = None
    if args.labels_topic is not None:
        known.check_input(args.labels_topic, "--labels-topic")
        labels = Labels(topic=args.labels_topic, columns=label_columns(args, job.columns))
    return labels


def make_folder(snapshots: str | None) -> None:
    """Make the folder of the snapshots, if it is a local one."""
    if snapshots is not None and is_local(snapshots):
        Path(snapshots).mkdir(parents=True, exist_ok=True)


def _refuse_shared(outputs: dict[str, str]) -> None:
    """Refuse a compacted topic that holds something else: of that only the last would stay."""
    for name in COMPACTED:
        topic = outputs.get(name)
        if topic is not None and list(outputs.values()).count(topic) > 1:
            flag = stream_options.topic_flag(name)
            raise ConfigError(flag, topic, "another topic than the other outputs'")


def job_name(topic: str) -> str:
    """Return a name that no other job has, of characters that all may have."""
    plain = re.sub("[^a-z0-9]+", "-", topic.lower())
    moment = datetime.now(timezone.utc).strftime("%Y%m%d-%H%M%S-%f")
    return f"kerneltrack-{plain}-{moment}"


def _wait_until_runs(place: Place, name: str, result: Any) -> str:
    """Wait until Flink says that all parts of a job run; return its id.

    Raises:
        NotSubmittedError: if it fails, or takes too long.
    """
    deadline = time.monotonic() + SUBMIT_PATIENCE
    state = "not there"
    while time.monotonic() < deadline:
        for job in place.flink.jobs():
            if job["name"] != name:
                continue
            state = job["state"]
            if state in ENDED:
                why = place.flink.why_failed(job["jid"])
                raise NotSubmittedError(f"job {name} ended in state {state}: {why}")
            if state == "RUNNING" and job["tasks"]["running"] == job["tasks"]["total"]:
                return str(job["jid"])
        if result.state in ("FAILED", "CANCELLED"):
            raise _refused(name, result)
        time.sleep(POLL)
    raise NotSubmittedError(f"job {name} does not run after {SUBMIT_PATIENCE:g} s: it is {state}")


def _refused(name: str, result: Any) -> KerneltrackError:
    """Return what the job server has against a job: it asks Kafka for the partitions itself."""
    why = "it does not say why"
    logging.disable(logging.ERROR)
    try:
        result.wait_until_finish()
    except RuntimeError as error:
        why = str(error).partition(" failed in state ")[2].partition(": ")[2] or why
    finally:
        logging.disable(logging.NOTSET)
    refused = re.search(r"(?:Sasl|Ssl)AuthenticationException: (.*)", why)
    if refused:
        return ConfigError("--consumer", "...", f"what the brokers take: {refused[1]}")
    return NotSubmittedError(f"job {name}: the job server refused it: {why}")
