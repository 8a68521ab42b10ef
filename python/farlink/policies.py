"""Routers and congestion controls written in Python.

They are asked as those of the engine are, with the same words (``docs/tutorials/add-a-router.md``), and they are slow:
each question costs some microseconds, in which nothing else in the process runs Python. What proves good is written
in Rust, where the same decisions take nanoseconds and run in real nodes, too.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from . import _engine
from ._engine import Bundle, PolicyEvent, Node, Peer, Wait, CopyOffer

#: What `route` may answer.
Way = Union[None, Wait, Peer, Sequence[Peer]]


def routers() -> Dict[str, str]:
    """Routers of the engine, each with a sentence."""
    return dict(_engine.policies()[0])


def controls() -> Dict[str, str]:
    """Congestion controls of the engine, each with a sentence."""
    return dict(_engine.policies()[1])


class _Policy:
    #: Which news `on` is told: some of peers, links, kept, handed, outcomes, gone.
    hears: Sequence[str] = ()
    _asked: Tuple[str, ...] = ()
    _methods: Tuple[str, ...] = ("on",)
    _orders: List[Tuple[Any, ...]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        policy = super().__new__(cls)
        policy._orders = []
        return policy

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # What is not written is answered without asking.
        base = next(base for base in cls.__mro__ if "_methods" in base.__dict__)
        cls._asked = tuple(name for name in cls._methods if getattr(cls, name) is not getattr(base, name))

    def on(self, node: Node, news: PolicyEvent) -> None:
        """Something happened; only what `hears` names, what neighbours tell, and wake-ups."""

    def tell(self, peer: Peer, message: bytes) -> None:
        """Tells the same policy at a neighbour; it hears ``news.kind == "heard"``."""
        self._orders.append(("tell", peer, bytes(message)))

    def label(self, bundle: Bundle, label: int) -> None:
        """Writes this policy's number on a bundle: one of 32 bits."""
        if not 0 <= label < 2**32:
            raise _engine.ConfigError(f"{label} is no label\nhint: labels are whole numbers from 0 to {2**32 - 1}")
        self._orders.append(("label", bundle, label))

    def delete(self, bundle: Bundle) -> None:
        """Gives a bundle up, as one that has arrived."""
        self._orders.append(("delete", bundle))

    def ban(self, bundle: Bundle) -> None:
        """Refuses this bundle from now on."""
        self._orders.append(("ban", bundle))

    def migrate(self, bundle: Bundle, peer: Peer) -> None:
        """Sends a bundle to a neighbour to make room here."""
        self._orders.append(("migrate", bundle, peer))

    def wake(self, at: float) -> None:
        """Asks for ``news.kind == "wake"`` then, in seconds from the start of the run."""
        self._orders.append(("wake", float(at)))

    def reask(self, peer: Peer) -> None:
        """Asks again what this neighbour wants."""
        self._orders.append(("reask", peer))


class Router(_Policy):
    """Where bundles of one node go. Each node has an object of its own, made without arguments.

    Bundles are pushed by `route`, or carried and pulled by `wants`. The node itself gives a carried bundle to its
    destination, and offers no neighbour what it has, made or gave. Orders (`reroute_all`, `label`, ...) are given in
    `on` and `route`. An exception ends the run and is raised by it.
    """

    _methods = ("on", "route", "wants")
    #: Whether `wants` is asked about carried bundles.
    copies: bool = False
    #: Whether neighbours tell each other what they hold before anything is copied.
    asks_summaries: bool = False

    def route(self, node: Node, bundle: Bundle, tried: List[Peer]) -> Way:
        """Where should this bundle go? None: carry it; a peer: over its first link; peers: a copy to each.

        ``Wait(until)``: nowhere yet. ``tried`` refused it lately.
        """
        return None

    def wants(self, node: Node, peer: Peer, bundle: Bundle) -> Union[None, bool, CopyOffer]:
        """Should this neighbour, which is up and lacks it, get this carried bundle? True: a copy."""
        return None

    def reroute(self, bundle: Bundle) -> None:
        """Asks again where this bundle goes."""
        self._orders.append(("reroute", bundle))

    def reroute_all(self) -> None:
        """Asks again about every bundle that waits."""
        self._orders.append(("reroute_all",))

    def reroute_to(self, number: int) -> None:
        """Asks again about bundles for the node of this number."""
        self._orders.append(("reroute_to", number))


class Control(_Policy):
    """Whether bundles of one node are kept, and copied. Each node has an object of its own, made without arguments."""

    _methods = ("on", "admit", "worth", "allow", "rehome")
    #: Whether `allow` is asked also about bundles that the router does not want copied.
    wishes: bool = False

    def admit(self, node: Node, bundle: Bundle) -> Union[None, bool, float]:
        """May this newcomer in? What it is worth: what is worth less may make room for it. None, False: refused."""
        return True

    def worth(self, node: Node, bundle: Bundle) -> Optional[float]:
        """What keeping this bundle is worth; None: it is never given up."""
        return None

    def allow(self, node: Node, peer: Peer, bundle: Bundle, want: Optional[CopyOffer]) -> Union[None, bool, CopyOffer]:
        """May the router's wish be followed? True: as it is; None, False: no."""
        return want

    def rehome(self, node: Node, bundle: Bundle) -> Optional[Peer]:
        """A bundle that is to be given up may move to this neighbour instead."""
        return None
