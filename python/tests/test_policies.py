import pytest

import farlink
from policies import Flood, Lowest, LowestCopies


def test_a_router_in_python_delivers(relay: farlink.Scenario) -> None:
    run = farlink.run(relay, router=Lowest)
    assert run.summary["delivered"] == 10
    assert {node["router"] for node in run.manifest["topology"]["nodes"]} == {"Lowest"}
    hops = run.hops.to_pandas()
    assert hops.groupby("to_node").size().to_dict() == {"orbiter": 10, "station": 10}


def test_python_flooding_equals_epidemic(crowd: farlink.Scenario) -> None:
    ours, theirs = farlink.run(crowd, router=Flood), farlink.run(crowd)
    assert ours.bundles.equals(theirs.bundles) and theirs.summary["delivered"] > 0


def test_labels_are_split_and_travel(crowd: farlink.Scenario) -> None:
    run = farlink.run(crowd.set("duration", "5 min"), router={"walker": LowestCopies})
    copies = run.hops.to_pandas().groupby(["source", "creation_ms", "sequence"]).size()
    assert 0 < copies.max() <= 8, "eight copies, one of them at the source"


def test_policies_of_named_nodes(relay: farlink.Scenario) -> None:
    run = farlink.run(relay, router={"orbiter": Lowest})
    routers = {node["name"]: node["router"] for node in run.manifest["topology"]["nodes"]}
    assert routers == {"station": "sabr", "orbiter": "Lowest", "rover": "sabr"}
    with pytest.raises(farlink.ConfigError, match="did you mean `orbiter`"):
        farlink.run(relay, router={"orbitr": Lowest})


def test_each_node_has_own_object(relay: farlink.Scenario) -> None:
    made: list = []

    class Counted(Lowest):
        def __init__(self, weight: int) -> None:
            self.weight = weight
            made.append(self)

    farlink.run(relay, router=lambda: Counted(7))
    assert len(set(map(id, made))) == 3 and made[0].weight == 7


@pytest.mark.parametrize(
    "answer, says",
    [
        (1 / 2, "`route` returned a float"),
        ("station", "`route` returned a str"),
        (farlink.Wait(-1.0), "no moment"),
        (farlink.Wait(float("nan")), "no moment"),
    ],
)
def test_bad_answers_end_the_run(relay: farlink.Scenario, answer, says: str) -> None:
    class Wrong(farlink.Router):
        def route(self, node, bundle, tried):
            return answer

    with pytest.raises((TypeError, farlink.ConfigError), match=says):
        farlink.run(relay, router=Wrong)


def test_run_raises_policy_exceptions(relay: farlink.Scenario) -> None:
    class Breaks(Lowest):
        def route(self, node, bundle, tried):
            raise ZeroDivisionError(f"at {node.name} for {bundle.destination}")

    with pytest.raises(ZeroDivisionError, match="at rover for station"):
        farlink.run(relay, router=Breaks)

    class NotMade(farlink.Router):
        def __init__(self):
            raise KeyError("weights")

    with pytest.raises(KeyError, match="weights"):
        farlink.run(relay, router=NotMade)


def test_non_policies_are_errors(relay: farlink.Scenario) -> None:
    class Plain:
        pass

    class Deaf(farlink.Router):
        hears = ("everything",)

    with pytest.raises(farlink.ConfigError, match="a Plain is no farlink.Router\nhint: "):
        farlink.run(relay, router=Plain)
    with pytest.raises(farlink.ConfigError, match="no farlink.Control"):
        farlink.run(relay, control=Lowest)
    with pytest.raises(farlink.ConfigError, match="hint: there are peers, links"):
        farlink.run(relay, router=Deaf)


def test_departed_peer_gets_nothing(relay: farlink.Scenario) -> None:
    class Remembers(Lowest):
        known: list = []

        def route(self, node, bundle, tried):
            self.known = self.known or node.peers
            return self.known or farlink.Wait()

    assert farlink.run(relay, router=Remembers).summary["delivered"] < 10 + 1


def test_objects_are_bound_to_nodes(relay: farlink.Scenario) -> None:
    shown: dict = {}

    class Cheats(Lowest):
        def route(self, node, bundle, tried):
            shown.setdefault(node.name, bundle)
            if len(shown) > 1:
                self.reroute(shown["rover"])
            return super().route(node, bundle, tried)

    class Confuses(Lowest):
        def route(self, node, bundle, tried):
            shown.setdefault("peers", node.peers)
            return shown["peers"] or farlink.Wait()

    with pytest.raises(farlink.ConfigError, match="a bundle as another node sees it"):
        farlink.run(relay, router=Cheats)
    shown.clear()
    shown["peers"] = []

    class Waits(Confuses):
        def route(self, node, bundle, tried):
            if node.peers and not shown["peers"]:
                shown["peers"] = node.peers
            return super().route(node, bundle, tried)

    with pytest.raises(farlink.ConfigError, match="a peer as another node sees it"):
        farlink.run(relay, router=Waits)


def test_neighbours_hear_each_other_and_wake(relay: farlink.Scenario) -> None:
    heard: list = []

    class Talks(Lowest):
        def on(self, node, news):
            super().on(node, news)
            if news.kind == "up":
                self.tell(news.peer, b"hello of " + node.name.encode())
                self.wake(node.now + 1.0)
            elif news.kind == "heard":
                heard.append((node.name, news.peer.name, news.bytes))
            elif news.kind == "wake":
                heard.append((node.name, "wake", round(node.now)))

    farlink.run(relay, router=Talks)
    assert ("rover", "orbiter", b"hello of orbiter") in heard and ("rover", "wake", 11) in heard


