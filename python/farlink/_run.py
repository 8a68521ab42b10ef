"""Runs: simulated, and read back as Arrow tables."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Type, Union

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from . import _engine
from ._given import makers, seed_of
from ._scenario import Scenario
from .policies import Control, Router

MakesRouter = Union[Type[Router], Callable[[], Router]]
MakesControl = Union[Type[Control], Callable[[], Control]]
#: One for all nodes, or by the names of nodes and groups; ``*`` are all.
Routers = Union[MakesRouter, Mapping[str, MakesRouter], None]
Controls = Union[MakesControl, Mapping[str, MakesControl], None]
Progress = Callable[[float, float, int], None]

#: A run takes any seed of 64 bits, as the command does.
_SEED_MAX = 2**64 - 1

#: Columns of tables that only runs with positions or radios have.
_OF_MAP: Dict[str, List[Tuple[str, pa.DataType]]] = {
    "legs": [("node", pa.string())]
    + [(name, pa.float64()) for name in ("start_s", "end_s", "x", "y", "velocity_x", "velocity_y")],
    "meetings": [(name, pa.string()) for name in ("radio", "node", "peer")]
    + [(name, pa.int64()) for name in ("start_ns", "end_ns")],
}

_BUNDLE = ["source", "service", "creation_ms", "sequence"]


def run(
    scenario: Union[Scenario, str, "os.PathLike[str]"],
    seed: Optional[int] = None,
    *,
    out: Union[str, "os.PathLike[str]", None] = None,
    router: Routers = None,
    control: Controls = None,
    progress: Optional[Progress] = None,
) -> Run:
    """Simulates a scenario.

    :param seed: of everything random, in place of the scenario's.
    :param out: folder of the run, which stays; without it, one that goes with the :class:`Run`.
    :param router: a subclass of :class:`farlink.Router`, or a dictionary of them by names of nodes and groups.
    :param control: the same of :class:`farlink.Control`.
    :param progress: called with simulated seconds, those of the whole run, and bundles delivered.
    :raises ConfigError: what is wrong with the scenario, all of it at once.
    :raises RunError: when the run failed.

    Python's lock is released while it runs, so several threads may run several; Ctrl-C ends it.
    """
    if not isinstance(scenario, _engine.Scenario):
        scenario = Scenario.load(scenario)
    seed = None if seed is None else seed_of(seed, _SEED_MAX)
    policies = (makers(router, "router"), makers(control, "control"))
    passing = tempfile.mkdtemp(prefix="farlink-run-") if out is None else None
    folder = Path(passing, "run") if passing is not None else Path(os.fsdecode(out or ""))
    command = "farlink.run(...), of the Python package"
    try:
        _engine.simulate(scenario, os.fspath(folder), seed, *policies, False, command, progress, None)
        done = Run(folder)
    except BaseException:
        if passing is not None:
            shutil.rmtree(passing, ignore_errors=True)
        raise
    if passing is not None:
        weakref.finalize(done, _remove, passing, os.getpid())
    return done


def _remove(folder: str, process: int) -> None:
    """Removes the folder of a run that is over; a fork of the process that made it leaves it there."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


