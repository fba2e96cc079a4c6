"""Live jobs written down: which there are, with which settings, and what they left."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kerneltrack import codec
from kerneltrack.errors import ConfigError, DataError, KerneltrackError
from pipelines.cli.command_line import UsageError
from pipelines.cluster.beam_flags import beam_flags
from pipelines.cluster.folder import Cluster, named_cluster
from pipelines.flink.client import ENDED, Flink
from pipelines.job import say
from transforms.outputs import DEAD_LETTERS
from transforms.track.clock import CLOCK_VERSION
from transforms.track.log import LOG_VERSION

VERSION = 2
FORMATS = {"clock": CLOCK_VERSION, "log": LOG_VERSION, "state": codec.VERSION}
"""Versions of what a job keeps for each model; it reads these and no others."""
SIDECAR = "kerneltrack.json"
JOBS = "jobs"
LOCAL_RECORD = "job.json"
"""The record of a job of the local engine, in the folder of its state."""


@dataclass(frozen=True)
class Place:
    """Where live jobs run and are written down.

    Attributes:
        flink: The JobManager.
        state: Folder of the records.
        cluster: The local cluster, if it is one.
    """

    flink: Flink
    state: Path
    cluster: Cluster | None

    @property
    def beam_flags(self) -> list[str]:
        """Flags by which a pipeline runs there, none if it is no local cluster."""
        return [] if self.cluster is None else beam_flags(self.cluster)

    @property
    def brokers(self) -> str | None:
        """Kafka's brokers of a local cluster."""
        return None if self.cluster is None else self.cluster.settings.address("kafka")

    @property
    def expansion_service(self) -> str | None:
        """Beam's expansion service of a local cluster."""
        return None if self.cluster is None else self.cluster.settings.address("expansion")


def find_place(cluster: str | None, flink: str | None, state: str | None) -> Place:
    """Find out where jobs run.

    Args:
        cluster: Folder of a local cluster.
        flink: Flink's REST address.
        state: Folder of the records.

    Raises:
        ConfigError: if what is given does not say it.
    """
    found = None
    if cluster is not None:
        found = named_cluster(cluster)
        flink = flink or found.settings.address("flink")
        state = state or str(found.folder.root / JOBS)
    if flink is None:
        raise ConfigError("--flink", "", "HOST:PORT of Flink's REST interface (or give --cluster)")
    if not re.fullmatch(r"[^:/]+:\d{1,5}", flink):
        raise ConfigError("--flink", flink, "HOST:PORT")
    if state is None:
        raise ConfigError("--state-folder", "", "a folder to write jobs down in")
    return Place(Flink(flink), Path(state), found)


