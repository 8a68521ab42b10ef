"""Campaigns over a local Ray cluster; `cargo xtask python --ray` runs these."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import farlink

pytestmark = pytest.mark.skipif(os.environ.get("FARLINK_RAY") != "1", reason="cargo xtask python --ray")

CAMPAIGN = """
name = "crowd"
scenario = "../crowd.toml"
repetitions = 10
[[axis]]
name = "router"
keys = "group[walker].router"
values = ["epidemic", "spray-and-wait"]
[[figure]]
name = "delivery"
metric = "delivery_ratio"
x = "router"
"""


@pytest.fixture
def campaign(tmp_path: Path, crowd: farlink.Scenario) -> Path:
    # Long enough that a worker is lost in the middle of a cell.
    crowd.set("duration", "12 h").set("traffic[1].bundles.count", 100_000).save(tmp_path / "crowd.toml")
    (tmp_path / "study").mkdir()
    (tmp_path / "study" / "campaign.toml").write_text(CAMPAIGN)
    return tmp_path / "study"


@pytest.fixture
def cluster():
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    cluster.workers = [cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)]
    ray.init(address=cluster.address, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def kill_one(cluster) -> None:
    """Kills a machine of the cluster that runs a cell: its worker and its raylet, as when the power goes."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for node in cluster.workers:
            raylet = node.all_processes["raylet"][0].process.pid
            for process in Path("/proc").glob("[0-9]*"):
                try:
                    parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                    title = (process / "cmdline").read_bytes()
                except OSError:
                    continue
                if parent == raylet and title.startswith(b"ray::cell"):
                    os.kill(int(process.name), signal.SIGKILL)
                    cluster.workers.remove(node)
                    cluster.remove_node(node, allow_graceful=False)
                    return
        time.sleep(0.05)
    raise AssertionError("no worker runs a cell")


def cells(folder: Path) -> list:
    """The rows of all cells."""
    with pq.ParquetFile(folder / "cells.parquet") as file:
        return file.read().to_pylist()


def here(campaign: Path, out: Path) -> list:
    """The same campaign by threads of this process, without Ray."""
    from farlink import ray as over
    from farlink import _engine

    study = _engine.Campaign.begin(str(campaign), str(out), False, [])
    study.lock()
    for name in study.left():
        _, text, seed, files = study.work(name)
        study.put(name, *over.cell(text, seed, files))
    study.unlock()
    study.report()
    return cells(out)


def test_killed_worker_cells_run_again(campaign: Path, cluster, tmp_path: Path) -> None:
    from farlink import ray as over

    told: list = []

    def progress(done: int, total: int, lost: int) -> None:
        told.append((done, total, lost))
        if done >= 4 and len(cluster.workers) == 2:
            kill_one(cluster)

    outcome = over.campaign(campaign, tmp_path / "out", progress=progress)
    assert not outcome.failed and outcome.ran == outcome.cells == 20
    assert outcome.lost >= 1 and len(cluster.workers) == 1
    assert outcome.page.exists() and "20 of 20 cells" in outcome.text
    assert cells(tmp_path / "out") == here(campaign, tmp_path / "here"), "the same as without a cluster"
    assert over.resume(tmp_path / "out").ran == 0, "nothing is left"


def test_only_deadly_cell_fails(campaign: Path, cluster, tmp_path: Path, monkeypatch) -> None:
    from farlink import ray as over

    def deadly(text: str, seed: int, files: dict):
        if seed == 1:
            os._exit(9)
        return '{"delivery_ratio": 0.5}', 0.1, "test"

    monkeypatch.setattr(over, "cell", deadly)
    monkeypatch.setattr(over, "TRIES", 2)
    outcome = over.campaign(campaign, tmp_path / "out", repetitions=2)
    assert (outcome.ran, len(outcome.failed), outcome.lost) == (2, 2, 4)
    assert all("its worker was lost 2 times" in why for why in outcome.failed.values())
    assert len(list((tmp_path / "out" / "failed").iterdir())) == 2


def test_cell_error_loses_no_worker(campaign: Path, cluster, tmp_path: Path, monkeypatch) -> None:
    from farlink import ray as over

    def wrong(text: str, seed: int, files: dict):
        raise farlink.RunError("no disk")

    monkeypatch.setattr(over, "cell", wrong)
    outcome = over.campaign(campaign, tmp_path / "out", repetitions=1)
    assert (outcome.ran, outcome.lost) == (0, 0) and set(outcome.failed.values()) == {"no disk"}


def test_command_joins_given_cluster(campaign: Path, cluster, tmp_path: Path) -> None:
    command = [os.environ.get("FARLINK_BIN", ""), "campaign", "run", "--on", "ray"]
    if not command[0]:
        command = [sys.executable, "-m", "farlink.campaign", "run"]
    out = tmp_path / "out"
    there = {**os.environ, "RAY_ADDRESS": cluster.address, "FARLINK_PYTHON": sys.executable}
    words = [os.fspath(campaign), "--out", os.fspath(out), "--json"]
    running = subprocess.Popen(command + words, env=there, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while running.poll() is None and len(list(out.glob("cells/c*"))) < 4:
        time.sleep(0.1)
    kill_one(cluster)
    said, talk = running.communicate(timeout=300)
    assert running.returncode == 0, talk
    told = json.loads(said)
    assert (told["ran"], told["failed"]) == (20, []) and told["workers_lost"] >= 1
    assert "their cells are run again" in talk


def test_command_starts_own_cluster(campaign: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "farlink.campaign"]
    words = ["run", os.fspath(campaign), "--out", os.fspath(tmp_path / "out"), "--repetitions", "1", "--json"]
    done = subprocess.run(command + words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and '"ran": 2' in done.stdout, done.stderr
    again = subprocess.run(command + words, capture_output=True, text=True, timeout=300)
    assert again.returncode == 2 and "is not empty\nhint: `farlink campaign resume" in again.stderr
