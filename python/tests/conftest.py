"""What tests share: two small scenarios."""

from pathlib import Path

import pytest

import farlink

RELAY = """
name = "relay"
description = "A rover sends ten pictures to a station; the orbiter between them sees one after the other."
duration = "1 min"

[node_defaults]
router = "sabr"

[[node]]
name = "station"
id = "ipn:1.0"

[[node]]
name = "orbiter"
id = "ipn:2.0"

[[node]]
name = "rover"
id = "ipn:3.0"

[[link]]
name = "proximity"
between = ["rover", "orbiter"]
layer = "ltp"
rate = "2 Mbit/s"
delay = "10 ms"

[[link]]
name = "deep-space"
between = ["orbiter", "station"]
layer = "ltp"
rate = "1 Mbit/s"
delay = "1 s"

[[contact]]
link = "proximity"
start = "10 s"
end = "20 s"

[[contact]]
link = "deep-space"
start = "30 s"
end = "50 s"

[[traffic]]
from = "rover"
to = "station"
bundles = { count = 10, size = "20 kB", interval = "1 s" }
"""

CROWD = (Path(__file__).parent.parent / "notebooks" / "crowd.toml").read_text()


@pytest.fixture
def relay() -> farlink.Scenario:
    return farlink.Scenario.from_text(RELAY)


@pytest.fixture
def crowd() -> farlink.Scenario:
    return farlink.Scenario.from_text(CROWD)