def test_python_control_equals_drop_oldest(crowd: farlink.Scenario) -> None:
    class Oldest(farlink.Control):
        level = {"bulk": 0, "normal": 1 << 50, "expedited": 2 << 50}

        def admit(self, node, bundle):
            return None if bundle.size > node.capacity else self.level[bundle.priority] + (1 << 50)

        def worth(self, node, bundle):
            return self.level[bundle.priority] + bundle.arrival

    ours, theirs = farlink.run(crowd, control=Oldest), farlink.run(crowd)
    assert ours.bundles.equals(theirs.bundles)
    assert farlink.sweep(crowd, {}, seeds=1)["drops_room"][0].as_py() > 0, "stores were full"


def test_a_control_may_refuse_and_forbid(crowd: farlink.Scenario) -> None:
    class Closed(farlink.Control):
        def allow(self, node, peer, bundle, want):
            return want if want is not None and not want.keep else None

    class Nothing(farlink.Control):
        def admit(self, node, bundle):
            return False

    direct = farlink.run(crowd, control=Closed).bundles.to_pandas()
    assert direct.hops.max() == 1, "no copies: to the destination alone"
    crowd.set("duration", "30 s")
    assert farlink.run(crowd, control=Nothing).summary["created"] == 0


def test_snapshots_show_their_moment(relay: farlink.Scenario) -> None:
    seen: list = []

    class Looks(Lowest):
        def route(self, node, bundle, tried):
            seen.append((node, bundle, node.peers))
            return super().route(node, bundle, tried)

    farlink.run(relay, router=Looks)
    node, bundle, _ = seen[0]
    assert (node.name, node.number, bundle.source, bundle.destination) == ("rover", 3, "rover", "station")
    assert bundle.destination_number == 1 and bundle.made_here and bundle.size > 20_000 and bundle.id > 2**64
    assert 0 <= bundle.age < 60 and bundle.remaining > 0 and node.free <= node.capacity
    peers = [peer for _, _, peers in seen for peer in peers]
    assert any(peer.name == "orbiter" and peer.until == 20.0 for peer in peers)
    assert hash(peers[0]) == hash(peers[0]) and peers[0] == peers[0]


def test_the_engine_names_its_policies() -> None:
    assert farlink.routers()["epidemic"].startswith("A copy") and "drop-oldest" in farlink.controls()


@pytest.mark.parametrize("given", ["epidemic", Lowest(), {"rover": 5}])
def test_bad_router_factories_have_hints(relay: farlink.Scenario, given) -> None:
    with pytest.raises(farlink.ConfigError, match="hint: (give the class|one of the engine)"):
        farlink.run(relay, router=given)


@pytest.mark.parametrize("ahead", [-1.0, 0.0])
def test_wait_must_be_in_future(relay: farlink.Scenario, ahead: float) -> None:
    class Waits(farlink.Router):
        def route(self, node, bundle, tried):
            return farlink.Wait(node.now + ahead)

    class Wakes(farlink.Router):
        hears = "peers"

        def on(self, node, news):
            self.wake(node.now + ahead)

    for router in (Waits, Wakes):
        with pytest.raises(farlink.ConfigError, match="not after now|no moment"):
            farlink.run(relay, router=router)


def test_moments_survive_conversion(relay: farlink.Scenario) -> None:
    woken: list = []

    class Wakes(farlink.Router):
        def route(self, node, bundle, tried):
            return farlink.Wait()

        hears = "peers"

        def on(self, node, news):
            if news.kind == "wake":
                woken.append(node.now)
            elif node.name == "rover" and not woken:
                for number in range(1, 1000):
                    self.wake(10.5 + number * 1.1e-5)

    farlink.run(relay, router=Wakes)
    assert woken == [round(10.5 + number * 1.1e-5, 9) for number in range(1, 1000)]


def test_misplaced_orders_end_the_run(crowd: farlink.Scenario) -> None:
    class Orders(farlink.Router):
        copies = True

        def wants(self, node, peer, bundle):
            self.delete(bundle)

    class Wakes(farlink.Control):
        def admit(self, node, bundle):
            self.wake(node.now + 1)

    with pytest.raises(farlink.ConfigError, match="`wants` ordered `delete`\nhint: orders are given in `on` and `route`"):
        farlink.run(crowd, seed=3, router=Orders)
    with pytest.raises(farlink.ConfigError, match="`admit` ordered `wake`\nhint: orders are given in `on`;"):
        farlink.run(crowd, seed=3, control=Wakes)


@pytest.mark.parametrize("label", [-1, 2**32])
def test_bad_label_is_raised_at_once(relay: farlink.Scenario, label: int) -> None:
    class Labels(Lowest):
        def route(self, node, bundle, tried):
            self.label(bundle, label)

    with pytest.raises(farlink.ConfigError, match="is no label") as raised:
        farlink.run(relay, router=Labels)
    assert any(entry.name == "route" for entry in raised.traceback)


def test_endless_questions_end_the_run(relay: farlink.Scenario) -> None:
    class Again(farlink.Router):
        def route(self, node, bundle, tried):
            self.reroute_all()

    with pytest.raises(farlink.RunError, match="`route` is asked without end at .* of rover"):
        farlink.run(relay, router=Again)
