import os
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


def test_hops_and_contacts_are_those_of_the_plan(relay: farlink.Scenario) -> None:
    run = farlink.run(relay)
    hops = run.hops.to_pandas()
    assert hops.groupby("to_node").size().to_dict() == {"orbiter": 10, "station": 10}
    assert set(hops[hops.to_node == "station"].link) == {"deep-space"}
    contacts = run.contacts.to_pandas()
    rover = contacts[contacts.node == "rover"]
    assert rover[["start_ns", "end_ns"]].values.tolist() == [[10_000_000_000, 20_000_000_000]]
    assert (contacts.end_ns >= contacts.start_ns).all()


def test_a_run_without_events_has_empty_tables_of_them(relay: farlink.Scenario) -> None:
    run = farlink.run(relay.set("measure.tables", ["bundles"]))
    assert (len(run.hops), len(run.contacts), len(run.bundles)) == (0, 0, 10)
    assert run.contacts.column_names == ["start_ns", "end_ns", "node", "link", "peer"]


def test_the_same_seed_gives_the_same_tables(crowd: farlink.Scenario) -> None:
    one, two, three = (farlink.run(crowd, seed=seed) for seed in (7, 7, 8))
    assert one.bundles.equals(two.bundles) and not one.bundles.equals(three.bundles)


def test_a_folder_that_is_named_stays_and_is_not_written_over(tmp_path, relay: farlink.Scenario) -> None:
    farlink.run(relay, out=tmp_path / "run")
    assert farlink.Run(tmp_path / "run").summary["delivered"] == 10
    with pytest.raises(farlink.ConfigError, match="hint:"):
        farlink.run(relay, out=tmp_path / "run")
    with pytest.raises(farlink.RunError):
        farlink.Run(tmp_path)


def test_a_folder_without_a_name_goes_with_its_run(relay: farlink.Scenario) -> None:
    run = farlink.run(relay)
    folder = run.folder
    assert folder.is_dir()
    bundles = run.bundles
    del run
    assert not folder.exists() and len(bundles) == 10, "what was read stays"


def test_several_runs_are_simulated_at_once_by_threads(crowd: farlink.Scenario) -> None:
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


def test_progress_is_told_and_may_end_a_run(crowd: farlink.Scenario) -> None:
    class Enough(Exception):
        pass

    def progress(now: float, end: float, delivered: int) -> None:
        assert 0 <= now <= end
        if time.monotonic() - begun > 0.3:
            raise Enough

    begun = time.monotonic()
    with pytest.raises(Enough):
        farlink.run(long(crowd), progress=progress)
