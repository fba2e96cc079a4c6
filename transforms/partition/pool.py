"""Tasks in processes of their own, as many as there are cores, each task in whichever is free.

Processes are forked from a server that has imported what they need and started no threads, so none
begins with the import, and none inherits a lock. A process that dies is replaced and its task run
again; one that outlives its parent ends itself.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection, forkserver
from typing import Any, NamedTuple

from kerneltrack.errors import KerneltrackError

ATTEMPTS = 3
"""How often a task is begun whose process dies."""
_PRELOADED = ["transforms.partition.preload"]
_GRACE = 5.0


class WorkerDied(KerneltrackError):
    """A process died with its task, each time that it was begun."""


class TaskFailed(Exception):
    """A task raised something that is not ours; the message is the traceback."""


class TaskRefused(KerneltrackError):
    """A task raised one of our errors; the message is its."""


def run_tasks(
    function: Callable[[Any, Any], Any], shared: Any, tasks: Sequence[Any], workers: int
) -> Iterator[tuple[Any, Any]]:
    """Run a function on each task, in processes.

    Args:
        function: Of `shared` and a task; a module's own.
        shared: What all tasks are told; sent to each process once.
        tasks: The tasks, in the order in which they are begun.
        workers: How many processes at most.

    Yields:
        Each task with its result, as they end.

    Raises:
        TaskRefused: what a task raised, if it is one of our errors.
        OSError: likewise.
        TaskFailed: for anything else.
        WorkerDied: if a task's process dies each time.
    """
    if workers <= 1 or len(tasks) <= 1:
        for task in tasks:
            yield task, function(shared, task)
        return
    with _Pool(function, shared, min(workers, len(tasks))) as pool:
        yield from pool.run(tasks)


def start_server() -> None:
    """Start the server that processes are forked from, if there is none; it imports by itself."""
    forkserver.set_forkserver_preload(_PRELOADED)
    forkserver.ensure_running()


class _Worker(NamedTuple):
    process: Any
    pipe: connection.Connection


class _Pool:
    """The processes, from begin to end."""

    def __init__(self, function: Callable[[Any, Any], Any], shared: Any, workers: int) -> None:
        start_server()
        self._context = multiprocessing.get_context("forkserver")
        self._begin = function, shared
        self._count = workers
        self._workers: list[_Worker] = []

    def __enter__(self) -> _Pool:
        return self

    def __exit__(self, *error: object) -> None:
        """End the processes: those that are idle by themselves, others at once."""
        for worker in self._workers:
            worker.pipe.close()
            if error[0] is not None:
                worker.process.terminate()
        for worker in self._workers:
            worker.process.join(_GRACE)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def _start(self) -> _Worker:
        here, there = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(there,), daemon=True)
        process.start()
        there.close()
        worker = _Worker(process, here)
        self._workers.append(worker)
        here.send(self._begin)
        return worker

    def run(self, tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Yield each task with its result, as they end."""
        waiting = [(task, 1) for task in reversed(tasks)]
        busy: dict[Any, tuple[_Worker, Any, int]] = {}
        idle: list[_Worker] = []
        while waiting or busy:
            while waiting and len(busy) < self._count:
                worker = idle.pop() if idle else self._start()
                task, attempt = waiting.pop()
                try:
                    worker.pipe.send(task)
                except OSError:
                    pass  # It is dead: found out below.
                busy[worker.pipe] = worker, task, attempt
            for pipe in connection.wait(list(busy)):
                worker, task, attempt = busy.pop(pipe)
                try:
                    done, result = worker.pipe.recv()
                except (EOFError, OSError):
                    waiting.append((task, self._again(worker, attempt)))
                    continue
                if not done:
                    raise result
                idle.append(worker)
                yield task, result

    def _again(self, worker: _Worker, attempt: int) -> int:
        """Return the number of the next attempt, after a worker's death."""
        self._workers.remove(worker)
        worker.pipe.close()
        worker.process.join()
        code = worker.process.exitcode or 0
        why = f"by {signal.Signals(-code).name}" if code < 0 else f"with code {code}"
        text = f"a worker process ended {why}"
        if code == -signal.SIGKILL:
            text += " (the machine may be out of memory)"
        if attempt >= ATTEMPTS:
            raise WorkerDied(f"{text}, {ATTEMPTS} times with the same part of the input")
        sys.stderr.write(f"kerneltrack: {text}; its part of the input is run again\n")
        sys.stderr.flush()
        return attempt + 1


def _serve(pipe: connection.Connection) -> None:
    """Run tasks until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _one_thread()
    try:
        function, shared = pipe.recv()
        while True:
            pipe.send(_attempt(function, shared, pipe.recv()))
    except (EOFError, OSError):
        return


def _attempt(function: Callable[[Any, Any], Any], shared: Any, task: Any) -> tuple[bool, Any]:
    """Return whether a task ended well, and its result, or an error that travels."""
    try:
        return True, function(shared, task)
    except KerneltrackError as error:
        return False, TaskRefused(str(error))
    except OSError as error:
        number = error.errno or errno.EIO
        return False, OSError(number, str(error.strerror or error) or os.strerror(number))
    except BaseException:
        return False, TaskFailed(traceback.format_exc())


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _one_thread() -> None:
    """Keep Arrow to one thread: the other cores have processes of their own."""
    import pyarrow as pa  # noqa: PLC0415 - loaded with the tasks

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
