import gc
import os
import pickle
import signal
import threading
import time

import pandas
import polars
import pyarrow as pa
import pytest

import farlink


def test_tables_go_to_pandas_and_polars(relay: farlink.Scenario) -> None:
    run = farlink.run(relay, seed=3)
    assert (run.summary["delivered"], run.summary["created"], run.seed) == (10, 10, 3)
    assert all(isinstance(table, pa.Table) for table in (run.bundles, run.events, run.samples, run.links))
    frame = run.bundles.to_pandas()
    assert isinstance(frame, pandas.DataFrame) and (frame.latency_ns > 1e9).all() and len(frame) == 10
    assert polars.from_arrow(run.bundles)["destination"].unique().to_list() == ["station"]


def test_hops_and_contacts_match_plan(relay: farlink.Scenario) -> None:
    run = farlink.run(relay)
    hops = run.hops.to_pandas()
    assert hops.groupby("to_node").size().to_dict() == {"orbiter": 10, "station": 10}
    assert set(hops[hops.to_node == "station"].link) == {"deep-space"}
    contacts = run.contacts.to_pandas()
    rover = contacts[contacts.node == "rover"]
    assert rover[["start_ns", "end_ns"]].values.tolist() == [[10_000_000_000, 20_000_000_000]]
    assert (contacts.end_ns >= contacts.start_ns).all()


def test_run_without_events_has_empty_tables(relay: farlink.Scenario) -> None:
    run = farlink.run(relay.set("measure.tables", ["bundles"]))
    assert (len(run.hops), len(run.contacts), len(run.bundles)) == (0, 0, 10)
    assert run.contacts.column_names == ["start_ns", "end_ns", "node", "link", "peer"]


def test_the_same_seed_gives_the_same_tables(crowd: farlink.Scenario) -> None:
    one, two, three = (farlink.run(crowd, seed=seed) for seed in (7, 7, 8))
    assert one.bundles.equals(two.bundles) and not one.bundles.equals(three.bundles)


def test_named_folder_is_never_overwritten(tmp_path, relay: farlink.Scenario) -> None:
    farlink.run(relay, out=tmp_path / "run")
    assert farlink.Run(tmp_path / "run").summary["delivered"] == 10
    with pytest.raises(farlink.ConfigError, match="hint:"):
        farlink.run(relay, out=tmp_path / "run")
    with pytest.raises(farlink.RunError):
        farlink.Run(tmp_path)


def test_unnamed_folder_ends_with_run(relay: farlink.Scenario) -> None:
    run = farlink.run(relay)
    folder = run.folder
    assert folder.is_dir()
    bundles = run.bundles
    del run
    assert not folder.exists() and len(bundles) == 10, "what was read stays"


def test_threads_simulate_runs_concurrently(crowd: farlink.Scenario) -> None:
    held: list = []
    runs = [threading.Thread(target=lambda seed=seed: held.append(farlink.run(crowd, seed=seed))) for seed in (1, 2)]
    [run.start() for run in runs]
    [run.join() for run in runs]
    assert sorted(run.seed for run in held) == [1, 2]


def long(crowd: farlink.Scenario) -> farlink.Scenario:
    """It would take minutes."""
    return crowd.set("duration", "400 h").set("traffic[1].bundles.count", 100_000)


@pytest.mark.parametrize("what", ["run", "sweep"])
def test_control_c_ends_it(crowd: farlink.Scenario, what: str) -> None:
    long(crowd)
    timer = threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            if what == "run":
                farlink.run(crowd)
            else:
                farlink.sweep(crowd, {}, seeds=4, workers=2)
    finally:
        timer.cancel()


def test_progress_callback_may_end_run(crowd: farlink.Scenario) -> None:
    class Enough(Exception):
        pass

    def progress(now: float, end: float, delivered: int) -> None:
        assert 0 <= now <= end
        if time.monotonic() - begun > 0.3:
            raise Enough

    begun = time.monotonic()
    with pytest.raises(Enough):
        farlink.run(long(crowd), progress=progress)


def test_ways_and_meetings_are_tables_too(crowd: farlink.Scenario, relay: farlink.Scenario) -> None:
    moving, still = farlink.run(crowd, seed=3), farlink.run(relay)
    meetings = moving.meetings.to_pandas()
    ups = moving.contacts.to_pandas()
    assert len(meetings) * 2 == len(ups) > 0, "a contact is a meeting as each of the two sees it"
    assert (moving.legs.to_pandas().end_s >= moving.legs.to_pandas().start_s).all()
    for table in ("legs", "meetings"):
        of_each = getattr(moving, table), getattr(still, table)
        assert of_each[0].schema.names == of_each[1].schema.names and len(of_each[1]) == 0
        assert [field.type for field in of_each[0].schema] == [field.type for field in of_each[1].schema]


def test_pickled_run_carries_its_tables(relay: farlink.Scenario) -> None:
    run = farlink.run(relay, seed=4)
    sent, rows = pickle.dumps(run), len(run.events)
    del run
    there = pickle.loads(sent)
    assert (len(there.events), len(there.bundles), there.seed) == (rows, 10, 4)
    assert len(there.hops) == 20 and "delivered" in repr(there)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore:.*fork")
def test_fork_leaves_the_run_folder(relay: farlink.Scenario) -> None:
    run = farlink.run(relay)
    child = os.fork()
    if child == 0:
        del run
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert len(run.bundles) == 10


@pytest.mark.parametrize("seed", [-1, 2**64, 1.5, "3"])
def test_bad_seeds_are_errors(relay: farlink.Scenario, seed) -> None:
    with pytest.raises(farlink.ConfigError, match="is no seed"):
        farlink.run(relay, seed=seed)