@dataclass(frozen=True)
class Record:
    """A job as it was submitted.

    Attributes:
        job: Flink's id.
        name: Its name.
        started: Seconds since 1970.
        topic: Its input.
        digest: Hash of its settings.
        settings: All that its results depend on.
        formats: Versions of the states that it writes (`FORMATS`).
        partitions: How many partitions it reads of each of its input topics.
        source: Number of its source; partitions that were added are read by another one.
        deleted: How many messages of each input topic Kafka had deleted before a job read them
            when another went on from it, as far as is known.
        outputs: The topic of each output; empty in records of releases that did not write it.
    """

    job: str
    name: str
    started: float
    topic: str
    digest: str
    settings: dict[str, Any]
    formats: dict[str, int]
    partitions: dict[str, int] = field(default_factory=dict)
    source: int = 0
    deleted: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)

    def has_outputs(self, outputs: Mapping[str, str]) -> bool:
        """Return whether it writes these outputs to these topics, as far as it has them."""
        return all(self.outputs.get(name, topic) == topic for name, topic in outputs.items())

    def write(self, path: Path) -> None:
        """Write it down."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        part.write_text(json.dumps({"version": VERSION, **vars(self)}, indent=1) + "\n")
        part.replace(path)


def read_record(path: Path) -> Record:
    """Read what `Record.write` wrote.

    Raises:
        DataError: if it cannot be read.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = content.pop("version")
        if version != VERSION:
            raise DataError(str(path), f"version {version!r}: this program reads {VERSION}")
        return Record(**content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(str(path), f"not the record of a job: {error}") from error


def records(place: Place) -> list[Record]:
    """Return all jobs written down, the newest last."""
    found = [read_record(path) for path in place.state.glob("*.json")]
    return sorted(found, key=lambda record: record.started)


def running(place: Place) -> list[Record]:
    """Return the jobs that run."""
    states = {job["jid"]: job["state"] for job in place.flink.jobs()}
    return [record for record in records(place) if states.get(record.job, "FAILED") not in ENDED]


def choose(place: Place, job: str | None) -> Record:
    """Return the job of this id or name, or the only one that runs.

    Raises:
        ConfigError: if none has it.
        UsageError: if it is not clear which.
    """
    found = running(place)
    names = ", ".join(f"{record.name} ({record.job})" for record in found) or "none"
    if job is not None:
        found = [record for record in found if job in (record.job, record.name)]
    if len(found) == 1:
        return found[0]
    if job is not None:
        raise ConfigError("JOB", job, f"a job that runs: {names}")
    raise UsageError(f"several jobs run, choose a JOB: {names}" if found else "no job runs")


def refuse_shared(place: Place, outputs: Mapping[str, str], words: Sequence[str]) -> None:
    """Refuse to write to topics that a running job writes: its results would be there twice.

    Jobs may share a topic of dead letters: each says which message of which topic it was.

    Args:
        place: Where jobs run.
        outputs: The topic of each output.
        words: Flags by which another command finds the place.

    Raises:
        ConfigError: naming the job, and how to stop it.
    """
    wanted = {topic for name, topic in outputs.items() if name != DEAD_LETTERS}
    sharing = [record for record in records(place) if wanted & {*record.outputs.values()}]
    states = {job["jid"]: job["state"] for job in place.flink.jobs()} if sharing else {}
    for record in sharing:
        if states.get(record.job, "FAILED") in ENDED:
            continue
        shared = sorted(wanted & {*record.outputs.values()})[0]
        command = shlex.join(["kerneltrack", "stop", record.name, *words, "--savepoint"])
        raise ConfigError(
            "output topic",
            shared,
            f"one that no running job writes: {record.name} does (it ends with {command})",
        )


@dataclass(frozen=True)
class Left:
    """What a job left to go on from.

    Attributes:
        path: The savepoint or checkpoint.
        record: The job that wrote it.
    """

    path: str
    record: Record


AUTO, LATEST = "auto", "latest"
"""What `--resume` takes beside a place: the newest, or that of a start without anything left."""


def find_left(place: Place, resume: str, topic: str, outputs: Mapping[str, str]) -> Left | None:
    """Return what `--resume` names; None where `auto` finds nothing of this job.

    Args:
        place: Where jobs run.
        resume: A savepoint or checkpoint, or a word for the newest.
        topic: The job's input.
        outputs: The topic of each of its outputs: the newest is of a job that writes to them.

    Raises:
        ConfigError: if it names nothing, or its job is not known.
    """
    if "://" in resume and not resume.startswith("file://"):
        return _left_in_store(place, resume)
    if resume not in (AUTO, LATEST):
        # Flink writes file:/PATH, others file:///PATH.
        path = Path(re.sub("^file:/*", "/", resume))
        sidecar = path / SIDECAR
        if sidecar.exists():
            return Left(path.absolute().as_uri(), read_record(sidecar))
        by_job = place.state / f"{path.parent.name}.json"
        if by_job.exists() and (path / "_metadata").exists():
            return Left(path.absolute().as_uri(), read_record(by_job))
        allowed = (
            f"a savepoint with {SIDECAR} next to it, or a checkpoint of a job in {place.state}"
        )
        raise ConfigError("--resume", resume, allowed)
    if resume == AUTO and place.cluster is None:
        raise ConfigError("--resume", resume, "PATH where the job runs on no --cluster")
    return _newest(place, resume, topic, outputs)


def _newest(place: Place, resume: str, topic: str, outputs: Mapping[str, str]) -> Left | None:
    """Return what the jobs of these outputs left last."""
    known = [record for record in records(place) if record.topic == topic]
    paths = [(path, record) for record in known for path in _left_by(place, record)]
    paths.sort(key=lambda item: item[0].stat().st_mtime)
    found = [Left(path.parent.absolute().as_uri(), record) for path, record in paths]
    own = [left for left in found if left.record.has_outputs(outputs)]
    if not own and resume == AUTO:
        return None
    if not found:
        raise ConfigError("--resume", LATEST, f"PATH: no job of {topic} has left anything here")
    newest = found[-1]
    what = f"{newest.path} is of job {newest.record.name}, which writes to other topics"
    other = sorted({*newest.record.outputs.values()} - {*outputs.values()})
    if not own:
        raise ConfigError("--resume", LATEST, f"PATH: {what} ({', '.join(other)})")
    if own[-1] is not newest:
        say(f"{what} ({', '.join(other)}): this job goes on from the newest of its own")
    return own[-1]


def how_to_go_on(place: Place, record: Record) -> str:
    """Return how to go on from what a job that was cancelled has left."""
    found = place.flink.left_by(record.job)
    if found is None:
        return "without a savepoint or a checkpoint: there is nothing to go on from"
    kind, where = found
    if kind == "savepoint":
        return f"with a savepoint; go on with --resume {where}"
    latest = "latest" if place.cluster is not None else where
    return f"without a savepoint; go on from its last checkpoint with --resume {latest}"


def _left_in_store(place: Place, resume: str) -> Left:
    """Find the job that wrote to an object store, by Flink's names; Flink says if it is not there.

    Raises:
        ConfigError: if the name tells of no job, or of none that is written down.
    """
    named = re.search(r"/(?:savepoint-([0-9a-f]{6})-[0-9a-f]+|([0-9a-f]{32})/chk-\d+)/?$", resume)
    start = (named[1] or named[2]) if named else None
    found = [item for item in records(place) if start is not None and item.job.startswith(start)]
    if len(found) != 1:
        allowed = f".../savepoint-ID-... or .../JOB/chk-N of a job in {place.state}"
        raise ConfigError("--resume", resume, allowed)
    return Left(resume, found[0])


def _left_by(place: Place, record: Record) -> list[Path]:
    """Return the metadata files of a job's savepoints and of its newest checkpoint."""
    if place.cluster is None:
        return []
    root = place.cluster.folder.root
    found = list((root / "checkpoints" / record.job).glob("chk-*/_metadata"))
    for sidecar in (root / "savepoints").glob(f"*/{SIDECAR}"):
        if read_record(sidecar).job == record.job:
            found.append(sidecar.parent / "_metadata")
    return found


MAY_CHANGE = ("order.max_jump", "order.jump_rows", "order.idle_flush")
"""Settings that nothing depends on of what a job has kept: rows yet to come go by the new ones."""


def check_same(left: Left, settings: dict[str, Any]) -> None:
    """Refuse to go on with other settings, or with states of other formats.

    Raises:
        ConfigError: naming the first setting that differs.
        DataError: naming the state that cannot be read.
    """
    for name in {**left.record.formats, **FORMATS}:
        found, read = (formats.get(name, "none") for formats in (left.record.formats, FORMATS))
        if found != read:
            reason = f"{name} version {found}, this code reads version {read}"
            raise DataError(left.path, f"other code wrote it: {reason}")
    # The record's came through JSON: tuples are lists there.
    before, now = _flat(left.record.settings), _flat(json.loads(json.dumps(settings)))
    for name in {**before, **now}:
        if name not in MAY_CHANGE and before.get(name) != now.get(name):
            allowed = f"{before.get(name)!r}, as in {left.path}"
            raise ConfigError(name, now.get(name), allowed)


def _flat(settings: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(settings, dict):
        return {name: settings}
    found: dict[str, Any] = {}
    for key, value in settings.items():
        found |= _flat(value, f"{name}.{key}" if name else key)
    return found


def stop(place: Place, record: Record, folder: str | None, patience: float) -> str:
    """Stop a job with a savepoint, and leave beside it what the job was.

    Returns:
        Where the savepoint is.
    """
    location = place.flink.cancel_with_savepoint(record.job, folder, patience)
    path = Path(re.sub("^file:/*", "/", location))
    if path.is_dir():
        record.write(path / SIDECAR)
    return location


class NotSubmittedError(KerneltrackError):
    """The job never came to run."""
