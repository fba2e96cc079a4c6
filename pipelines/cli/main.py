"""The command `kerneltrack`.

A command's modules are imported when it is run: Beam takes longer to import than most commands
take.
"""

from __future__ import annotations

import argparse
import atexit
import difflib
import errno
import logging
import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import argcomplete

import kerneltrack
from kerneltrack.errors import MOST_MESSAGE, ConfigError, DataError, KerneltrackError, fit
from kerneltrack.imports import OF_OTHERS, import_arrow, import_to_stay
from pipelines.cli.command_line import (
    FAILED_EXIT,
    INPUT_EXIT,
    SIGNAL_EXIT,
    Parser,
    UsageError,
    flags_by_field,
    flags_named,
    flags_of,
    greedy_flag,
    inputs_after_time,
    refuse_flags,
    refuse_words,
)
from pipelines.cli.signals import ended_by_signals, said_of, signal_of


class CommandEntry(NamedTuple):
    """A command.

    Attributes:
        about: What it does.
        add_flags: The function that adds its flags, as MODULE.NAME below `pipelines`; "": none.
        run: The function that runs it: of its arguments and, of jobs, what was checked, Beam's
            options. The whole command line is the arguments' `typed`, Beam's part of it `for_beam`.
        check: Of jobs: the function that checks what can be checked before Beam is imported; they
            take Beam's flags.
    """

    about: str
    add_flags: str
    run: str
    check: str = ""


COMMANDS = {
    "track": CommandEntry(
        "Read files, find devices that are off, and write a report.",
        "files.options.add_track_flags",
        "files.track.run",
        "files.options.check",
    ),
    "score": CommandEntry(
        "Apply a run's models to new files, without learning.",
        "files.options.add_score_flags",
        "files.score.run",
        "files.options.check",
    ),
    "landmarks": CommandEntry(
        "Choose representative rows for models to start from.",
        "files.options.add_landmark_flags",
        "files.landmarks.run",
    ),
    "tune": CommandEntry(
        "Find the best settings on a sample of labelled rows.",
        "files.options.add_tune_flags",
        "files.tune.run",
    ),
    "list": CommandEntry(
        "List the algorithms, or the settings of one.",
        "cli.list_parts.add_flags",
        "cli.list_parts.run",
    ),
    "devices": CommandEntry(
        "Print which devices are off now, in a run or live job.",
        "devices.options.add_flags",
        "devices.command.run",
    ),
    "feedback": CommandEntry(
        "Mark an episode as false or real.",
        "feedback.options.add_flags",
        "feedback.command.run",
    ),
    "quiet": CommandEntry(
        "Say when a device is not to be judged, such as maintenance.",
        "quiet.options.add_flags",
        "quiet.command.run",
    ),
    "notify": CommandEntry(
        "Send an alert when a device is off, and when it is well again.",
        "notify.options.add_flags",
        "notify.command.run",
    ),
    "report": CommandEntry(
        "Write the report of a finished run again.",
        "files.options.add_report_flags",
        "report.write.run",
    ),
    "inspect": CommandEntry(
        "Print the contents of a snapshot.", "files.inspect.add_flags", "files.inspect.run"
    ),
    "export": CommandEntry(
        "Write models for ONNX, MLflow or the Hugging Face Hub.",
        "files.export.add_flags",
        "files.export.run",
    ),
    "stream": CommandEntry(
        "Find devices that are off in a Kafka topic.",
        "live.options.add_flags",
        "local.stream.run",
        "live.columns.check",
    ),
    "replay": CommandEntry(
        "Send rows of files to a Kafka topic, as a live stream.",
        "topics.options.add_replay_flags",
        "topics.replay.run",
    ),
    "read-output": CommandEntry(
        "Print the rows of an output topic, each once.",
        "topics.options.add_read_flags",
        "topics.read_output.run",
    ),
    "replay-dead-letters": CommandEntry(
        "Send refused messages (dead letters) to the input topic again.",
        "topics.options.add_letter_flags",
        "topics.dead_letters.run",
    ),
    "reset": CommandEntry(
        "Restart the model of one device in a live job.",
        "topics.options.add_reset_flags",
        "topics.reset.run",
    ),
    "stop": CommandEntry(
        "End a live job, with or without a savepoint.",
        "live.options.add_stop_flags",
        "live.stop.run",
    ),
    "cluster": CommandEntry(
        "Start, stop and look at a local Flink and Kafka.",
        "cluster.commands.add_flags",
        "live.in_cluster.run",
    ),
}

