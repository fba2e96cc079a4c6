"""A live worker's state: a write that is refused, unanswered or cut off ends its bundle, in time.

The worker's side is Beam's own, the runner's is Beam's own but for the trouble that it makes, and
between them is a real gRPC stream.
"""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc  # type: ignore[import-untyped]
import pytest
from apache_beam.coders import StrUtf8Coder
from apache_beam.coders.coders import GlobalWindowCoder
from apache_beam.portability.api import (
    beam_fn_api_pb2,
    beam_fn_api_pb2_grpc,
    endpoints_pb2,
)
from apache_beam.runners.portability.fn_api_runner import worker_handlers
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.worker import sdk_worker
from apache_beam.runners.worker.bundle_processor import FnApiUserStateContext
from apache_beam.runners.worker.statecache import StateCache
from apache_beam.transforms.environments import EmbeddedPythonGrpcEnvironment
from apache_beam.transforms.window import GlobalWindow

from pipelines.cli.beam_options import beam_options
from pipelines.live.jobs import Place
from pipelines.live.stream import WORKER_MODULE, _beam_options
from tests.stream.running import make_rows, track
from transforms.beam_worker import state_writes
from transforms.beam_worker.install import install
from transforms.beam_worker.sampling import PERIOD
from transforms.beam_worker.state_writes import StateError
from transforms.track.log import KEPT

# Beam's thread that reads the stream ends as the stream does.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

LIMIT = 3.0
SLACK = 30.0
"""Of a look each second on a busy machine; far less than the limit of a live job."""
KEYS = [f"model-{number}" for number in range(20)]
FULL = "the disk is full"

Answers = Iterator[Any]
Trouble = Callable[[Any, Any, Any], Answers]


def refused(request: Any, answers: Answers, call: Any) -> Answers:
    yield beam_fn_api_pb2.StateResponse(id=request.id, error=FULL)


def unanswered(request: Any, answers: Answers, call: Any) -> Answers:
    yield from ()


def broken_off(request: Any, answers: Answers, call: Any) -> Answers:
    call.abort(grpc.StatusCode.UNAVAILABLE, "going down")
    yield


class EndOfStream(Exception):
    """The runner says that there is nothing more to say."""


def ended(request: Any, answers: Answers, call: Any) -> Answers:
    raise EndOfStream
    yield


