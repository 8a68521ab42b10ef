import math

import numpy
import pyarrow as pa
import pytest

import farlink
from policies import Lowest


def test_twenty_runs_become_a_frame(crowd: farlink.Scenario) -> None:
    axes = {"group[walker].router": ["epidemic", "spray-and-wait"], "radio[wifi].range": ["30 m", "60 m"]}
    frame = farlink.sweep(crowd, axes, seeds=5).to_pandas()
    assert len(frame) == 20 and list(frame.columns[:3]) == [*axes, "seed"]
    means = frame.groupby(list(axes)).delivery_ratio.mean()
    assert means["epidemic", "60 m"] > means["epidemic", "30 m"]
    offered = frame.groupby("seed").offered.nunique()
    assert (offered == 1).all(), "one seed offers the same bundles at all points"


def test_labels_stand_for_several_keys(crowd: farlink.Scenario) -> None:
    axes = {"store": {"small": {"group[*].store_capacity": "200 kB"}, "large": {"group[*].store_capacity": "5 MB"}}}
    table = farlink.sweep(crowd, axes, seeds=[4])
    assert table["store"].to_pylist() == ["small", "large"] and table["seed"].to_pylist() == [4, 4]
    small, large = table["drops_room"].to_pylist()
    assert small > large == 0


def test_sweep_run_equals_single_run(crowd: farlink.Scenario) -> None:
    (delivered,) = farlink.sweep(crowd, {}, seeds=[9])["delivered"].to_pylist()
    assert delivered == farlink.run(crowd, seed=9).summary["delivered"]


def test_mistakes_are_raised_before_runs(crowd: farlink.Scenario) -> None:
    done: list = []
    wrong = {"group[walker].router": ["epidemic", "epidemc"]}
    with pytest.raises(farlink.ConfigError, match="did you mean `epidemic`"):
        farlink.sweep(crowd, wrong, progress=lambda ran, all_runs: done.append(ran))
    assert not done
    with pytest.raises(farlink.ConfigError, match="no list of values"):
        farlink.sweep(crowd, {"duration": "1 h"})
    with pytest.raises(farlink.ConfigError, match="nothing to run"):
        farlink.sweep(crowd, {"duration": []})


def test_processes_give_what_threads_give(relay: farlink.Scenario) -> None:
    axes = {"link[deep-space].delay": ["1 s", "2 s"]}
    of = lambda **how: farlink.sweep(relay, axes, seeds=2, router=Lowest, **how).drop_columns(["wall_s"])  # noqa: E731
    assert of(processes=True, workers=2).equals(of())


@pytest.mark.parametrize("workers", [0, -1, "2", 1.5])
def test_workers_are_counted_from_one(crowd: farlink.Scenario, workers) -> None:
    with pytest.raises(farlink.ConfigError, match="workers: .* says not how many"):
        farlink.sweep(crowd, {}, seeds=1, workers=workers)


def test_intervals_are_those_of_campaigns() -> None:
    mean, half = farlink.interval([1.0, 2.0, 3.0])
    assert mean == 2.0 and math.isclose(half, 4.303 / math.sqrt(3), rel_tol=1e-6)
    assert all(math.isnan(number) for number in farlink.interval([]))
    assert math.isnan(farlink.interval([1.0])[1])
    absent = pa.chunked_array([[1.0, None, 2.0], [float("nan"), 3.0]])
    assert farlink.interval(absent) == farlink.interval(absent.to_pylist()) == (mean, half)


def test_numbers_of_numpy_are_numbers(crowd: farlink.Scenario) -> None:
    axes = {"group[walker].count": numpy.arange(4, 6)}
    table = farlink.sweep(crowd.set("duration", "1 min"), axes, seeds=numpy.int64(2))
    assert table["group[walker].count"].to_pylist() == [4, 4, 5, 5] and table["seed"].to_pylist() == [1, 2, 1, 2]


@pytest.mark.parametrize(
    "axes, seeds, says",
    [
        ({}, [-1], "-1 is no seed"),
        ({}, [2**63], "is no seed"),
        ({}, [1.5], "1.5 is no seed"),
        ({}, "12", "neither how many nor which"),
        ({"duration": [float("nan")]}, 1, "no value of a scenario: nan"),
        ({"duration": [10**400]}, 1, "hint: whole numbers are of 64 bits"),
        ({"duration": [object()]}, 1, "neither text nor a number"),
        ({"delivered": {"one": {}}}, 1, "column of results"),
        ({"store": {"small": "250 kB"}}, 1, "but no key"),
        ([("duration", ["1 s"])], 1, "no dictionary"),
    ],
)
def test_bad_axes_and_seeds_are_errors(crowd: farlink.Scenario, axes, seeds, says) -> None:
    done: list = []
    with pytest.raises(farlink.ConfigError, match=says):
        farlink.sweep(crowd, axes, seeds, progress=lambda ran, all_runs: done.append(ran))
    assert not done