GROUPS = {
    "Which devices are off?": (
        *("track", "devices", "feedback", "quiet", "notify", "report", "score"),
    ),
    "Learn labels, choose settings": ("tune", "list", "landmarks"),
    "Live streams": (
        *("stream", "stop", "cluster", "replay", "read-output", "replay-dead-letters", "reset"),
    ),
    "Models": ("inspect", "export"),
}
"""Commands by what they are for, as the help lists them."""

EXTRAS = {
    "apache_beam": "beam",
    "jinja2": "beam",
    "onnx": "export",
    "pyarrow": "beam",
    "confluent_kafka": "live",
    "fastavro": "live",
    "python_calamine": "excel",
}
"""The extra that installs a module; without extras there is none of them."""

PIPE_EXIT = SIGNAL_EXIT + 13
"""As of a program that SIGPIPE ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code: 0, 2 for bad settings or input, 1 if it failed."""
    if arguments is not None:
        with ended_by_signals():
            return _main(list(arguments))
    if "_ARGCOMPLETE" in os.environ:
        _complete()
    codes: list[int] = []
    # First, so that it runs after the exit handlers of all that a command imports.
    atexit.register(_leave, codes)
    with ended_by_signals():
        codes.append(_main(sys.argv[1:]))
    if codes[0] > SIGNAL_EXIT:
        # The process ends: Python sets handlers back then, and a further signal would be its end.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    return codes[0]


def _leave(codes: Sequence[int]) -> None:
    """End the process with a command's exit code, without taking down Python and its libraries.

    Threads of Arrow and gRPC wait until the end. One that wakes while what it holds is taken down
    may call `std::terminate`: jobs that had written everything have ended by SIGABRT.
    """
    if not codes:
        return
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            stream.flush()
        except (OSError, ValueError):
            # Python says why as it ends.
            return
    os._exit(codes[0])


def _main(given: list[str]) -> int:
    logging.basicConfig(level=logging.ERROR, format="%(levelname)s %(message)s", force=True)
    # Beam reports a failing worker with its whole traceback; the last line is ours to say.
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    try:
        return _run(given)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in EXTRAS:
            raise
        install = f"pip install '.[{EXTRAS[package]}]' in a clone of kerneltrack"
        text = f"this needs {package}, which is not installed: {install}"
        return _fail(text, INPUT_EXIT)
    except (UsageError, ConfigError, DataError) as error:
        return _fail(error, INPUT_EXIT)
    except KerneltrackError as error:
        return _fail(error, getattr(error, "exit_code", FAILED_EXIT))
    except OSError as error:
        return (
            PIPE_EXIT
            if error.errno == errno.EPIPE and _reader_has_left()
            else _fail(error, FAILED_EXIT)
        )
    except (KeyboardInterrupt, SystemError) as error:
        # The latter is what becomes of Ctrl-C while one of Kafka's clients is being taken down.
        cause = error.__cause__ or error
        number = signal_of(cause) if isinstance(cause, KeyboardInterrupt) else None
        if number is None:
            raise
        return _fail(said_of(number), SIGNAL_EXIT + number)


