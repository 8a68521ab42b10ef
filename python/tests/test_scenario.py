import pickle
from pathlib import Path

import pytest

import farlink
from conftest import RELAY


def test_a_scenario_is_built_table_by_table() -> None:
    scenario = (
        farlink.Scenario.new("pair", duration="1 min")
        .add("node", name="a", id="ipn:1.0", router="static")
        .add("node", name="b", id="ipn:2.0", router="static")
        .add("link", name="wire", between=["a", "b"], layer="stcp", rate="1 Mbit/s", delay="1 ms")
        .add("traffic", from_="a", to="b", bundles={"count": 3, "size": "1 kB"})
    )
    assert scenario.name == "pair" and scenario.nodes() == ["a", "b"]
    assert farlink.run(scenario).summary["delivered"] == 3
    again = farlink.Scenario.from_text(scenario.to_text())
    assert again.to_text() == scenario.to_text()


def test_paths_set_keys_as_in_campaigns(relay: farlink.Scenario) -> None:
    before = relay.to_text()
    changed = relay.changed({"link[*].delay": "2 s", "traffic[1].bundles.count": 4})
    assert changed.to_text().count('delay = "2 s"') == 2 and relay.to_text() == before
    with pytest.raises(farlink.ConfigError, match="did you mean `proximity`"):
        relay.set("link[proximty].delay", "1 s")
    with pytest.raises(farlink.ConfigError, match="no value of a scenario"):
        relay.set("seed", None)
    with pytest.raises(farlink.ConfigError, match="no list of tables"):
        relay.add("node_defaults", router="sabr")


def test_all_mistakes_have_hints(relay: farlink.Scenario) -> None:
    relay.set("node[*].router", "epidemc").set("duration", "never")
    with pytest.raises(farlink.ConfigError) as raised:
        farlink.run(relay)
    said = str(raised.value)
    assert "duration" in said and "hint: did you mean `epidemic`?" in said
    assert len(raised.value.errors) >= 2 and all(len(error) == 3 for error in raised.value.errors)
    with pytest.raises(farlink.ConfigError, match="is not TOML"):
        farlink.Scenario("[").set("seed", 1)


def test_files_reach_other_processes(tmp_path, relay: farlink.Scenario) -> None:
    with pytest.raises(farlink.ConfigError, match="cannot be read"):
        farlink.Scenario.load(tmp_path / "none.toml")
    relay.save(tmp_path / "relay.toml")
    loaded = farlink.Scenario.load(tmp_path / "relay.toml")
    there = pickle.loads(pickle.dumps(loaded))
    assert there.to_text() == relay.to_text() and there.folder == tmp_path


def test_scenario_keeps_its_folder(tmp_path, monkeypatch) -> None:
    (tmp_path / "one.toml").write_text(RELAY)
    monkeypatch.chdir(tmp_path)
    loaded = farlink.Scenario.load("one.toml")
    monkeypatch.chdir("/")
    assert loaded.folder == tmp_path
    assert repr(farlink.Scenario("name =")) == "Scenario(no TOML)"


def test_paths_are_texts(relay: farlink.Scenario) -> None:
    assert 'description = "a/b"' in relay.set("description", Path("a/b")).to_text()
