"""Workers of a Ray cluster. Ray is imported here alone, and is an extra: `flashwright[ray]`."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import tarfile
import tempfile
import time
import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

from flashwright._core import InputError, InputWarning, RunError
from flashwright._text import size
from flashwright.engine import worker
from flashwright.engine.pools import Ended
from flashwright.engine.task import Input, input_of
from flashwright.engine.worker import Order, Reply
from flashwright.runs import files_of

BASE_BYTES = 256 << 20
"""Memory that a job without a limit asks the cluster for."""
_LOOK_SECONDS = 5.0
"""Between two looks at which nodes there are."""
_ANSWER_SECONDS = 10.0
"""Time in which an address has to answer."""
_PATIENCE_SECONDS = 20.0
"""Time without a node that has room for a job, after which that is said."""
_WAITING = 8
"""Orders that wait beyond one more for each processor."""
_MOST_SHARE = 0.25
"""Share of a cluster's object store that an input may take."""
_KEPT_SECONDS = 7 * 86_400.0
"""Time for which a node keeps an input that no job asks for."""
_MOST_PACKED = 64
"""Inputs that are held in the object store for tasks to come."""


def imported() -> Any:
    """Give Ray. Raises InputError if it is not installed."""
    try:
        import ray  # noqa: PLC0415
    except ImportError:
        raise InputError(
            "--engine ray: Ray is not installed; right would be pip install 'flashwright[ray]'"
        ) from None
    return ray


def local_cache() -> Path:
    """Give the folder of this machine in which inputs lie by their content."""
    return Path(tempfile.gettempdir()) / f"flashwright-inputs-{os.getuid()}"


def fetched(one: Input, packed: Any) -> str:
    """Give the path of an input on this node: from the object store, once a node.

    Raises RunError if what is in the cache's place is somebody else's.
    """
    ray = imported()
    folder = local_cache()
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise RunError(f"{folder}: it belongs to another user; right would be a TMPDIR of your own")
    # The name keeps its endings, by which formats are told.
    place = folder / one.sha256 / Path(one.path).name
    if place.exists():
        os.utime(folder / one.sha256)
    else:
        _drop_unused(folder)
        with tempfile.TemporaryDirectory(dir=folder) as part:
            with tarfile.open(fileobj=BytesIO(ray.get(packed))) as archive:
                archive.extractall(part, filter="data")
            with contextlib.suppress(OSError):
                # Another worker of this node may have been quicker.
                Path(part, "content").rename(folder / one.sha256)
    return str(place)


def _drop_unused(folder: Path) -> None:
    """Remove inputs that no job has asked for in a week."""
    for one in folder.iterdir():
        with contextlib.suppress(OSError):
            if time.time() - one.stat().st_mtime > _KEPT_SECONDS:
                shutil.rmtree(one)


def pack(one: Input) -> bytes:
    """Pack an input, a file or a folder, as `fetched` takes it."""
    path, packed = Path(one.path), BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for file in files_of(path):
            inner = Path("content", path.name, file.relative_to(path))
            archive.add(file, str(inner), recursive=False)
    return packed.getvalue()


def _is_here(one: Input) -> bool:
    """Tell whether this node sees an input where it lies, with the same content."""
    try:
        return input_of(one.path).sha256 == one.sha256
    except InputError:
        return False


def _do(order: Order, packed: list[tuple[Input, Any]]) -> Reply | str:
    """Do an order; give the content of an input instead that neither came along nor is here."""
    worker.leave_if_spent()
    paths = {}
    for one, ref in packed:
        if ref is not None:
            paths[one.path] = fetched(one, ref)
        elif not _is_here(one):
            return one.sha256
    return worker.do(order, paths)


def _no_cluster(address: str | None, said: str) -> RunError:
    return RunError(
        f"--address {address or 'auto'}: no Ray cluster answers there ({said}); right would be "
        "`ray start --head` first, or the address of one"
    )


def _check_answers(address: str | None) -> None:
    """Raise RunError if nobody listens at an address: Ray itself tries for minutes."""
    host, _, port = (address or "").rpartition("://")[2].partition("/")[0].rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), _ANSWER_SECONDS).close()
    except OSError as error:
        raise _no_cluster(address, error.strerror or str(error)) from error