def _reader_has_left() -> bool:
    """Check whether nobody reads what is printed: `| head` has seen enough, which is no mistake."""
    try:
        number = sys.stdout.fileno()
    except OSError:
        return False
    asked = select.poll()
    asked.register(number, 0)
    left = any(what & select.POLLERR for _, what in asked.poll(0))
    if left:
        # What is still in the buffer goes nowhere, without a second error at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return left


def _complete() -> None:
    """Print how the shell may go on with the line that is being typed, and exit."""
    typed = os.environ.get("COMP_LINE", "").split()
    name = next((word for word in typed[1:] if word in COMMANDS), None)
    argcomplete.autocomplete(parser_of(name))


def _run(given: list[str]) -> int:
    parser, args, rest = read(given)
    if args.command is None:
        parser.print_help()
        return 0
    command, args.typed = COMMANDS[args.command], ["kerneltrack", *given]
    args.for_beam = rest
    with flags_named(flags_by_field(parser, args)):
        if not command.check:
            return int(_function(command.run)(args))
        checked = _function(command.check)(args)
        options = _function("cli.beam_options.beam_options")(rest, flags_of(parser))
        return int(_function(command.run)(args, checked, options))


def _fail(message: object, code: int) -> int:
    sys.stderr.write(f"kerneltrack: {fit(message, MOST_MESSAGE)}\n")
    return code


def read(given: Sequence[str]) -> tuple[Parser, Any, list[str]]:
    """Read a command line.

    Returns:
        The parser, the arguments, and what is left for Beam.

    Raises:
        UsageError: if it is wrong.
    """
    name = next((word for word in given if not word.startswith("-")), None)
    if name is not None and name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1)
        hint = f": did you mean {near[0]}?" if near else f", which are {', '.join(COMMANDS)}"
        raise UsageError(f"{name!r} is none of the commands{hint}")
    parser = parser_of(name)
    given = inputs_after_time(given)
    args, rest = _parse(parser, given)
    beam = name is not None and bool(COMMANDS[name].check)
    if not beam:
        refuse_flags(rest, parser)
    refuse_words(rest, given, parser, args, beam)
    return parser, args, rest


def _parse(parser: Parser, given: Sequence[str]) -> tuple[Any, list[str]]:
    try:
        return parser.parse_known_args(given)
    except UsageError as error:
        flag = greedy_flag(given, parser)
        if flag is None or not str(error).startswith("the following arguments are required: INPUT"):
            raise
        text = f"{error}: {flag} takes all words after it, so inputs stand before the flags"
        raise UsageError(text) from None


def parser_of(name: str | None) -> Parser:
    """Return a parser that knows all commands, and of one of them also the flags."""
    parser = Parser(
        prog="kerneltrack",
        usage="kerneltrack COMMAND [flags]",
        description=_describe_commands(),
        epilog="Flags of a command: kerneltrack COMMAND --help",
        allow_abbrev=False,
    )
    version = kerneltrack.__version__
    parser.add_argument(
        "--version", action="version", version=version, help="Show the version and exit."
    )
    commands = parser.add_subparsers(dest="command", prog="kerneltrack", help=argparse.SUPPRESS)
    for each, command in COMMANDS.items():
        made = commands.add_parser(
            each, help=command.about, description=command.about, allow_abbrev=False
        )
        if each == name and command.add_flags:
            _function(command.add_flags)(made)
    return parser


def _describe_commands() -> str:
    """Return the list of commands, by groups."""
    lines = ["Which of my devices is off (not as usual), since when, and in which channels?"]
    width = max(map(len, COMMANDS)) + 2
    for title, names in GROUPS.items():
        lines += ["", f"{title}"]
        lines += [f"  {name:{width}}{COMMANDS[name].about}" for name in names]
    return "\n".join(lines)


def _function(place: str) -> Any:
    module, _, name = place.rpartition(".")
    found = import_to_stay(f"pipelines.{module}", OF_OTHERS)
    if sys.modules.get("pyarrow") is not None:
        import_arrow()
    return getattr(found, name)
