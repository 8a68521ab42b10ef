//! What a scenario says that can be run, and yet can hardly be meant.

use crate::types::Scenario;
use farlink_base::format_duration;

impl Scenario {
    /// Sentences about links and contacts that never come to pass, and sockets that real nodes cannot open.
    pub fn doubts(&self) -> Vec<String> {
        let mut all = Vec::new();
        for link in &self.links {
            if link.appears >= self.duration {
                let (at, end) = (format_duration(link.appears), format_duration(self.duration));
                all.push(format!("link `{}` appears at {at}, and the run ends at {end}", link.name));
            }
        }
        for contact in &self.contacts {
            let link = &self.links[contact.link];
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
        all.extend((0..self.radios.len()).filter_map(|radio| self.knows_only_plans(radio)));
        all
    }
    /// Nodes that hear each other and give each other nothing: their routers go by contact plans.
    fn knows_only_plans(&self, radio: usize) -> Option<String> {
        let radio = &self.radios[radio];
        let of_plans = |node: &&usize| self.nodes[**node].router.name == "sabr";
        let first = radio.nodes.iter().find(of_plans)?;
        let (name, count) = (&self.nodes[*first].name, radio.nodes.iter().filter(of_plans).count());
        Some(format!(
            "{count} nodes with the radio `{}`, `{name}` first, have router `sabr`, which goes by contact plans, and links of radios are in none: a copying router, such as `epidemic`, uses them",
            radio.name
        ))
    }
    /// Layers of different kinds at one port: a simulated node tells them apart, a real one serves a port once.
    fn port_served_twice(&self, node: usize) -> Option<String> {
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
    fn a_port_that_two_kinds_of_streams_share_is_doubted() {
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
    fn a_link_whose_ends_do_not_agree_on_tls_is_doubted() {
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
    fn links_and_contacts_that_never_come_are_doubted() {
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
