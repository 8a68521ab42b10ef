//! Warnings about valid scenarios: parts that are probably not intended.

use crate::host::PhaseKind;
use crate::motion::Reach;
use crate::types::{Custody, Link, Node, Scenario, StoreKind, Traffic, TrafficKind};
use farlink_base::{ClockTrust, Duration, Facts, format_duration};

impl Scenario {
    /// One sentence for each warning: links and faults after the end of the run, contacts outside the life of their
    /// link, and settings that have no effect or that real nodes cannot follow.
    pub fn doubts(&self) -> Vec<String> {
        let mut all = Vec::new();
        for link in &self.links {
            if link.appears >= self.duration {
                let (at, end) = (format_duration(link.appears), format_duration(self.duration));
                all.push(format!("link `{}` appears at {at}, and the run ends at {end}", link.name));
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let announces = node.machine.iter().any(|given| given.table == "discovery");
            if announces && !self.ends_of(index).iter().any(|end| self.links[end.link].found) {
                all.push(format!("`discovery` of node `{}` has no effect: no link of it has found = true", node.name));
            }
        }
        for fault in self.faults.iter().filter(|fault| fault.at >= self.duration) {
            let (at, end) = (format_duration(fault.at), format_duration(self.duration));
            all.push(format!("a fault begins at {at}, and the run ends at {end}"));
        }
        for contact in &self.contacts {
            let link = &self.links[contact.link];
            // Only a contact wholly outside the life of its link is doubtful; one that overlaps it in part is probably
            // intended.
            let gone = link.disappears.is_some_and(|at| contact.start >= at);
            if contact.end <= link.appears || gone {
                let from = &self.nodes[link.between[usize::from(!contact.forward)]].name;
                let (start, end) = (format_duration(contact.start), format_duration(contact.end));
                let when = if gone { "after it disappears" } else { "before it appears" };
                all.push(format!("a contact of link `{}`, from `{from}`, {start} to {end}, lies {when}", link.name));
            }
        }
        let apart = (0..self.links.len()).filter(|link| self.is_secured(*link).is_none());
        all.extend(apart.map(|link| {
            let (name, between) = (&self.links[link].name, self.links[link].between);
            let [one, other] = between.map(|node| &self.nodes[node].name);
            format!("link `{name}` has no sessions: of `{one}` and `{other}` one requires TLS, and one never uses it")
        }));
        all.extend((0..self.nodes.len()).filter_map(|node| self.port_served_twice(node)));
        all.extend(self.clocks_without_plan());
        all.extend(self.reports_in_vain());
        all.extend((0..self.links.len()).filter_map(|link| self.custody_of_a_stranger(link)));
        all.extend(self.custody_of_what_must_be_cut());
        // Custody must survive a restart, so a node with a store in memory accepts none.
        let takes_none = |node: &&Node| node.custody != Custody::None && node.store == StoreKind::Memory;
        all.extend(self.nodes.iter().filter(takes_none).map(|node| {
            format!(
                "node `{}` takes custody of nothing: its store is in memory; give it store = \"durable\"",
                node.name
            )
        }));
        let relays = || {
            (0..self.nodes.len()).any(|node| self.links.iter().filter(|l| l.between.contains(&node)).nth(1).is_some())
        };
        let measured = self.phases.iter().find(|phase| phase.kind == PhaseKind::Retention).filter(|_| !relays());
        all.extend(measured.map(|phase| {
            format!("phase `{}` measures how long relays keep bundles, and no node has two links", phase.name)
        }));
        all.extend((0..self.radios.len()).filter_map(|radio| self.knows_only_plans(radio)));
        all
    }
    /// One sentence for each node that cannot use the contact plan because of its clock. Links that are always up are
    /// in the plan, too.
    fn clocks_without_plan(&self) -> Vec<String> {
        let doubt = |node: &Node| {
            let (settings, name) = (node.settings(), &node.name);
            if settings.clock == ClockTrust::Untrusted {
                return Some(format!(
                    "node `{name}` has an untrusted clock: it sends nothing over links in the contact plan, and links \
                     that are always up are in it"
                ));
            }
            let slow = Duration::from_nanos(settings.clock_offset.min(0).unsigned_abs());
            (slow >= self.duration).then(|| {
                let (slow, end) = (format_duration(slow), format_duration(self.duration));
                format!("node `{name}` has a clock {slow} slow, and the run ends at {end}: it sees no contact begin")
            })
        };
        self.nodes.iter().filter_map(doubt).collect()
    }
    fn reports_in_vain(&self) -> Vec<String> {
        // Traffic that requests reports needs a node that makes them; a node that asks for the compressed form needs
        // traffic of its own that requests reports.
        let mut all = Vec::new();
        let made = |node: &Node| node.settings().agent.status_reports || node.compressed_reports.is_some();
        let asks = |traffic: &Traffic| traffic.reports != Facts::default();
        if let Some(traffic) = self.traffic.iter().find(|traffic| asks(traffic))
            && !self.nodes.iter().any(made)
        {
            let name = &traffic.name;
            all.push(format!(
                "traffic `{name}` asks for `reports`, and no node makes any: give some `status_reports = true`"
            ));
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let requests = node.compressed_reports.as_ref().is_some_and(|reports| !reports.request.is_empty());
            if requests && !self.traffic.iter().any(|traffic| traffic.from == index && asks(traffic)) {
                let name = &node.name;
                all.push(format!(
                    "node `{name}` is to ask for compressed reports, and no traffic from it asks for `reports`"
                ));
            }
        }
        all
    }
    fn custody_of_a_stranger(&self, link: usize) -> Option<String> {
        // An announced name is a claim: over a discovered link a real node accepts custody only if a certificate proves
        // the name.
        let here = &self.links[link];
        let keeps = here.between.iter().find(|node| self.nodes[**node].custody != Custody::None)?;
        let claims = here.found && self.is_secured(link) != Some(true);
        let (name, node) = (&here.name, &self.nodes[*keeps].name);
        claims.then(|| format!("in the testbed `{node}` takes custody from nobody over `{name}`: who is found is believed with TLS only"))
    }
    fn custody_of_what_must_be_cut(&self) -> Option<String> {
        // UDPCL version 1 sends each bundle in one datagram. Longer bundles of version 7 would need fragments, and a
        // bundle in custody is not fragmented.
        let whole = |link: &&Link| link.layer.kind.name == "udpcl" && link.layer.value("version") == Some(1);
        let (link, longest) =
            self.links.iter().find(whole).and_then(|link| Some((link, link.layer.value("datagram")?)))?;
        let asks = |traffic: &&Traffic| {
            let node = &self.nodes[traffic.from];
            let size = match traffic.kind {
                TrafficKind::Bundles { size, .. } => size.max,
                TrafficKind::File { bundle_size, .. } => bundle_size,
                TrafficKind::Ping { size, .. } => size,
            };
            node.custody == Custody::Ask && node.settings().bundle_version == 7 && size.bytes() >= longest
        };
        let traffic = self.traffic.iter().find(asks)?;
        let (traffic, link) = (&traffic.name, &link.name);
        Some(format!(
            "bundles of `{traffic}` are longer than the datagrams of `{link}`, and what is in custody is not cut: they wait; \
             give the link udpcl = {{ version = 2 }}, or the nodes bundle_version = 6"
        ))
    }
    fn knows_only_plans(&self, radio: usize) -> Option<String> {
        // Links of radios with a range are in no contact plan, so a router that follows plans never uses them. Radios
        // with a line of sight are: their contacts are computed before the run.
        let radio = &self.radios[radio];
        if matches!(radio.reach, Reach::Sight(_)) {
            return None;
        }
        let of_plans = |node: &&usize| self.nodes[**node].router.name == "sabr";
        let first = radio.nodes.iter().find(of_plans)?;
        let (name, count) = (&self.nodes[*first].name, radio.nodes.iter().filter(of_plans).count());
        Some(format!(
            "{count} nodes with the radio `{}`, `{name}` first, have router `sabr`, which goes by contact plans, and links of radios are in none: a copying router, such as `epidemic`, uses them",
            radio.name
        ))
    }
    fn port_served_twice(&self, node: usize) -> Option<String> {
        // A simulated node separates layers of different kinds at one port; a real node binds a port of TCP or UDP
        // once.
        let layers = self.layers_of(node);
        let pairs =
            layers.iter().enumerate().flat_map(|(at, one)| layers[at + 1..].iter().map(move |other| (one, other)));
        let mut twice = pairs.filter(|(one, other)| one.port == other.port && one.kind.medium == other.kind.medium);
        let (one, other) = twice.next()?;
        let (name, port, kinds) = (&self.nodes[node].name, one.port, [one.kind.name, other.kind.name]);
        let [one, other] = kinds;
        Some(format!(
            "node `{name}` serves port {port} for `{one}` and for `{other}`, which a real node cannot: give the links of one another `port`"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_shared_by_layers_is_doubted() {
        let link = |name: &str, layer: &str| {
            format!("[[link]]\nname = \"{name}\"\nbetween = [\"a\", \"b\"]\nlayer = {layer}\n")
        };
        let doubts = |layers: [&str; 2]| {
            let nodes = ["a", "b"].map(|n| format!("[[node]]\nname = \"{n}\"\nid = \"dtn://{n}/\"\n")).concat();
            let links = link("one", layers[0]) + &link("other", layers[1]);
            Scenario::parse(&format!("name = \"s\"\nduration = \"60 s\"\n{nodes}{links}")).unwrap().doubts()
        };
        let both = doubts(["\"tcpclv4\"", "\"tcpclv3\""]);
        assert_eq!(both.len(), 2, "at each node");
        assert!(both[0].starts_with("node `a` serves port 4556 for `tcpclv4` and for `tcpclv3`"), "{both:?}");
        assert!(doubts(["\"tcpclv4\"", "\"tcpclv3\"\nport = 4557"]).is_empty());
        assert!(doubts(["\"tcpclv4\"", "\"udpcl\""]).is_empty(), "TCP and UDP do not meet");
    }

    #[test]
    fn unused_reports_are_doubted() {
        let doubts = |own: &str, traffic: &str| {
            let text = format!(
                "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n{own}\n[[node]]\nname = \"b\"\n\
                 id = \"ipn:2.0\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n\
                 [[traffic]]\nfrom = \"a\"\nto = \"b\"\nbundles = {{ count = 1, size = \"9 B\" }}\n{traffic}\n"
            );
            Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}")).doubts()
        };
        // All four cases: no report is requested; a report is requested and made; it is requested and not made; the
        // compressed form is asked for without a request.
        let (asks, short) = ("reports = [\"delivery\"]", "compressed_reports = { request = [\"*\"] }");
        assert!(doubts("", "").is_empty() && doubts("status_reports = true", asks).is_empty());
        assert!(doubts(short, asks).is_empty() && doubts("compressed_reports = {}", "").is_empty());
        assert!(doubts("", asks)[0].starts_with("traffic `a-to-b` asks for `reports`, and no node makes any"));
        assert!(doubts(short, "")[0].starts_with("node `a` is to ask for compressed reports"));
    }

    #[test]
    fn discovered_custody_needs_tls() {
        let doubts = |found: bool, tls: &str| {
            let node = |name: &str| {
                format!(
                    "[[node]]\nname = \"{name}\"\nid = \"dtn://{name}/\"\nstore = \"durable\"\ncustody = \"ask\"\n\
                     tcpclv4 = {{ tls = \"{tls}\" }}\n"
                )
            };
            let link =
                format!("[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\nfound = {found}\n");
            let text = format!("name = \"s\"\nduration = \"9 s\"\n{}{}{link}", node("a"), node("b"));
            Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}")).doubts()
        };
        assert!(doubts(false, "forbid").is_empty() && doubts(true, "require").is_empty());
        assert!(doubts(true, "allow").is_empty(), "both can");
        assert!(doubts(true, "forbid")[0].starts_with("in the testbed `a` takes custody from nobody over `l`"));
    }

    #[test]
    fn custody_of_fragments_is_doubted() {
        let doubts = |keys: &str, link: &str, size: &str| {
            let node = |name: &str, n: u8| format!("[[node]]\nname = \"{name}\"\nid = \"ipn:{n}.0\"\n");
            let text = format!(
                "name = \"s\"\nduration = \"9 s\"\n[node_defaults]\nstore = \"durable\"\ncustody = \"ask\"\n{keys}\n{}{}\
                 [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"udpcl\"\n{link}\n\
                 [[traffic]]\nfrom = \"a\"\nto = \"b\"\nbundles = {{ count = 1, size = \"{size}\" }}\n",
                node("a", 1),
                node("b", 2)
            );
            Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}")).doubts()
        };
        let found = doubts("", "", "8 kB");
        assert!(
            found.len() == 1 && found[0].starts_with("bundles of `a-to-b` are longer than the datagrams of `l`"),
            "{found:?}"
        );
        assert!(doubts("", "", "1 kB").is_empty() && doubts("", "udpcl = { version = 2 }", "8 kB").is_empty());
        assert!(doubts("bundle_version = 6", "", "8 kB").is_empty(), "those are cut");
    }

    #[test]
    fn retention_without_relay_is_doubted() {
        let doubts = |last: u8| {
            let node = |n: u8| format!("[[node]]\nname = \"n{n}\"\nid = \"ipn:{n}.0\"\n");
            let link =
                |n: u8| format!("[[link]]\nname = \"l{n}\"\nbetween = [\"n{n}\", \"n{}\"]\nlayer = \"ltp\"\n", n + 1);
            let nodes: String = (1..=last).map(node).chain((1..last).map(link)).collect();
            let phase = "[[phase]]\nname = \"p\"\nkind = \"retention\"\n";
            Scenario::parse(&format!("name = \"s\"\nduration = \"9 s\"\n{nodes}{phase}")).unwrap().doubts()
        };
        assert_eq!(doubts(2), ["phase `p` measures how long relays keep bundles, and no node has two links"]);
        assert!(doubts(3).is_empty());
    }

    #[test]
    fn custody_in_memory_is_doubted() {
        let text = "name = \"s\"\nduration = \"9 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\ncustody = \"take\"\n";
        let doubts = Scenario::parse(text).unwrap().doubts();
        assert_eq!(doubts, ["node `a` takes custody of nothing: its store is in memory; give it store = \"durable\""]);
        assert!(Scenario::parse(&format!("{text}store = \"durable\"\n")).unwrap().doubts().is_empty());
    }

    #[test]
    fn tls_disagreement_of_ends_is_doubted() {
        let of = |one: &str, other: &str, layer: &str| {
            let node = |name: &str, tls: &str| {
                format!("[[node]]\nname = \"{name}\"\nid = \"dtn://{name}/\"\ntcpclv4 = {{ tls = \"{tls}\" }}\n")
            };
            let link = format!("[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"{layer}\"\n");
            let text = format!("name = \"s\"\nduration = \"9 s\"\n{}{}{link}", node("a", one), node("b", other));
            let scenario = Scenario::parse(&text).unwrap_or_else(|errors| panic!("{errors:#?}"));
            (scenario.is_secured(0), scenario.doubts())
        };
        for ends in [["require"; 2], ["allow", "require"], ["allow", "allow"]] {
            assert_eq!(of(ends[0], ends[1], "tcpclv4"), (Some(true), Vec::new()), "{ends:?}");
        }
        assert_eq!(of("allow", "forbid", "tcpclv4"), (Some(false), Vec::new()));
        let (secured, doubts) = of("forbid", "require", "tcpclv4");
        assert!(secured.is_none() && doubts[0].starts_with("link `l` has no sessions: of `a` and `b`"), "{doubts:?}");
        assert_eq!(of("forbid", "require", "tcpclv3"), (Some(false), Vec::new()), "it has no TLS");
    }

    #[test]
    fn links_after_the_run_are_doubted() {
        let scenario = |life: &str, contact: &str| {
            let text = format!(
                "name = \"s\"\nduration = \"60 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\n\
                 id = \"ipn:2.0\"\n[[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"ltp\"\n{life}\n\
                 [[contact]]\nlink = \"l\"\nfrom = \"b\"\n{contact}\n"
            );
            Scenario::parse(&text).unwrap().doubts()
        };
        let life = "appears = \"20 s\"\ndisappears = \"40 s\"";
        assert!(scenario(life, "start = \"10 s\"\nend = \"50 s\"").is_empty(), "they overlap");
        let early = scenario(life, "start = \"1 s\"\nend = \"20 s\"");
        assert_eq!(early, ["a contact of link `l`, from `b`, 1 s to 20 s, lies before it appears"]);
        let late = scenario(life, "start = \"40 s\"\nend = \"50 s\"");
        assert_eq!(late, ["a contact of link `l`, from `b`, 40 s to 50 s, lies after it disappears"]);
        let never = scenario("appears = \"60 s\"", "start = \"60 s\"\nend = \"70 s\"");
        assert_eq!(never, ["link `l` appears at 60 s, and the run ends at 60 s"]);
    }
}
