"""Sweeps: a scenario varied along axes, each point with several seeds, as one table."""

from __future__ import annotations

import itertools
import json
import os
import sys
import tempfile
import time
from concurrent.futures import Executor, FIRST_COMPLETED, ProcessPoolExecutor, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import pyarrow as pa

from . import _engine
from ._given import count_of, makers, plain, seeds_of, value_text
from ._run import Controls, Routers
from ._scenario import Scenario

#: Columns that an axis may not be called.
_COLUMNS = ("seed", "wall_s", *_engine.METRICS)

#: Values of an axis: of the key that the axis is called, or labels with the keys that each sets.
Values = Union[Sequence[Any], Mapping[str, Mapping[str, Any]]]


def numbers(
    scenario: Scenario, seed: int, router: Routers = None, control: Controls = None, stop: Optional[_engine.Stop] = None
) -> Dict[str, Any]:
    """Runs a scenario, and gives its metrics (those of campaigns) and the real time it took."""
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="farlink-cell-") as folder:
        out = os.fspath(Path(folder) / "run")
        command = "a run of a sweep, of the Python package"
        if not _engine.simulate(scenario, out, seed, makers(router, "router"), makers(control, "control"), True, command, None, stop):
            raise _engine.RunError("the run was stopped")
        found: Dict[str, Any] = json.loads(_engine.numbers(scenario, out, seed))
    return {**found, "wall_s": time.monotonic() - begun}


def interval(values: Iterable[Any]) -> Tuple[float, float]:
    """Mean, and half of its 95 % interval (Student's t); NaN where there are too few.

    Absent values, None and NaN, are left out: a run that delivered nothing has no latency.
    """
    known = [value.as_py() if isinstance(value, pa.Scalar) else value for value in values]
    found = _engine.interval([float(value) for value in known if value is not None and value == value])
    if found is None:
        return (float("nan"), float("nan"))
    mean, half = found
    return (mean, float("nan") if half is None else half)


def points(axes: Mapping[str, Values]) -> List[Tuple[Dict[str, Any], Dict[str, Any]]]:
    """All combinations: where axes stand, and what that sets."""
    if not isinstance(axes, Mapping):
        raise _engine.ConfigError(f"axes: {axes!r} is no dictionary\nhint: write {{key: [value, value]}}")
    choices: List[List[Tuple[str, Any, Dict[str, Any]]]] = []
    for name, values in axes.items():
        if name in _COLUMNS:
            raise _engine.ConfigError(f"axis `{name}`: that is a column of results\nhint: call it something else")
        if isinstance(values, Mapping):
            choices.append([(name, label, _sets(name, label, sets)) for label, sets in values.items()])
        elif isinstance(values, str) or not isinstance(values, Iterable):
            raise _engine.ConfigError(f"axis `{name}`: {values!r} is no list of values\nhint: write [{values!r}]")
        else:
            choices.append([(name, plain(value), {name: plain(value)}) for value in values])
    found = []
    for combination in itertools.product(*choices):
        stands = {name: label for name, label, _ in combination}
        sets = {key: value for _, _, sets in combination for key, value in sets.items()}
        found.append((stands, sets))
    return found


def _sets(axis: str, label: Any, sets: Any) -> Dict[str, Any]:
    if isinstance(sets, Mapping):
        return dict(sets)
    hint = f"write {{{label!r}: {{key: {sets!r}}}}}, with the path of a key, such as duration"
    raise _engine.ConfigError(f"axis `{axis}`: `{label}` is to set {sets!r}, but no key\nhint: {hint}")


