"""Campaigns over a Ray cluster: a task for each cell, on whatever machine has a free processor.

A cell is a scenario's text, the files it names, and a seed; what comes back are its numbers. So a cell whose worker is
lost is run again, elsewhere, and gives the same. The machines need this package and Ray, and no files.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path, PurePath
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from . import _engine
from ._given import count_of
from ._scenario import Scenario
from ._sweep import numbers

_Path = Union[str, "os.PathLike[str]"]
#: How often a cell is run whose worker is lost each time: it may be what kills them.
TRIES = 5


class Outcome:
    """What came of a campaign: cells that ran now, that failed (with why), and how often a worker was lost."""

    def __init__(self, folder: Path, cells: int) -> None:
        self.folder = folder
        self.cells = cells
        self.ran = 0
        self.lost = 0
        self.failed: Dict[str, str] = {}
        #: Its results as text, and the path of its report.
        self.text = ""
        self.page: Optional[Path] = None

    def __repr__(self) -> str:
        return f"Outcome({os.fspath(self.folder)!r}, ran={self.ran}, failed={len(self.failed)}, lost={self.lost})"


def cell(text: str, seed: int, files: Dict[str, bytes]) -> Tuple[str, float, str]:
    """Runs one cell in a folder with the files that it names: its metrics as JSON, seconds, and the version."""
    with tempfile.TemporaryDirectory(prefix="farlink-cell-") as top:
        # Files beside the campaign may be named by `..`: as deep as that stays within.
        up = max((PurePath(name).parts.count("..") for name in files), default=0)
        base = Path(top, *("d" for _ in range(up)))
        base.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            if not PurePath(name).is_absolute():
                path = base / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        found = numbers(Scenario(text, os.fspath(base)), seed)
    wall_s = found.pop("wall_s")
    return json.dumps(found), wall_s, _engine.VERSION


def campaign(
    path: _Path,
    out: _Path,
    *,
    smoke: bool = False,
    only: Sequence[str] = (),
    repetitions: Optional[int] = None,
    address: Optional[str] = None,
    jobs: Optional[int] = None,
    progress: Optional[Callable[[int, int, int], None]] = None,
) -> Outcome:
    """Runs a campaign over a Ray cluster: the one that this process is joined to, else that of ``address`` (or of
    ``RAY_ADDRESS``), else one on this machine.

    :param out: folder of the results, not there or empty; :func:`resume` goes on with it.
    :param jobs: cells under way at once; without it twice as many as the cluster has processors.
    :param progress: called with cells that ended, all cells, and how often a worker was lost.
    """
    jobs = count_of("jobs", jobs)
    repetitions = count_of("repetitions", repetitions, _engine.REPETITIONS_MAX)
    study = _engine.Campaign.begin(os.fspath(path), os.fspath(out), smoke, list(only), repetitions)
    return _go(study, address, jobs, progress)


def resume(
    folder: _Path,
    *,
    address: Optional[str] = None,
    jobs: Optional[int] = None,
    progress: Optional[Callable[[int, int, int], None]] = None,
) -> Outcome:
    """Goes on with a campaign that was stopped, wherever its cells ran until then."""
    jobs = count_of("jobs", jobs)
    return _go(_engine.Campaign.open(os.fspath(folder)), address, jobs, progress)


def _go(
    study: _engine.Campaign,
    address: Optional[str],
    jobs: Optional[int],
    progress: Optional[Callable[[int, int, int], None]],
) -> Outcome:
    try:
        import ray
    except ImportError as missing:
        raise ImportError("Ray is not installed here\nhint: pip install ray") from missing
    began = not ray.is_initialized()
    if began:
        ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)
    try:
        study.lock()
        outcome = Outcome(study.folder, study.cells)
        _all(study, outcome, jobs, progress)
        outcome.text, outcome.page = study.report()
        return outcome
    finally:
        study.unlock()
        if began:
            ray.shutdown()


def _all(
    study: _engine.Campaign,
    outcome: Outcome,
    jobs: Optional[int],
    progress: Optional[Callable[[int, int, int], None]],
) -> None:
    import ray
    from ray import exceptions

    # Lost workers are our business, so that it is known how often; none of a cell's mistakes is tried again.
    remote = ray.remote(max_retries=0, num_cpus=1)(cell)
    lost_worker: Tuple[Any, ...] = (
        exceptions.WorkerCrashedError,
        exceptions.NodeDiedError,
        exceptions.LocalRayletDiedError,
        exceptions.ObjectLostError,
        exceptions.OutOfMemoryError,
    )
    machines: Any = ray
    left: List[str] = list(reversed(study.left()))
    before = study.cells - len(left)
    tries: Dict[str, int] = {}
    running: Dict[Any, str] = {}
    shared: Dict[bytes, Any] = {}

    def begin() -> None:
        most = jobs or max(2, 2 * int(machines.cluster_resources().get("CPU", 1)))
        while left and len(running) < most:
            name = left.pop()
            tries[name] = tries.get(name, 0) + 1
            _, text, seed, files = study.work(name)
            # The same files for most cells: sent once to each machine.
            key = repr(sorted((file, hash(content)) for file, content in files.items())).encode()
            if key not in shared:
                shared[key] = ray.put(files)
            running[remote.remote(text, seed, shared[key])] = name

    try:
        begin()
        while running:
            ended, _ = ray.wait(list(running), num_returns=1, timeout=0.5)
            for reference in ended:
                name = running.pop(reference)
                try:
                    found, wall_s, version = ray.get(reference)
                    study.put(name, found, wall_s, version)
                    outcome.ran += 1
                except lost_worker as error:
                    outcome.lost += 1
                    if isinstance(error, exceptions.ObjectLostError):
                        shared.clear()
                    if tries[name] < TRIES:
                        left.append(name)
                    else:
                        _fail(study, outcome, name, f"its worker was lost {TRIES} times; the last time: {error}")
                except exceptions.RayTaskError as error:
                    _fail(study, outcome, name, str(error.cause))
            if ended and progress is not None:
                progress(before + outcome.ran, study.cells, outcome.lost)
            begin()
    finally:
        for reference in running:
            ray.cancel(reference, force=True)


def _fail(study: _engine.Campaign, outcome: Outcome, name: str, why: str) -> None:
    outcome.failed[name] = why
    study.fail(name, why)
