"""Scenarios and policies of those who mean no good: an error that Python can catch, never a panic, an end of the
process, or memory without a bound."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import RELAY

#: Bytes of memory that a process may have, its libraries included.
MEMORY = 4 << 30

#: What each process begins with: `refused` calls what must raise an error that is no `BaseException`.
BEGIN = f"""
import os, resource, sys
import farlink
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
RELAY = {RELAY!r}

def relay(path=None, value=None):
    scenario = farlink.Scenario(RELAY)
    return scenario if path is None else scenario.set(path, value)

def harmless(name, call):
    print(name, flush=True)
    try:
        call()
    except Exception as error:
        assert len(str(error)) < 100_000, "an error fills the terminal"
        return True
    return False

def refused(name, call):
    assert harmless(name, call), "nothing was wrong with it"

"""

VALUES = """
run = lambda path, value: lambda: farlink.run(relay(path, value))
for size in ["99999999999 GB", "-1 kB", "1e400 B", "nan B", -5, 1e300, float("nan"), float("inf"), 2**100, True, [], {}]:
    refused(f"size {size!r}", run("traffic[1].bundles.size", size))
for duration in ["-5 s", "1e400 s", "inf", "nan s", "1e18 years", -1, float("nan"), 2**63, ""]:
    refused(f"duration {duration!r}", run("duration", duration))
for rate in ["0 bit/s", "-1 bit/s", "1e400 Gbit/s", "nan bit/s", float("nan")]:
    refused(f"rate {rate!r}", run("link[*].rate", rate))
for delay in ["-1 s", "1e400 s", "nan s", "1e18 years", float("-inf")]:
    refused(f"delay {delay!r}", run("link[*].delay", delay))
for start in ["-1 s", "1e400 s", "nan s", float("nan")]:
    refused(f"contact {start!r}", run("contact[*].start", start))
for count in [-1, 2**64, 1.5, float("nan"), "many"]:
    refused(f"count {count!r}", run("traffic[1].bundles.count", count))
for seed in [-1, 2**64, 1.5, float("nan"), "x"]:
    refused(f"seed {seed!r}", lambda: farlink.run(relay(), seed=seed))
refused("nodes", lambda: farlink.run(relay().add("group", name="g", count=10**12, id="ipn:100.0")))
harmless("as many bundles as there are numbers", run("traffic[1].bundles.count", 10**18))
deep = []
for _ in range(100_000):
    deep = [deep]
refused("deep lists", lambda: relay("name", deep))
deep = []
for _ in range(120):
    deep = [deep]
refused("lists", run("name", deep))
for name in ["x" * (1 << 28), "x" * (1 << 24), "\\x1b[2J" * 100_000, "a\\0b", "\\ud800", "../../x", ""]:
    harmless(f"name of {len(name)}", run("name", name))
    refused(f"router of {len(name)}", run("node[*].router", name))
"""

TEXTS = """
text = lambda text: lambda: farlink.Scenario(text).check()
refused("brackets", text("a = " + "[" * 1_000_000))
refused("braces", text("a = " + "{a=" * 1_000_000))
refused("closed brackets", text("a = " + "[" * 10_000 + "]" * 10_000))
refused("dots", text("a" + ".a" * 200_000 + " = 1"))
refused("a table of dots", text("[a" + ".a" * 200_000 + "]"))
refused("set in dots", lambda: farlink.Scenario("a" + ".a" * 200_000 + " = 1").set("name", "x"))
refused("a path of dots", lambda: relay("a" + ".a" * 200_000, 1))
refused("a path of brackets", lambda: relay("node" + "[1]" * 200_000, 1))
refused("tables", text("[[node]]\\n" * 50_000))
refused("keys", text("".join(f"k{n} = 1\\n" for n in range(20_000))))
refused("comment", text("#" * (1 << 29)))
refused("string", text('name = "' + "x" * (1 << 29)))
refused("nul", text("\\0"))
"""

PATHS = """
os.symlink("/dev/zero", "link")
os.symlink("loop", "loop")
for path in ["/dev/zero", "/dev/full", "/proc/self/mem", "/proc/self/pagemap", "link", "loop", "/", "a\\0b", "x" * 10_000]:
    refused(f"load {path[:20]!r}", lambda: farlink.Scenario.load(path))
    refused(f"run {path[:20]!r}", lambda: farlink.run(path))
    plan = farlink.Scenario(RELAY.split("[[contact]]")[0] + RELAY[RELAY.index("[[traffic]]"):], os.getcwd())
    refused(f"plan {path[:20]!r}", lambda: farlink.run(plan.set("plan.file", path)))
for out in ["/proc/x", "/dev/null/x", "/dev/null", "a\\0b", "loop", "x" * 10_000]:
    refused(f"out {out[:20]!r}", lambda: farlink.run(relay(), out=out))
os.mkdir("kept")
open("kept/mine", "w").write("precious")
refused("out of somebody else", lambda: farlink.run(relay(), out="kept"))
assert os.listdir("kept") == ["mine"]
refused("numbers of nothing", lambda: farlink.Run("/proc/self"))
"""

POLICIES = """
from farlink import Control, Router, Wait, CopyOffer

def router(answer):
    class Hostile(Router):
        copies = True
        def route(self, node, bundle):
            return answer()
        def want(self, node, peer, bundle):
            return answer()
    return lambda: farlink.run(relay(), router=Hostile)

def control(answer):
    class Hostile(Control):
        def worth(self, node, bundle):
            return answer()
        def admit(self, node, bundle):
            return answer()
    return lambda: farlink.run(relay(), control=Hostile)

def endless():
    return endless()

def leaves():
    raise SystemExit(3)

for name, answer in {
    "not a number": lambda: float("nan"),
    "a huge number": lambda: 10**400,
    "a rank": lambda: CopyOffer(rank=2**64),
    "a negative rank": lambda: CopyOffer(rank=-1),
    "a wait of nothing": lambda: Wait(float("nan")),
    "a wait for before": lambda: Wait(-1.0),
    "a wait for ever": lambda: Wait(1e300),
    "itself": endless,
    "text": lambda: "x" * 10_000_000,
    "bytes": lambda: b"",
    "a class": lambda: Router,
}.items():
    harmless(f"router: {name}", router(answer))
    harmless(f"control: {name}", control(answer))
refused("no router", lambda: farlink.run(relay(), router=int))
refused("a router that is not made", lambda: farlink.run(relay(), router=lambda: 1 / 0))
for answer in [router(leaves), control(leaves)]:
    try:
        answer()
    except (SystemExit, Exception):
        pass
"""


@pytest.mark.parametrize("what", ["VALUES", "TEXTS", "PATHS", "POLICIES"])
def test_hostile_input_raises_an_error(what: str, tmp_path: Path) -> None:
    code = BEGIN + globals()[what]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    tried = ran.stdout.splitlines()[-1:]
    assert ran.returncode == 0, f"{tried} ended with {ran.returncode}: {ran.stderr[-2000:]}"