class Run:
    """A run directory, of the simulator or of the testbed; its tables are read as they are asked for.

    ``docs/reference/run.md`` has all columns and their units. A table becomes a pandas frame by ``.to_pandas()``,
    a polars frame by ``polars.from_arrow(table)``.
    """

    def __init__(self, folder: Union[str, "os.PathLike[str]"]) -> None:
        self.folder = Path(folder)
        self._tables: Dict[str, pa.Table] = {}
        self._manifest: Optional[Dict[str, Any]] = None
        #: Its numbers, as ``farlink run --json`` prints them.
        self.summary: Dict[str, Any] = json.loads(_engine.summary(os.fspath(self.folder)))

    @property
    def manifest(self) -> Dict[str, Any]:
        """Scenario, seed, versions, machine, topology."""
        if self._manifest is None:
            self._manifest = json.loads((self.folder / "manifest.json").read_text(encoding="utf-8"))
        return self._manifest

    @property
    def seed(self) -> int:
        """Its seed."""
        return int(self.manifest["seed"])

    def _table(self, name: str) -> pa.Table:
        if name not in self._tables:
            # Not `read_table`: that takes the folder's name for a partition, and memory maps what may be removed.
            with pq.ParquetFile(self.folder / f"{name}.parquet") as file:
                self._tables[name] = file.read()
        return self._tables[name]

    @property
    def bundles(self) -> pa.Table:
        """A row for each bundle that an application created, end to end."""
        return self._table("bundles")

    @property
    def events(self) -> pa.Table:
        """What happened at each node; empty where the scenario's ``[measure]`` leaves events out."""
        return self._table("events")

    @property
    def samples(self) -> pa.Table:
        """Values over time: stores and links."""
        return self._table("samples")

    @property
    def links(self) -> pa.Table:
        """Totals of each direction of each link."""
        return self._table("links")

    @property
    def processes(self) -> pa.Table:
        """What each process used; of the testbed."""
        return self._table("processes")

    @property
    def hops(self) -> pa.Table:
        """A row for each time a bundle arrived at a node over a link: when, whence (where known) and whither; of events."""
        if "hops" not in self._tables:
            events = self.events
            found = events.filter(pc.equal(events["event"], pa.scalar("received")))
            columns = {"time_ns": "time_ns", "from_node": "peer", "to_node": "node", "link": "link"}
            named = {new: found[old] for new, old in columns.items()}
            rest = _BUNDLE + ["fragment_offset", "destination", "bundle_bytes"]
            self._tables["hops"] = pa.table({**named, **{name: found[name] for name in rest}})
        return self._tables["hops"]

    @property
    def contacts(self) -> pa.Table:
        """A row for each time a link was up at a node: from when to when, to whom; of events."""
        if "contacts" not in self._tables:
            self._tables["contacts"] = _contacts(self.events, int(self.summary["duration_s"] * 1e9))
        return self._tables["contacts"]

    @property
    def legs(self) -> pa.Table:
        """Where nodes were: straight ways, each from a place and a time to another; empty where nothing has positions."""
        return self._table_of_map("legs")

    @property
    def meetings(self) -> pa.Table:
        """A row for each time two nodes met over a radio; empty where there are no radios."""
        return self._table_of_map("meetings")

    def _table_of_map(self, name: str) -> pa.Table:
        if name not in self._tables and not (self.folder / f"{name}.parquet").exists():
            return pa.schema(_OF_MAP[name]).empty_table()
        return self._table(name)

    def __getstate__(self) -> Dict[str, Any]:
        # Its folder may be gone where it is unpickled: the tables go along.
        for file in self.folder.glob("*.parquet"):
            self._table(file.stem)
        return {**self.__dict__, "_manifest": self.manifest}

    def __repr__(self) -> str:
        delivered, created = self.summary["delivered"], self.summary["created"]
        return f"Run({self.manifest['scenario']!r}, seed={self.seed}: {delivered} of {created} bundles delivered)"


def _contacts(events: pa.Table, end_ns: int) -> pa.Table:
    found = events.filter(pc.is_in(events["event"], pa.array(["link_up", "link_down"])))
    up: Dict[Tuple[str, Optional[str]], Dict[Optional[str], int]] = {}
    rows: List[Tuple[int, int, str, Optional[str], Optional[str]]] = []
    columns = (found[name].to_pylist() for name in ("time_ns", "event", "node", "link", "peer"))
    for time_ns, event, node, link, peer in zip(*columns):
        peers = up.setdefault((node, link), {})
        if event == "link_up":
            peers.setdefault(peer, time_ns)
            continue
        for known in [known for known in peers if peer in (None, known)]:
            rows.append((peers.pop(known), time_ns, node, link, known))
    for (node, link), peers in up.items():
        rows.extend((start, max(end_ns, start), node, link, peer) for peer, start in peers.items())
    rows.sort(key=lambda row: (row[0], row[2], row[3] or ""))
    names = ["start_ns", "end_ns", "node", "link", "peer"]
    types = [pa.int64(), pa.int64(), pa.string(), pa.string(), pa.string()]
    columns_of = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    return pa.table({name: pa.array(columns_of[name], kind) for name, kind in zip(names, types)})
