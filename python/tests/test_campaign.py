"""The folder of a campaign whose cells run elsewhere, without a cluster."""

from pathlib import Path

import pytest

import farlink
from farlink import _engine
from farlink import ray as cluster

CAMPAIGN = """
name = "relay"
scenario = "../relay.toml"
repetitions = 2
[[axis]]
name = "delay"
keys = "link[deep-space].delay"
values = ["1 s", "2 s"]
[[figure]]
name = "latency"
metric = "latency_mean_s"
x = "delay"
"""


@pytest.fixture
def study(tmp_path: Path, relay: farlink.Scenario) -> Path:
    (tmp_path / "plans").mkdir()
    (tmp_path / "study").mkdir()
    relay.save(tmp_path / "relay.toml")
    (tmp_path / "study" / "campaign.toml").write_text(CAMPAIGN)
    return tmp_path / "study"


def begin(study: Path, out: Path, **how) -> _engine.Campaign:
    return _engine.Campaign.begin(str(study), str(out), False, [], **how)


def test_finished_cells_stay_done(study: Path, tmp_path: Path) -> None:
    campaign = begin(study, tmp_path / "out")
    campaign.lock()
    left = campaign.left()
    assert len(left) == campaign.cells == 4
    name, text, seed, files = campaign.work(left[0])
    assert (name, seed, files) == (left[0], 1, {})
    campaign.put(name, *cluster.cell(text, seed, files))
    campaign.unlock()
    again = _engine.Campaign.open(str(tmp_path / "out"))
    assert again.left() == left[1:]
    text, page = again.report()
    assert "1 of 4 cells" in text and page.exists()


@pytest.mark.parametrize("how", [{"jobs": -1}, {"jobs": 0}, {"repetitions": 0}, {"repetitions": 1001}])
def test_bad_repetitions_begin_nothing(study: Path, tmp_path: Path, how) -> None:
    with pytest.raises(farlink.ConfigError, match="says not how many"):
        cluster.campaign(study, tmp_path / "out", **how)
    assert not (tmp_path / "out").exists()


def test_one_process_locks_the_folder(study: Path, tmp_path: Path) -> None:
    campaign = begin(study, tmp_path / "out")
    campaign.lock()
    with pytest.raises(farlink.RunError, match="another farlink is at work"):
        _engine.Campaign.open(str(tmp_path / "out")).lock()
    with pytest.raises(farlink.ConfigError, match="is not empty"):
        begin(study, tmp_path / "out")


def test_files_that_cells_name_travel_with_them(study: Path, tmp_path: Path, relay: farlink.Scenario) -> None:
    contacts = "a contact +10 +20 3 2 250000\na contact +30 +50 2 1 125000\n"
    ranges = "a range +10 +20 2 3 0\na range +30 +50 1 2 0\n"
    (tmp_path / "plans" / "x.plan").write_text(contacts + ranges)
    table = relay.to_text()
    start = table.index("[[contact]]")
    text = 'plan = "../plans/x.plan"\n' + table[:start] + table[table.index("[[traffic]]") :]
    (tmp_path / "relay.toml").write_text(text)
    (study / "relay.toml").write_text(text)
    (study / "campaign.toml").write_text(CAMPAIGN.replace("../relay.toml", "relay.toml"))
    campaign = begin(study, tmp_path / "out")
    _, text, seed, files = campaign.work(campaign.left()[0])
    assert list(files) == ["../plans/x.plan"]
    found, wall_s, version = cluster.cell(text, seed, files)
    assert '"delivered": 10.0' in found and wall_s > 0 and version == farlink.VERSION


def test_bad_names_and_numbers_are_errors(study: Path, tmp_path: Path) -> None:
    campaign = begin(study, tmp_path / "out", repetitions=1)
    assert campaign.cells == 2
    for call in (lambda: campaign.work("../x"), lambda: campaign.fail("../x", "why")):
        with pytest.raises(farlink.ConfigError, match="has no cell"):
            call()
    with pytest.raises(farlink.ConfigError, match="no numbers"):
        campaign.put(campaign.left()[0], "[", 1.0, "test")
    with pytest.raises(farlink.ConfigError, match="cannot be run"):
        begin(tmp_path / "none", tmp_path / "other")
    assert len(campaign.left()) == 2