class Cluster:
    """Tasks of a Ray cluster, as many as it has room for."""

    def __init__(
        self,
        address: str | None,
        memory_bytes: int | None,
        most: int | None,
        *,
        takes_node: bool = False,
    ) -> None:
        """Join the cluster. With `takes_node` a task has all processors of the largest nodes."""
        self._ray = ray = imported()
        self._most = most
        self._started = not ray.is_initialized()
        if self._started:
            _check_answers(address)
            try:
                ray.init(address=address or "auto", log_to_driver=False, logging_level="ERROR")
            except (ConnectionError, ValueError, RuntimeError) as error:
                raise _no_cluster(address, str(error).strip().splitlines()[0]) from error
        alive = [node["Resources"].get("CPU", 0) for node in ray.nodes() if node["Alive"]]
        self._processors = max(1, int(max(alive, default=1))) if takes_node else 1
        self._remote = ray.remote(
            num_cpus=self._processors,
            memory=memory_bytes or BASE_BYTES,
            # We count tries ourselves, and know which order was lost.
            max_retries=0,
        )(_do)
        self._under_way: dict[Any, Order] = {}
        self._packed: dict[str, Any] = {}
        self._unseen: set[str] = set()
        """Contents of folders that some node does not see where they lie."""
        self._looked, self._cores, self._nodes, self._places = 0.0, 1, 1, 1
        self._memory_bytes = memory_bytes or BASE_BYTES
        self._fitted: float | None = time.monotonic()
        """When a node last had room for a task; None once it was said that none has."""

    def _look(self) -> None:
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        self._nodes = len(alive)
        self._cores = int(sum(one.get("CPU", 0) for one in alive))
        self._places = sum(int(one.get("CPU", 0)) // self._processors for one in alive)
        if any(
            one.get("CPU", 0) >= self._processors and one.get("memory", 0) >= self._memory_bytes
            for one in alive
        ):
            self._fitted = time.monotonic()
        elif self._fitted is not None and time.monotonic() - self._fitted > _PATIENCE_SECONDS:
            self._fitted = None
            # An autoscaler may still bring one: it is no error.
            warnings.warn(
                f"no node of the cluster has {self._said_processors()} and "
                f"{size(self._memory_bytes)} of memory for a job: it waits for one",
                InputWarning,
                stacklevel=1,
            )

    def _said_processors(self) -> str:
        return "a processor" if self._processors == 1 else f"{self._processors} processors"

    def room(self) -> int:
        """See `Pool`. Nodes come and go."""
        self._look()
        places = max(1, self._places)
        at_once = places if self._most is None else min(places, self._most)
        waiting = min(at_once, _WAITING) if self._most is None else 0
        return at_once + waiting - len(self._under_way)

    def submit(self, order: Order) -> None:
        """See `Pool`."""
        packed = [(one, self._sent(one)) for one in order.task.inputs]
        self._under_way[self._remote.remote(order, packed)] = order

    def _sent(self, one: Input) -> Any:
        """Give what a task gets of an input.

        None of a folder, such as a volume of a store of terabytes, until a node does not see it.
        """
        is_tried = Path(one.path).is_dir() and one.sha256 not in self._unseen
        return None if is_tried else self._put(one)

    def _put(self, one: Input) -> Any:
        """Put an input into the object store, once. Raises InputError if it is too large."""
        if one.sha256 not in self._packed:
            room = self._ray.cluster_resources().get("object_store_memory", 0)
            if one.size_bytes > _MOST_SHARE * room:
                raise InputError(
                    f"{one.path}: {size(one.size_bytes)} are too much for the cluster's object "
                    f"store of {size(room)}; right would be `ray start --object-store-memory`, or "
                    "a part of it"
                )
            while len(self._packed) >= _MOST_PACKED:
                # Tasks that are under way hold what they were given.
                del self._packed[next(iter(self._packed))]
            self._packed[one.sha256] = self._ray.put(pack(one))
        return self._packed[one.sha256]

    def wait(self, seconds: float) -> list[Ended]:
        """See `Pool`."""
        self._look()
        if not self._under_way:
            time.sleep(min(seconds, 0.01))
            return []
        refs = list(self._under_way)
        ready, _ = self._ray.wait(refs, num_returns=1, timeout=seconds)
        if ready:
            # What else has ended meanwhile comes along.
            ready, _ = self._ray.wait(refs, num_returns=len(refs), timeout=0)
        found = [self._ended(ref) for ref in ready]
        return [one for one in found if one is not None]

    def _ended(self, ref: Any) -> Ended | None:
        """Give what came of an order; None if it is begun anew, with what its node lacked."""
        order = self._under_way.pop(ref)
        try:
            reply = self._ray.get(ref)
            if isinstance(reply, str):
                self._unseen.add(reply)
                self.submit(order)
                return None
            return Ended(order, reply)
        except self._ray.exceptions.RayTaskError as error:
            # Ours came before the job began: a cache that is not ours, a module that is missing.
            return Ended(order, None, str(error.cause))
        except self._ray.exceptions.RayError as error:
            return Ended(order, None, f"its worker is gone: {str(error).strip().splitlines()[0]}")

    def under_way(self) -> float:
        """See `Pool`. Nobody asks tasks of a cluster how far they are."""
        return 0.0

    def said(self) -> str:
        """See `Pool`."""
        nodes = f"{self._nodes} Ray node{'s'[: self._nodes != 1]}"
        return f"{self._cores} processor{'s'[: self._cores != 1]} on {nodes}"

    def close(self) -> None:
        """See `Pool`."""
        for ref in self._under_way:
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.cancel(ref, force=True)
        self._under_way.clear()
        self._packed.clear()
        if self._started:
            self._ray.shutdown()