class Runner(beam_fn_api_pb2_grpc.BeamFnStateServicer):
    """Beam's own service of state, with trouble at one request.

    Attributes:
        state: What was written.
        trouble: What it does at `at`.
        at: Which request, by its number among those of a kind.
    """

    def __init__(self) -> None:
        self.state = worker_handlers.StateServicer()
        self.plain = worker_handlers.GrpcStateServicer(self.state)
        self.trouble: Trouble | None = None
        self.at = ("append", len(KEYS) // 2)
        self.seen: dict[str, int] = {}

    def State(self, requests: Iterator[Any], context: Any) -> Answers:
        for request in requests:
            kind = request.WhichOneof("request")
            self.seen[kind] = self.seen.get(kind, 0) + 1
            answers = self.plain.State(iter([request]), context)
            if self.trouble is None or self.at != (kind, self.seen[kind]):
                yield from answers
                continue
            try:
                yield from self.trouble(request, answers, context)
            except EndOfStream:
                return


class Worker:
    """A worker's side of the stream, and bundles that write a model of each key."""

    def __init__(self, address: str) -> None:
        self._factory = sdk_worker.GrpcStateHandlerFactory(StateCache(1 << 20), worker_id="worker")
        self.handler = self._factory.create_state_handler(
            endpoints_pb2.ApiServiceDescriptor(url=address)
        )
        self._bundles = 0

    def bundle(self, model: bytes) -> list[list[Any]]:
        """Write a model of each key anew; return what was there."""
        self._bundles += 1
        with self.handler.process_instruction_id(f"bundle-{self._bundles}", []):
            context = FnApiUserStateContext(
                self.handler, "track", StrUtf8Coder(), GlobalWindowCoder()
            )
            logs: list[Any] = [context.get_state(KEPT, key, GlobalWindow()) for key in KEYS]
            found = [list(log.read()) for log in logs]
            for log in logs:
                log.clear()
                log.add(model)
            context.commit()
        return found

    def close(self) -> None:
        self._factory.close()


@pytest.fixture
def runner() -> Iterator[tuple[Runner, Worker]]:
    """A runner's service of state and a worker that speaks to it."""
    install()
    service = Runner()
    server = grpc.server(ThreadPoolExecutor(2))
    beam_fn_api_pb2_grpc.add_BeamFnStateServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    worker = Worker(f"127.0.0.1:{port}")
    try:
        yield service, worker
    finally:
        worker.close()
        server.stop(None).wait()


@contextmanager
def fails(message: str, within: float) -> Iterator[None]:
    """Hold that a bundle ends with this, and soon."""
    begin = time.monotonic()
    with pytest.raises(StateError, match=message):
        yield
    assert time.monotonic() - begin < within


def test_what_is_written_is_there_in_the_next_bundle(runner: tuple[Runner, Worker]) -> None:
    service, worker = runner
    assert worker.bundle(b"first") == [[] for _ in KEYS]
    assert worker.bundle(b"second") == [[b"first"] for _ in KEYS]
    assert worker.bundle(b"third") == [[b"second"] for _ in KEYS]
    assert service.seen == {"get": 3 * len(KEYS), "clear": 3 * len(KEYS), "append": 3 * len(KEYS)}


@pytest.mark.parametrize("kind", ["clear", "append"])
@pytest.mark.parametrize(
    ("trouble", "message", "within"),
    [
        (refused, FULL, SLACK),
        (unanswered, "has not answered for 3 s", LIMIT + SLACK),
        (broken_off, "stream of state is gone.*going down", SLACK),
        (ended, "stream of state is gone.*has ended it", SLACK),
    ],
)
def test_a_write_that_fails_ends_its_bundle(
    runner: tuple[Runner, Worker],
    kind: str,
    trouble: Trouble,
    message: str,
    within: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_writes, "LIMIT", LIMIT)
    service, worker = runner
    service.trouble, service.at = trouble, (kind, len(KEYS) // 2)
    with fails(message, within):
        worker.bundle(b"first")


def test_a_read_has_the_limit_too(
    runner: tuple[Runner, Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_writes, "LIMIT", LIMIT)
    service, worker = runner
    service.trouble, service.at = unanswered, ("get", 1)
    with fails("has not answered for 3 s", LIMIT + SLACK):
        worker.bundle(b"first")


def test_a_bundle_after_one_that_failed_is_as_any(runner: tuple[Runner, Worker]) -> None:
    service, worker = runner
    service.trouble = refused
    with pytest.raises(StateError, match=FULL):
        worker.bundle(b"first")
    service.trouble = None
    worker.bundle(b"second")
    assert worker.bundle(b"third") == [[b"second"] for _ in KEYS]


def test_an_error_of_the_bundle_itself_is_not_waited_for(runner: tuple[Runner, Worker]) -> None:
    service, worker = runner
    service.trouble, service.at = unanswered, ("clear", 1)
    begin = time.monotonic()
    with (
        pytest.raises(ZeroDivisionError),
        worker.handler.process_instruction_id("bundle", []),
    ):
        context = FnApiUserStateContext(
            worker.handler, "track", StrUtf8Coder(), GlobalWindowCoder()
        )
        log: Any = context.get_state(KEPT, "m", GlobalWindow())
        worker.handler.clear(log._state_key)
        raise ZeroDivisionError
    assert time.monotonic() - begin < SLACK


def test_a_worker_that_stops_waits_for_nothing(runner: tuple[Runner, Worker]) -> None:
    service, worker = runner
    service.trouble = unanswered
    threading.Timer(0.5, worker.close).start()
    with fails("the worker stops", 0.5 + SLACK):
        worker.bundle(b"first")


def test_workers_of_our_steps_check_their_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beam's worker in a thread of its own, which speaks to the runner by gRPC alone."""

    def no_room(*_: Any) -> None:
        raise OSError(FULL)

    rows = [("a", make_rows(30).chunk())]

    def run() -> Any:
        environment = EmbeddedPythonGrpcEnvironment.default()
        return track(rows, runner=FnApiRunner(default_environment=environment))

    assert len(run().table("a")["loss"]) == 30
    monkeypatch.setattr(worker_handlers.StateServicer, "append_raw", no_room)
    with pytest.raises(RuntimeError, match=f"StateError: .*{FULL}"):
        run()


def test_workers_of_a_live_job_begin_with_it() -> None:
    """Before the stream is opened: what `stream` adds to Beam's flags, as a worker takes it."""
    given = beam_options(["--runner=FlinkRunner", "--beam_plugins=my.files"])
    options = _beam_options(given, {}, {}, Place(Any, Any, None), "job", None)  # type: ignore[arg-type]
    plugins = options.get_all_options()["beam_plugins"]
    assert plugins == ["my.files", WORKER_MODULE]
    code = (
        "import sys\n"
        "from apache_beam.runners.worker import sdk_worker, sdk_worker_main\n"
        "print(sdk_worker.GrpcStateHandler.start.__module__)\n"
        f"sdk_worker_main._import_beam_plugins({plugins[1:]!r})\n"
        "print(sdk_worker.GrpcStateHandler.start.__module__)\n"
        "from apache_beam.runners.worker.statesampler import StateSampler\n"
        "from apache_beam.utils.counters import CounterFactory\n"
        "print(StateSampler('bundle', CounterFactory()).sampling_period_ms)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    beams, ours = sdk_worker.__name__, "transforms.beam_worker.state_requests"
    assert done.stdout == f"{beams}\n{ours}\n{PERIOD}\n"