def sweep(
    scenario: Union[Scenario, str, "os.PathLike[str]"],
    axes: Mapping[str, Values],
    seeds: Union[int, Iterable[int]] = 5,
    *,
    workers: Optional[int] = None,
    processes: bool = False,
    router: Routers = None,
    control: Controls = None,
    progress: Union[bool, Callable[[int, int], None], None] = None,
) -> pa.Table:
    """Runs all combinations of the values of axes with every seed; a row for each run.

    :param axes: by the path of a key its values, ``{"link[*].delay": ["1 s", "2 s"]}``; or by a name labels with the
        keys that each sets, ``{"store": {"small": {"group[*].store_capacity": "250 kB"}}}``.
    :param seeds: so many (1, 2, ...), or which.
    :param workers: runs at once; without it as many as there are processors.
    :param processes: a process for each worker in place of a thread. The engine runs without Python's lock, so
        threads suffice, but for routers and controls in Python; those must then be importable by their names.
    :param progress: called with runs done and all runs; True: shown on standard error, as it is on a terminal.
    :raises ConfigError: before anything runs, for any point whose scenario is wrong.

    Everything random follows from the seed: differences between points are taken seed by seed. The columns are
    the axes, ``seed``, the metrics of campaigns (``docs/reference/campaign.md``) and ``wall_s``.
    """
    base = scenario if isinstance(scenario, Scenario) else Scenario.load(scenario)
    chosen = seeds_of(seeds)
    workers = count_of("workers", workers)
    makers(router, "router"), makers(control, "control")
    jobs: List[Tuple[Dict[str, Any], Scenario, int]] = []
    for stands, sets in points(axes):
        varied = base.changed(sets)
        varied.check()
        jobs.extend((stands, varied, seed) for seed in chosen)
    if not jobs:
        raise _engine.ConfigError("nothing to run\nhint: give each axis a value, and at least one seed")
    workers = max(1, min(workers or os.cpu_count() or 1, len(jobs)))
    show = _shown(progress)
    rows: List[Optional[Dict[str, Any]]] = [None] * len(jobs)
    # Signals reach the main thread only: it stops the others.
    stop = None if processes else _engine.Stop()
    with _pool(workers, processes) as pool:
        waiting = iter(enumerate(jobs))
        running: Dict[Any, int] = {}

        def begin() -> None:
            for place, (_, varied, seed) in itertools.islice(waiting, workers - len(running)):
                running[pool.submit(numbers, varied, seed, router, control, stop)] = place

        try:
            begin()
            done = 0
            while running:
                # In short steps, so that Ctrl-C is heard.
                for ended in wait(running, timeout=0.2, return_when=FIRST_COMPLETED).done:
                    place = running.pop(ended)
                    rows[place] = {**jobs[place][0], "seed": jobs[place][2], **ended.result()}
                    done += 1
                    show(done, len(jobs))
                begin()
        except BaseException:
            if stop is not None:
                stop.set()
            raise
    return _table([row for row in rows if row is not None], list(axes))


def _pool(workers: int, processes: bool) -> Executor:
    if not processes:
        return ThreadPoolExecutor(workers, thread_name_prefix="farlink")
    import multiprocessing

    # A fork would copy locks of threads.
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def _table(rows: List[Dict[str, Any]], axes: List[str]) -> pa.Table:
    names = list(rows[0])
    columns: Dict[str, Any] = {}
    for name in names:
        values = [row[name] for row in rows]
        if name == "seed":
            columns[name] = pa.array(values, pa.int64())
        elif name not in axes:
            columns[name] = pa.array(values, pa.float64())
        elif len({type(value) for value in values}) > 1 or not isinstance(values[0], (str, int, float)):
            columns[name] = pa.array([value if isinstance(value, str) else value_text(value) for value in values])
        else:
            columns[name] = pa.array(values)
    return pa.table(columns)


def _shown(progress: Union[bool, Callable[[int, int], None], None]) -> Callable[[int, int], None]:
    if callable(progress):
        return progress
    if progress is False or (progress is None and not sys.stderr.isatty()):
        return lambda done, total: None

    def show(done: int, total: int) -> None:
        end = "\n" if done == total else ""
        print(f"\rruns: {done} of {total}", end=end, file=sys.stderr, flush=True)

    return show
