"""The compiled part of the package."""


from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

VERSION: str
#: Names of the metrics of campaigns.
METRICS: Tuple[str, ...]
#: Most runs of each point of a campaign.
REPETITIONS_MAX: int

class ConfigError(ValueError):
    """A scenario, a campaign or an argument that cannot be used."""

    #: Of a file: path, what was expected, and hint of each mistake.
    errors: List[Tuple[str, str, str]]

class RunError(RuntimeError):
    """A run that failed."""

class Scenario:
    def __init__(self, text: str, folder: str = "") -> None: ...
    @staticmethod
    def read(path: str) -> Scenario: ...
    @property
    def text(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    @property
    def name(self) -> Optional[str]: ...
    def check(self) -> List[str]: ...
    def nodes(self) -> List[str]: ...
    def set_json(self, path: str, json: str) -> None: ...
    def add_json(self, name: str, json: str) -> None: ...

class Peer:
    """A neighbour, as it is at the moment of the question."""

    name: str
    number: int
    is_up: bool
    links: int
    until: Optional[float]
    next_up: Optional[float]
    rate: Optional[int]
    free: Optional[int]
    capacity: Optional[int]
    id: int

class Node:
    """The node that asks, as it is at the moment of the question."""

    name: str
    number: int
    now: float
    capacity: int
    stored: int
    count: int
    @property
    def peers(self) -> List[Peer]: ...
    @property
    def free(self) -> int: ...

class Bundle:
    """A bundle that the node holds or is offered, as it is at the moment of the question."""

    arrival: int
    size: int
    age: float
    remaining: float
    hops: int
    label: int
    removable: bool
    @property
    def id(self) -> int: ...
    @property
    def source(self) -> str: ...
    @property
    def destination(self) -> str: ...
    @property
    def source_number(self) -> int: ...
    @property
    def destination_number(self) -> int: ...
    @property
    def destination_id(self) -> str: ...
    @property
    def priority(self) -> str: ...
    @property
    def lifetime(self) -> float: ...
    @property
    def made_here(self) -> bool: ...
    def came_from(self, peer: Peer) -> bool: ...

class PolicyEvent:
    """Something that happened at a node."""

    kind: str
    why: Optional[str]
    label: Optional[int]
    keep: Optional[bool]
    @property
    def peer(self) -> Optional[Peer]: ...
    @property
    def bundle(self) -> Optional[Bundle]: ...
    @property
    def bytes(self) -> Optional[bytes]: ...

class Wait:
    """No way yet: ask again then (seconds from the start of the run), or when something changes."""

    until: Optional[float]
    def __init__(self, until: Optional[float] = None) -> None: ...

class CopyOffer:
    """That a neighbour should get a bundle, and how: least rank first, whether a copy stays, how the label is split."""

    rank: Optional[int]
    keep: bool
    ours: Optional[int]
    theirs: Optional[int]
    def __init__(
        self, rank: Optional[int] = None, keep: bool = True, ours: Optional[int] = None, theirs: Optional[int] = None
    ) -> None: ...

class Stop:
    """Ends the runs that know it."""

    def __init__(self) -> None: ...
    def set(self) -> None: ...

class Campaign:
    @staticmethod
    def begin(path: str, out: str, small: bool, only: List[str], repetitions: Optional[int] = None) -> Campaign: ...
    @staticmethod
    def open(folder: str) -> Campaign: ...
    @property
    def name(self) -> str: ...
    @property
    def folder(self) -> Path: ...
    @property
    def cells(self) -> int: ...
    def lock(self) -> None: ...
    def unlock(self) -> None: ...
    def left(self) -> List[str]: ...
    def work(self, name: str) -> Tuple[str, str, int, Dict[str, bytes]]: ...
    def put(self, name: str, numbers: str, wall_s: float, version: str) -> None: ...
    def fail(self, name: str, why: str) -> None: ...
    def report(self) -> Tuple[str, Path]: ...

def simulate(
    scenario: Scenario,
    folder: str,
    seed: Optional[int],
    routers: List[Tuple[str, Any]],
    controls: List[Tuple[str, Any]],
    lean: bool,
    command: str,
    progress: Optional[Callable[[float, float, int], None]],
    stop: Optional[Stop],
) -> bool: ...
def summary(folder: str) -> str: ...
def numbers(scenario: Scenario, folder: str, seed: Optional[int] = None) -> str: ...
def policies() -> Tuple[List[Tuple[str, str]], List[Tuple[str, str]]]: ...
def interval(values: List[float]) -> Optional[Tuple[float, Optional[float]]]: ...
