"""Delay- and disruption-tolerant networks in simulation.

Load or build a :class:`Scenario`, :func:`run` it, read the tables of the :class:`Run`, or :func:`sweep` over what
varies. Routers and congestion controls may be written in Python (:class:`Router`, :class:`Control`).
"""

from ._engine import VERSION, Bundle, ConfigError, PolicyEvent, Node, Peer, RunError, Wait, CopyOffer
from ._run import Run, run
from ._scenario import Scenario
from ._sweep import interval, sweep
from .policies import Control, Router, controls, routers

__version__ = VERSION.split(" ", 1)[0]

__all__ = [
    "Bundle",
    "ConfigError",
    "Control",
    "PolicyEvent",
    "Node",
    "Peer",
    "Router",
    "Run",
    "RunError",
    "Scenario",
    "VERSION",
    "Wait",
    "CopyOffer",
    "controls",
    "interval",
    "routers",
    "run",
    "sweep",
]
