"""The command `kerneltrack`."""

from __future__ import annotations

import argparse
import importlib
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

from apache_beam.options.pipeline_options import PipelineOptions

import kerneltrack
from kerneltrack.errors import ConfigError, DataError, KerneltrackError
from pipelines import (
    inspect_snapshot,
    job,
    landmarks,
    list_parts,
    options,
    replay_options,
    score_files,
    stop_stream,
    stream_options,
    track_files,
)
from pipelines.cluster import commands as cluster
from pipelines.report import write_report

FAILED_EXIT = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 2 for bad settings or input, 1 if it failed."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(message)s", force=True)
    # Beam reports a failing worker with its whole traceback; the last line is ours to say.
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    parser, commands = _parser()
    try:
        flags = [
            flag
            for command in commands.values()
            for action in command._actions
            for flag in action.option_strings
        ]
        beam_options, own = options.split_beam_flags(given, flags)
        args, rest = parser.parse_known_args(own)
        if args.command is None:
            parser.print_help()
            return 0
        options.refuse(rest, [*flags, *options.beam_flags()])
        return int(args.run(args, beam_options, ["kerneltrack", *given]))
    except (options.UsageError, ConfigError, DataError) as error:
        return _fail(error, job.INPUT_EXIT)
    except KerneltrackError as error:
        return _fail(error, getattr(error, "exit_code", FAILED_EXIT))
    except OSError as error:
        return _fail(error, FAILED_EXIT)
    except (KeyboardInterrupt, SystemError) as error:
        # The latter is what becomes of Ctrl-C while one of Kafka's clients is being taken down.
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        return _fail("interrupted", job.INTERRUPTED_EXIT)


def _fail(message: object, code: int) -> int:
    text = " ".join(str(message).split())
    sys.stderr.write(f"kerneltrack: {text}\n")
    return code


def _parser() -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    parser = options.Parser(
        prog="kerneltrack",
        description="Budgeted kernel subspace tracking of sensor streams on Apache Beam.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=kerneltrack.__version__)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    made: dict[str, argparse.ArgumentParser] = {}

    def add(name: str, about: str, run: Callable[..., int]) -> argparse.ArgumentParser:
        made[name] = commands.add_parser(name, help=about, description=about, allow_abbrev=False)
        made[name].set_defaults(run=run)
        return made[name]

    track_files.add_flags(
        add(
            "track", "Track files: features, snapshots, failures and a report out.", track_files.run
        )
    )
    score_files.add_flags(
        add(
            "score",
            "Score files under a run's snapshots, without learning: features and predictions out.",
            score_files.run,
        )
    )
    landmarks.add_flags(
        add("landmarks", "Choose the rows of an input that hold the others best.", landmarks.run)
    )
    add("list", "Name trackers, learners, kernels and budget policies.", _list)
    report = add("report", "Write the report of a finished run again.", _report)
    report.add_argument("output", metavar="DIR", help="a run's folder")
    inspected = add("inspect", "Print what a snapshot holds.", _inspect)
    inspected.add_argument("file", metavar="FILE", help="a .safetensors file of a run")
    inspected.add_argument("--json", action="store_true", help="as JSON")
    stream_options.add_flags(
        add("stream", "Track a Kafka topic on Flink: features and the rest to topics.", _stream)
    )
    replay_options.add_replay_flags(
        add("replay", "Send the rows of files to a Kafka topic as a live stream.", _replay)
    )
    replay_options.add_read_flags(
        add("read-output", "Read an output topic, each row once.", _read_output)
    )
    replay_options.add_letter_flags(
        add("replay-dead-letters", "Send refused messages once more.", _replay_dead_letters)
    )
    replay_options.add_reset_flags(
        add("reset", "Let a model of a live job begin anew, or from a snapshot.", _reset)
    )
    stop_stream.add_flags(add("stop", "End a live job, with a savepoint or without.", _stop))
    local = add("cluster", "Start, stop and look at a local Flink and Kafka.", _cluster)
    made.update((nested.prog, nested) for nested in cluster.add_flags(local))
    return parser, made


def _list(args: argparse.Namespace, beam: PipelineOptions, command: list[str]) -> int:
    sys.stdout.write(list_parts.describe() + "\n")
    return 0


def _report(args: argparse.Namespace, beam: PipelineOptions, command: list[str]) -> int:
    sys.stdout.write(write_report(args.output) + "\n")
    return 0


def _inspect(args: argparse.Namespace, beam: PipelineOptions, command: list[str]) -> int:
    sys.stdout.write(inspect_snapshot.describe(args.file, as_json=args.json) + "\n")
    return 0


def _live(name: str) -> Any:
    """Import a module of the live job, whose Kafka client comes with an extra."""
    try:
        return importlib.import_module(f"pipelines.{name}")
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        text = "confluent-kafka is not installed: pip install 'kerneltrack[live]'"
        raise options.UsageError(text) from error


def _stream(args: argparse.Namespace, beam: PipelineOptions, command: list[str]) -> int:
    run = _live("track_stream").run
    return int(run(args, beam, command))


def _replay(args: argparse.Namespace, beam: PipelineOptions, command: list[str]) -> int:
    return int(_live("replay").run(args))


def _read_output(args: argparse.Namespace, beam: PipelineOptions, command: list[str]) -> int:
    return int(_live("read_output").run(args))


def _replay_dead_letters(
    args: argparse.Namespace, beam: PipelineOptions, command: list[str]
) -> int:
    return int(_live("dead_letters").run(args))


def _reset(args: argparse.Namespace, beam: PipelineOptions, command: list[str]) -> int:
    return int(_live("reset_model").run(args))


def _stop(args: argparse.Namespace, beam: PipelineOptions, command: list[str]) -> int:
    return stop_stream.run(args)


def _cluster(args: argparse.Namespace, beam: PipelineOptions, command: list[str]) -> int:
    return cluster.run(args)


if __name__ == "__main__":
    sys.exit(main())
