"""A show on Dask: on an existing cluster, or on our own workers on this machine.

Dask does scheduling, retries, lost workers, resources, priorities and the dashboard. A task carries all its inputs and
notes its result on the shared disk, so that a stopped show resumes from there.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError as CancelledFuture
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from rotopaint_ai.batch.attempt import POLL_S, Do, TaskFailedError, attempt
from rotopaint_ai.batch.notes import TaskNotes
from rotopaint_ai.batch.tasks import BatchTask
from rotopaint_ai.batch.turns import Turn, Turns
from rotopaint_ai.errors import ClusterError, UsageError
from rotopaint_ai.jobs import Cancel, Event, Sink, warning

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

CONNECT_S = 20
MOST_LIVES = 10  # submissions of a task whose workers died of other tasks; Dask allows a task three lost workers
TASKS = "rotopaint"
_GONE = ("closed", "closing")


@contextmanager
def connect_cluster(address: str | None, workers: int) -> Iterator[Client]:
    """A client of the cluster at an address, else of `workers` local processes. Raises UsageError."""
    if find_spec("distributed") is None:
        option = f"--cluster {address}" if address else f"--workers {workers}"
        raise UsageError(
            f"{option}: needs Dask; install it with: pip install 'rotopaint-ai[cluster]', or leave {option.split()[0]} "
            "out: one process paints on every core"
        )
    with _quiet_logs(), ExitStack() as stack:
        yield _join(address, stack) if address else _start_workers(workers, stack)


def _join(address: str, stack: ExitStack) -> Client:
    from distributed import Client

    try:
        asyncio.run(_knock(address))
        return stack.enter_context(Client(address, timeout=CONNECT_S, set_as_default=False))
    except (OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:160] or type(error).__name__
        raise UsageError(
            f"--cluster {address}: no Dask scheduler answers there ({reason}); wanted an address such as "
            "tcp://scheduler:8786, as 'dask scheduler' prints it"
        ) from error


async def _knock(address: str) -> None:
    """Connect and disconnect once. Raises TimeoutError, where a Dask client would wait for ever on another protocol."""
    from distributed.comm import connect
    from distributed.security import Security

    words = Security().get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, timeout=CONNECT_S, **words), CONNECT_S)
    await comm.close()


def _start_workers(workers: int, stack: ExitStack) -> Client:
    from distributed import Client, LocalCluster

    local = LocalCluster(
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        memory_limit=0,  # a worker over Dask's limit takes no further task, and a show would wait for ever
        security=True,  # its own TLS keys, so that nobody else on this machine can use our processes
        preload="rotopaint_ai.batch.own_worker",
        dashboard_address="127.0.0.1:0",
        silence_logs=logging.CRITICAL,
    )
    local.loop.add_callback(_replace_lost, stack.enter_context(local), workers)
    return stack.enter_context(Client(local, set_as_default=False))


async def _replace_lost(local: LocalCluster, n_workers: int) -> None:
    """Replace worker processes that die before they have reported their start; Dask does not restart them."""
    while local.status.name not in _GONE:
        for name in [name for name, nanny in local.workers.items() if nanny.status.name in ("closed", "failed")]:
            del local.workers[name]
        if len(local.workers) < n_workers:
            local.scale(n_workers)
        await asyncio.sleep(1)


@contextmanager
def executor_of(address: str | None, workers: int) -> Iterator[Executor | None]:
    """Workers for the idempotent parts of a command: of the cluster at `address`, else `workers` local processes.

    Returns None for a single process, the current one. Raises UsageError; ClusterError where the workers are lost.
    """
    if address is None and workers == 1:
        yield None
        return
    from distributed import KilledWorker

    with connect_cluster(address, workers) as client:
        print(f"dashboard: {client.dashboard_link}", file=sys.stderr)
        try:
            yield client.get_executor(pure=False)
        except CancelledFuture as error:
            raise ClusterError("the cluster's scheduler is lost; start the same command again") from error
        except KilledWorker as error:
            n_died = error.allowed_failures + 1
            raise ClusterError(
                f"{n_died} workers died of one part; is there enough memory? try fewer workers"
            ) from error


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """Stop Dask from logging lost connections; our own messages report what a person must know."""
    import distributed  # Dask sets its own log levels, except for its client

    names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] == distributed.__name__]
    before = {logger: logger.level for logger in map(logging.getLogger, names)}
    for logger in before:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in before.items():
            logger.setLevel(level)


def submit(
    client: Client,
    turn: Turn,
    notes: TaskNotes,
    do: Any,
    topic: str,
    run: Callable[..., Any],
    life: int = 1,
) -> Future[None]:
    """Submit a task that can begin to the scheduler; a worker calls `run(task, notes, do, topic)`.

    `life`: number of submissions of this task so far, this one included.
    """
    return client.submit(
        run,
        turn.task,
        notes,
        do,
        topic,
        key=dask_key(turn.task, notes, life),
        retries=turn.task.shot.retries,
        priority=turn.priority,
        resources=dict(turn.task.shot.resources) or None,
    )


def dask_key(task: BatchTask, notes: TaskNotes, life: int = 1) -> tuple[str, str]:
    """The task's name on the dashboard. A cluster executes equal names only once.

    All tasks are one group: Dask submits a large group by priority, and a small group at once.
    """
    where = hashlib.sha256(f"{notes.folder} {task.fingerprint} {life}".encode()).hexdigest()[:12]
    return TASKS, f"{task.key} {where}"


def work_on(client: Client, tasks: Sequence[BatchTask], notes: TaskNotes, do: Do, sink: Sink, cancel: Cancel) -> None:
    """Execute tasks on a cluster. Raises CancelledError; ClusterError where its scheduler is lost."""
    for task in tasks:
        notes.forgive(task)
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    _tell_lacking([worker["resources"] for worker in workers], tasks, sink)
    topic = f"rotopaint-{secrets.token_hex(4)}"
    client.subscribe_topic(topic, lambda message: sink(Event(message[1]["kind"], message[1]["facts"])))
    turns = Turns(tasks, sum(worker["nthreads"] for worker in workers))
    under_way: dict[Future[None], tuple[Turn, int]] = {}
    ended: SimpleQueue[Future[None]] = SimpleQueue()

    def hand_over(turn: Turn, life: int) -> None:
        future = submit(client, turn, notes, do, topic, _on_worker, life)
        under_way[future] = turn, life
        future.add_done_callback(ended.put)

    try:
        for turn in turns.first():
            hand_over(turn, 1)
        while under_way:
            future = _next_ended(client, ended, cancel)
            turn, life = under_way.pop(future)
            if future.status == "finished" or notes.is_done(turn.task):  # lost: its worker has died since
                for following in turns.after(turn.task):
                    hand_over(following, 1)
            elif life < MOST_LIVES and (future.status != "error" or _died_beside(turn.task, future, notes)):
                hand_over(turn, life + 1)
            else:
                _note_loss(turn.task, future, notes, sink)
    finally:
        if cancel.is_requested and client.status not in _GONE:
            client.cancel(list(under_way), force=True)


def _died_beside(task: BatchTask, future: Future[None], notes: TaskNotes) -> bool:
    """Whether another task killed its workers: Dask counts a worker's death for all tasks in the worker's queue."""
    from distributed import KilledWorker

    error = future.exception()
    is_blamed = isinstance(error, KilledWorker) and str(error.task) == str(future.key)
    return is_blamed and notes.n_lost(task) <= error.allowed_failures


def _next_ended(client: Client, ended: SimpleQueue[Future[None]], cancel: Cancel) -> Future[None]:
    """Wait for a task. Raises CancelledError, ClusterError."""
    while True:
        cancel.check()
        try:
            future = ended.get(timeout=POLL_S)
        except Empty:
            _refuse_lost(client.status in _GONE)
            continue
        _refuse_lost(future.status == "cancelled")
        return future


def _refuse_lost(is_lost: bool) -> None:
    if is_lost:
        raise ClusterError(
            "the cluster's scheduler is lost; finished tasks are kept, and the same command continues once there is a "
            "scheduler"
        )


def _note_loss(task: BatchTask, future: Future[None], notes: TaskNotes, sink: Sink) -> None:
    """Note a failure that no attempt could note: the worker died each time, or could not begin."""
    from distributed import KilledWorker

    error = future.exception()
    if isinstance(error, TaskFailedError) or notes.failures(task):
        return
    if isinstance(error, KilledWorker):
        n_died = max(notes.n_lost(task), error.allowed_failures + 1)
        reason = f"{n_died} workers died of it; is there enough memory? fewer 'threads' need less"
    else:
        reason = f"a worker could not begin ({type(error).__name__}: {' '.join(str(error).split())[:160]})"
    notes.fail(task, reason)
    sink(Event("error", {"task": task.key, "message": f"{task.key}: {reason}"}))


def _tell_lacking(offers: Sequence[Mapping[str, float]], tasks: Sequence[BatchTask], sink: Sink) -> None:
    """Report resources that no worker offers yet; tasks that need them wait until one does."""
    if not offers:
        start = "dask worker ADDRESS --nthreads 1 --memory-limit 0"
        sink(warning(f"the cluster has no worker yet; every task waits for one: {start}"))
        return
    offered = {name for offer in offers for name in offer}
    wanted = {name for task in tasks for name in task.shot.resources}
    for name in sorted(wanted - offered):
        sink(warning(f"no worker offers {name} yet; its tasks wait for one: dask worker ... --resources {name}=1"))


def _on_worker(task: BatchTask, notes: TaskNotes, do: Do, topic: str) -> None:
    """An attempt on a worker, which sends its events to the client. Raises TaskFailedError."""
    from distributed import get_worker

    worker = get_worker()

    def tell(event: Event) -> None:
        worker.log_event(topic, {"kind": event.kind, "facts": dict(event.facts)})

    if not notes.is_done(task):
        notes.begin(task)
    attempt(task, notes, do, tell, _Withdrawn(worker.state.tasks, worker.get_current_task()))


class _Withdrawn(Cancel):
    """A cancel request that is set once the scheduler has withdrawn a task from its worker."""

    def __init__(self, tasks: Mapping[Any, Any], key: object) -> None:
        super().__init__()
        self._tasks, self._key = tasks, key

    @property
    def is_requested(self) -> bool:
        state = self._tasks.get(self._key)
        return state is None or state.state == "cancelled"
