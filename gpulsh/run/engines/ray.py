"""The engine "ray": workers on the nodes of a Ray cluster do the tasks of a job.

Workers are actors with a backend each. A stage hands files in OUT/_work to the next one, on storage that all nodes
share, and uses neither Ray's object store nor its shuffle. So the work outlives workers and the driver, and a run can
be resumed on the cluster or on one machine. Each task maps only the parts of files that it needs; no node holds
everything. This process, the driver, holds facts about partitions and writes the manifest.

Before Ray joins a cluster, a client of Ray in a process of its own, which can be ended, finds out whether one answers
at the address: Ray itself tries for minutes where another service listens, and ignores Ctrl-C meanwhile.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, cast

import ray

from gpulsh.backends.compiling import COMPILING
from gpulsh.backends.parallel import processors
from gpulsh.backends.protocol import Backend, Sizes
from gpulsh.backends.select import BackendName
from gpulsh.checks import plural
from gpulsh.errors import BackendError, LargeDocumentError, MemoryLimitError, ParameterError, first_line
from gpulsh.io.limits import MIN_MEMORY
from gpulsh.report.wording import size
from gpulsh.run.engines.local import max_parallel, report_finished
from gpulsh.run.engines.worker import Worker, WorkerAnswer, WorkerSetup, versions
from gpulsh.run.job import FileJob, Layout, Stage, report_done
from gpulsh.stats.stages import Progress
from gpulsh.store.manifest import Manifest

WORKER_MEMORY = 4 << 30  # default, if the nodes have so much
WORKER_THREADS = 4  # likewise
BATCH = {"cuda": 64 << 20}  # bytes of text; the cut of the work does not depend on devices, so any cluster can resume
OBJECT_STORE = 256 << 20  # of a cluster of our own: it holds the job and positions, and a container's /dev/shm is small
SPARE_DISK = 16 << 20  # bytes, for the logs and addresses that a cluster of our own writes before the work begins
ATTEMPTS = 4  # at a task whose workers end
LONG_TUPLE = 64  # a tuple of more is sent once, and not with each task
PATIENCE = 60.0  # seconds without any worker until a warning
SOMEWHERE = "a node"  # the place of a worker that has not said where it is
NODE_LOST = "its node has died"  # why a worker ended, as Ray reports it

_log = logging.getLogger("gpulsh")


class Cluster:
    """The engine on the cluster at `address`, or on one of its own on this machine; a context.

    Workers may have another current folder. Each takes `threads` processors, with CUDA a device, and `memory` bytes.
    """

    remote = True
    # Held by a run in a cluster that it joined: to leave it disconnects the whole process. Runs cannot share a cluster
    # of their own, because Ray ends it with the thread that started it.
    _turn = threading.Lock()

    def __init__(self, address: str | None, backend: BackendName, threads: int | None, memory: int | None) -> None:
        self._address, self._backend, self._threads, self._memory_limit = address, backend, threads, memory
        self._at_end = ExitStack()
        self._runner: RayRunner | None = None

    def __enter__(self) -> Self:
        with ExitStack() as at_end:
            at_end.enter_context(Cluster._turn)
            if joined := _join(self._address):
                at_end.callback(ray.shutdown)
            self._worker_size = self._choose_worker_size()
            self.memory = self._worker_size.memory
            if joined:
                self._at_end = at_end.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._at_end.close()

    @property
    def ops(self) -> Backend:
        """A description of the workers' backend, which does nothing."""
        device = self._runner.device if self._runner else None
        return cast(Backend, _BackendDescription(self._worker_size.backend, device))

    def processes(self, job: FileJob) -> int:
        """1: each worker has its own memory."""
        return 1

    @contextmanager
    def running(self, job: FileJob, folder: Path, manifest: Manifest, progress: Progress) -> Iterator[RayRunner]:
        """Workers, started when there is work for them, and stopped at the end."""
        setup = WorkerSetup.of(job, folder, self._worker_size.backend, self._worker_size.threads)
        self._runner = RayRunner(setup, self._worker_size, manifest, progress)
        try:
            yield self._runner
        finally:
            self._runner.dismiss()

    def to_json(self) -> Mapping[str, Any]:
        """The engine's entry in the report."""
        return {"name": "ray", "workers": self._runner.most if self._runner else 0}

    def _choose_worker_size(self) -> _WorkerSize:
        nodes = _nodes()
        backend = self._backend
        if backend == "auto":
            backend = "cuda" if any(node.get("GPU", 0) >= 1 for node in nodes) else "cpu"
        there = [node for node in nodes if node.get("CPU", 0) >= 1]
        if backend == "cuda":
            there = [node for node in there if node.get("GPU", 0) >= 1]
        shares = [int(node["CPU"] // (node["GPU"] if backend == "cuda" else 1)) for node in there]
        threads = self._threads or max(1, min([WORKER_THREADS, *shares]))
        memory = self._memory_limit or WORKER_MEMORY
        # In coarse steps: memory decides the cut, and a run that resumes may find other nodes.
        if self._memory_limit is None:
            least = min((node.get("memory", 0) / max(1, node["CPU"] // threads) for node in there), default=memory)
            while memory > max(least, MIN_MEMORY):
                memory //= 2
        room = _WorkerSize(backend, threads, memory)
        if not room.workers():
            raise BackendError(
                f"no node of the Ray cluster has room for a worker, which takes {room}; give fewer threads, less memory"
                " or another backend, or a larger cluster"
            )
        return room


@dataclass(frozen=True)
class _BackendDescription:
    """A backend by its name, its device and its batch sizes."""

    name: str
    device: str | None

    def sizes(self) -> Sizes:
        """Sizes that decide how the work is cut."""
        batch = BATCH.get(self.name, 16 << 20)
        return Sizes(batch=batch, tile=batch, largest_tile=batch, readers=2 if self.name == "cuda" else 1)


@dataclass(frozen=True)
class _WorkerSize:
    """The resources that a worker takes on a node."""

    backend: BackendName
    threads: int
    memory: int

    def __str__(self) -> str:
        device = "a GPU, " if self.backend == "cuda" else ""
        return f"{device}{plural(self.threads, 'processor')} and {size(self.memory)}"

    def workers(self) -> int:
        """How many workers the present nodes have room for."""
        wanted = {"CPU": self.threads, "GPU": int(self.backend == "cuda"), "memory": self.memory}
        return sum(
            min(int(node.get(name, 0) // amount) for name, amount in wanted.items() if amount) for node in _nodes()
        )


def _nodes() -> list[Mapping[str, float]]:
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def _join(address: str | None) -> bool:
    """Join the cluster, or start one on this machine; False if this process was in one before."""
    if ray.is_initialized():
        joined = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", joined):
            raise ParameterError(
                f"address is {address!r} and this process is in the Ray cluster at {joined}; leave the address out, or"
                " call ray.shutdown() first"
            )
        return False
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    check_reachable(address)
    options: dict[str, Any] = {}
    if address == "local":
        options = {"num_cpus": processors(), "include_dashboard": False, "object_store_memory": OBJECT_STORE}
        # It stays set: Ray reads it once, and a later cluster of this process needs the same. Ray's own token would be
        # a file in the user's home, which may not be there.
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:
            os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # unless the user has allowed it
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **options)
    except Exception as error:
        reason = first_line(error)
        if address == "local":
            raise BackendError(
                f"a Ray cluster could not be started on this machine: {reason}{_advice_on_space()}"
            ) from error
        raise BackendError(
            f"the Ray cluster at {address!r} could not be joined: {reason}; this machine must be a node of it, by"
            " `ray start --address=HOST:PORT`"
        ) from error
    except SystemExit as end:
        if end.code == signal.SIGTERM and callable(before):  # Ray's handler took the signal
            before(signal.SIGTERM, None)
        raise
    finally:
        if threading.current_thread() is threading.main_thread():  # Ray replaces the program's handler
            signal.signal(signal.SIGTERM, before)
    return True


def _advice_on_space() -> str:
    """Advice about the folder of Ray's files, if it has no room."""
    above = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"
    free = 0
    with suppress(OSError):
        free = shutil.disk_usage(above).free if os.access(above, os.W_OK | os.X_OK) else 0
    if free >= SPARE_DISK:
        return ""
    return (
        f"; its files go to {above}/ray, where {size(free)} can be written: set RAY_TMPDIR to a folder with more room"
    )


@dataclass(frozen=True)
class _Request:
    """A task of the current stage, for a worker."""

    number: int
    step: str
    parallel: int  # how many of its kind a worker does at once
    arguments: tuple[object, ...]


class _NodeWorker(Worker):
    """A worker that knows its node."""

    def greet(self) -> dict[str, str]:
        """The versions, the node and the process of this worker."""
        return {**super().greet(), "node": ray.util.get_node_ip_address(), "process": str(os.getpid())}


@dataclass(eq=False)
class _Member:
    """A worker: an actor, and where it is once that is known."""

    actor: Any
    place: str = SOMEWHERE
    load: int = 0  # of the tasks that it can do in parallel


class RayRunner:
    """Runs tasks on workers, at most as many as the cluster has room for; each has one request, or a few, at a time.

    A worker that ends is replaced, and another worker gets its requests. Ray's own retries (max_restarts,
    max_task_retries) use the same actor again. If its node is lost, they are used up before Ray notices, or wait for
    room for ever, though other workers are idle. `ray.util.ActorPool` keeps dead actors.
    """

    held = None  # no texts are held in this process

    def __init__(self, setup: WorkerSetup, room: _WorkerSize, manifest: Manifest, progress: Progress) -> None:
        self._setup, self._worker_size, self._manifest, self._progress = ray.put(setup), room, manifest, progress
        self._parallel = max_parallel(room.threads, room.memory)  # tasks that a worker does in parallel
        devices = int(room.backend == "cuda")
        wanted = {"num_cpus": room.threads, "num_gpus": devices, "memory": room.memory}
        self._actor_class = ray.remote(_NodeWorker).options(**wanted, max_concurrency=self._parallel)
        self._ready_members: list[_Member] = []  # members that have begun
        self._busy: dict[Any, tuple[_Member, _Request | None]] = {}  # by the answer's reference; None: it starts
        self._ended: Counter[str] = Counter()  # workers, by the step that they were at
        self.resumed: set[str] = set()
        self.device: str | None = None
        self.most = 0  # workers that were there at once

    def run(self, stage: Stage) -> list[Mapping[str, Any]]:
        """The facts of each task, in order, of finished ones as known; raises the error of the first that fails."""
        stored: dict[int, object] = {}  # by identity, which is valid while the stage holds the arguments
        found = report_finished(stage, self._manifest, self._progress, self.resumed)
        failed: dict[int, Exception] = {}

        def sent(argument: object) -> object:
            """The argument, or the reference of a long one, which tasks share, in the object store."""
            if not isinstance(argument, Layout) and not (isinstance(argument, tuple) and len(argument) > LONG_TUPLE):
                return argument
            if id(argument) not in stored:
                stored[id(argument)] = ray.put(argument)
            return stored[id(argument)]

        def request(number: int, parallel: int) -> _Request:
            task = stage.tasks[number]
            return _Request(number, task.step, parallel, (parallel, task.work, *map(sent, task.arguments)))

        most = self._parallel if stage.parallel else 1
        waiting = deque(request(number, most) for number, facts in enumerate(found) if facts is None)
        while waiting or self._pending():
            for asked, answer in self.exchange(waiting):
                if isinstance(answer, WorkerAnswer):
                    made, compiled = answer.result, answer.compiled
                    seconds = compiled.seconds / max(len(self._ready_members), 1)  # workers compile side by side
                    COMPILING.count_elsewhere(replace(compiled, seconds=seconds))
                    self._manifest.add(asked.step, made.files, made.facts, brief=made.brief)
                    found[asked.number] = made.facts
                    report_done(made.facts, stage.row.unit, self._progress)
                elif isinstance(answer, (LargeDocumentError, MemoryLimitError)) and asked.parallel > 1:
                    waiting.append(request(asked.number, 1))  # at the end: the worker's other tasks end first
                else:
                    failed[asked.number] = answer
            if failed:
                first = min(failed)
                waiting = deque(asked for asked in waiting if asked.number < first)
                if not any(asked.number < first for asked in (*waiting, *self._pending())):
                    raise failed[first]
        return [facts for facts in found if facts is not None]

    def exchange(self, waiting: deque[_Request]) -> list[tuple[_Request, WorkerAnswer | Exception]]:
        """Send requests from the front of `waiting`, and wait until at least one is answered, or a worker has started
        or ended. Requests of a lost worker go back to `waiting`.
        """
        self._start(len(waiting))
        while waiting:
            given, member = waiting[0], min(self._ready_members, key=lambda member: member.load, default=None)
            load = self._parallel // given.parallel
            if member is None or member.load + load > self._parallel:
                break
            waiting.popleft()
            member.load += load
            self._busy[member.actor.work.remote(*given.arguments)] = member, given
        ready, _ = ray.wait(list(self._busy), timeout=PATIENCE)
        if not ready and not self._pending():
            _log.warning("the Ray cluster has no room for a worker now, which takes %s", self._worker_size)
        if ready:  # and all other ready ones
            ready, _ = ray.wait(list(self._busy), num_returns=len(self._busy), timeout=0)
        found = []
        for reference in ready:
            member, request = self._busy.pop(reference)
            try:
                answer = ray.get(reference)
            except ray.exceptions.RayTaskError as error:
                raise BackendError(f"a worker on {member.place} failed: {first_line(error)}") from error
            except ray.exceptions.RayError as error:
                self._replace(member, request, error)
                if request is not None:
                    waiting.appendleft(request)
                continue
            if request is None:
                self._greeted(member, answer)
            else:
                member.load -= self._parallel // request.parallel
                found.append((request, answer))
        return found

    def dismiss(self) -> None:
        """Stop all workers and drop their requests."""
        for member in self._members():
            with suppress(Exception):
                ray.kill(member.actor)
        with suppress(Exception):  # until that is noticed, so that none writes into a folder that is being removed
            ray.wait(list(self._busy), num_returns=len(self._busy), timeout=5, fetch_local=False)
        self._ready_members, self._busy = [], {}

    def _pending(self) -> list[_Request]:
        """The requests that workers are busy with."""
        return [request for _, request in self._busy.values() if request is not None]

    def _members(self) -> list[_Member]:
        return [*self._ready_members, *(member for member, request in self._busy.values() if request is None)]

    def _start(self, requests: int) -> None:
        there, wanted = len(self._members()), requests + len(self._pending())
        if wanted <= there:
            return
        # At least one: if every node was lost, an autoscaling cluster adds a node for a requested worker.
        for _ in range(max(min(wanted, self._worker_size.workers()), 1) - there):
            member = _Member(self._actor_class.remote())
            self._busy[member.actor.greet.remote()] = member, None
        self.most = max(self.most, len(self._members()))

    def _greeted(self, member: _Member, answer: Any) -> None:
        """Handle the answer of a new worker: its greeting, then its device."""
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, dict):
            node = answer.pop("node")
            member.place = f"node {node} (process {answer.pop('process')})"
            here = versions()
            others = [f"{name} {there} and not {here[name]}" for name, there in answer.items() if there != here[name]]
            if others:
                raise BackendError(
                    f"node {node} of the Ray cluster has {', '.join(others)}, as this process has; install the same"
                    " on all"
                )
            self._busy[member.actor.begin.remote(self._setup, node)] = member, None
            return
        self.device = self.device or answer
        self._ready_members.append(member)

    def _replace(self, member: _Member, request: _Request | None, error: Exception) -> None:
        if member in self._ready_members:
            self._ready_members.remove(member)
        with suppress(Exception):
            ray.kill(member.actor)  # it may live, and be out of reach
        step = request.step if request else "begin"
        said = str(error)  # by Ray
        why = re.search(r"No module named [^\n]*|The actor (?:is dead|died) because (?!of )([^.\n]*)", said)
        reason = first_line(error) if why is None else why[1] or why[0]
        if member.place == SOMEWHERE and (address := re.search(r"\bip(?:: |=)([^\s,)]+)", said)):
            member.place = f"node {address[1]}"
        if request or reason != NODE_LOST:  # until Ray notices a lost node, all new workers may be requested there
            self._ended[step] += 1
        if self._ended[step] >= ATTEMPTS:
            what = f"at {step}" if request else "before they could begin"
            raise BackendError(
                f"{ATTEMPTS} workers ended {what}, the last on {member.place}: {reason}; if memory ran out, give less"
                " memory or fewer threads; all nodes must have this version of gpulsh"
            ) from error
        _log.warning("%s: a worker on %s ended: %s; another worker repeats the task", step, member.place, reason)


CONNECT_SECONDS = 10.0  # seconds in which a connection is made
ANSWER_SECONDS = 30.0  # seconds in which a process begins and is answered by the cluster

NO_CLIENT = 3  # this Ray has no such client; it says nothing about the cluster
CLIENT = f"""
import sys
try:
    from ray._raylet import GcsClient
except ImportError:
    sys.exit({NO_CLIENT})
GcsClient(address=sys.argv[1])
"""


def check_reachable(address: str) -> None:
    """BackendError if no Ray cluster answers at HOST:PORT; other addresses Ray finds out about itself."""
    if "://" in address:
        raise ParameterError(f"address is {address!r}; give HOST:PORT, or 'auto' on a machine of the cluster")
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise BackendError(f"the Ray cluster at {address!r} could not be joined: {error}") from error
    command = [sys.executable, "-c", CLIENT, address]
    try:
        done = subprocess.run(
            command, capture_output=True, stdin=subprocess.DEVNULL, timeout=ANSWER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        how = f" in {ANSWER_SECONDS:.0f} seconds"
    else:
        if done.returncode in (0, NO_CLIENT):
            return
        if b"authentication" in done.stderr.lower():  # in an error of Ray, or in the last words of its client
            raise BackendError(
                f"the Ray cluster at {address!r} could not be joined: it needs its token; set RAY_AUTH_MODE=token, and"
                " RAY_AUTH_TOKEN if ~/.ray/auth_token does not hold it"
            )
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        how = f" ({lines[-1] if lines else done.returncode})"
    raise BackendError(
        f"the Ray cluster at {address!r} could not be joined: the service there does not answer as a Ray cluster{how};"
        " give the address that `ray start --head` shows, by default with port 6379"
    )
