//! The scenario's network as the `topology` of a run's `manifest.json`. The report draws it without
//! reading scenario files.

use crate::types::{Contact, SENDER_SERVICE, Scenario, StoreKind, Traffic};
use farlink_base::{DataRate, Duration, EndpointId, format_duration};
use farlink_link::{Delay, DirectionSpec, Loss, Rate};
use serde_json::{Value, json};

impl Scenario {
    /// Nodes, links and contacts as JSON; `farlink_report::Topology` reads it.
    pub fn topology_json(&self) -> String {
        let name = |node: usize| &self.nodes[node].name;
        let nodes: Vec<Value> = self
            .nodes
            .iter()
            .map(|n| {
                json!({
                    "name": n.name,
                    "id": n.ids.first(),
                    "number": n.number.0,
                    "store": if n.store == StoreKind::Durable { "durable" } else { "memory" },
                    "store_capacity_bytes": n.settings().store.capacity.0,
                    "router": n.router.name,
                    "position": n.position,
                })
            })
            .collect();
        let links: Vec<Value> = self
            .links
            .iter()
            .map(|l| {
                let layer = l.layer.kind.name;
                let (from, to) = (name(l.between[0]), name(l.between[1]));
                let [forward, reverse] = [&l.forward, &l.reverse].map(|spec| direction(spec, l.shares.as_deref()));
                json!({
                    "name": l.name, "from": from, "to": to, "layer": layer, "port": l.port,
                    "forward": forward, "reverse": reverse,
                })
            })
            .collect();
        let contacts: Vec<Value> = self
            .contacts
            .iter()
            .cloned()
            .chain(self.presences())
            .map(|c| {
                let link = &self.links[c.link];
                // `forward` runs from the first node of `between` to the second.
                let (from, to) = if c.forward { (0, 1) } else { (1, 0) };
                let spec = if c.forward { &link.forward } else { &link.reverse };
                json!({
                    "link": link.name,
                    "from": name(link.between[from]),
                    "to": name(link.between[to]),
                    "start_s": c.start.as_secs_f64(),
                    "end_s": c.end.as_secs_f64(),
                    "rate_bit_s": c.rate.or(first_rate(spec)).map(|r| r.0),
                    "delay_s": c.delay.unwrap_or(first_delay(spec)).as_secs_f64(),
                })
            })
            .collect();
        // Thousands of drawn bundles would drown the page, so each group has one flow for all of them.
        let single = self.traffic.iter().enumerate().filter(|(_, traffic)| traffic.drawn.is_none());
        let drawn = (0..self.group_traffic.len()).filter_map(|group| self.flow_among_groups(group));
        let traffic: Vec<Value> = single.map(|(index, traffic)| self.flow(index, traffic)).chain(drawn).collect();
        json!({ "nodes": nodes, "links": links, "contacts": contacts, "traffic": traffic }).to_string()
    }
    /// Name, ends and service numbers of a traffic entry, by which a report assigns bundles to it.
    fn flow(&self, index: usize, traffic: &Traffic) -> Value {
        let number = |node: usize, service: u32| {
            let id = self.nodes[node].ids.first().and_then(|id| id.parse::<EndpointId>().ok());
            // Events record services as numbers, for the dtn scheme a hash of the demux: the same number must stand
            // here.
            id.map_or(u64::from(service), |id| id.at_service(service).service_number())
        };
        json!({
            "name": traffic.name,
            "from": self.nodes[traffic.from].name,
            "to": self.nodes[traffic.to].name,
            "service": number(traffic.to, traffic.service),
            "sender_service": number(traffic.from, SENDER_SERVICE + index as u32),
        })
    }
    /// Flow of a traffic entry among groups; `None` if no bundle of it was drawn.
    fn flow_among_groups(&self, group: usize) -> Option<Value> {
        let of_it = |traffic: &&Traffic| traffic.drawn == Some(group);
        let first = self.traffic.iter().position(|traffic| traffic.drawn == Some(group))?;
        let (traffic, wanted) = (&self.traffic[first], self.group_traffic.get(group)?);
        // Drawn bundles share the receivers' service, and their sender services are consecutive from the first one's:
        // the report needs the first and their number.
        let mut flow = self.flow(first, traffic);
        let name = |nodes: &std::ops::Range<usize>| {
            let group = self.groups.iter().find(|group| group.nodes == *nodes);
            group.map_or(&self.nodes[nodes.start].name, |group| &group.name)
        };
        flow["name"] = wanted.name.clone().into();
        flow["from"] = name(&wanted.from).clone().into();
        flow["to"] = name(&wanted.to).clone().into();
        flow["senders"] = self.traffic.iter().filter(of_it).count().into();
        Some(flow)
    }
    /// Contacts, both ways, of links that appear or disappear and have no contacts of their own.
    fn presences(&self) -> impl Iterator<Item = Contact> + '_ {
        // Links that last are drawn without contacts: they are always up.
        let fleeting = self.links.iter().enumerate().filter(|(index, l)| !l.lasts() && !self.scheduled(*index));
        fleeting.flat_map(|(link, l)| {
            let (start, end) = (l.appears, l.disappears.unwrap_or(self.duration));
            [true, false].map(|forward| Contact { link, forward, start, end, rate: None, delay: None, confidence: 1.0 })
        })
    }
}

/// Rate of this direction at the start of the run, unless a contact gives another; `None`: unlimited.
pub fn first_rate(spec: &DirectionSpec) -> Option<DataRate> {
    match &spec.rate {
        Rate::Unlimited => None,
        Rate::Constant(rate) => Some(*rate),
        Rate::Steps(steps) => steps.first().map(|(_, rate)| *rate),
    }
}

/// One-way delay of this direction at the start of the run, unless a contact gives another.
pub fn first_delay(spec: &DirectionSpec) -> Duration {
    match &spec.delay {
        Delay::Constant(delay) => *delay,
        Delay::Table(points) => points.first().map_or(Duration::ZERO, |(_, delay)| *delay),
    }
}

fn direction(spec: &DirectionSpec, shares: Option<&str>) -> Value {
    let delay = first_delay(spec);
    let loss = match spec.loss {
        Loss::None => 0.0,
        Loss::Bernoulli(p) => p,
        // Share of time in the bad state times its loss, and the same for the good one.
        Loss::GilbertElliott { p, r, bad, good } if p + r > 0.0 => (p * bad + r * good) / (p + r),
        Loss::GilbertElliott { good, .. } => good,
    };
    json!({ "rate_bit_s": first_rate(spec).map(|r| r.0), "delay_s": delay.as_secs_f64(), "loss": loss, "notes": notes(spec, shares) })
}

fn notes(spec: &DirectionSpec, shares: Option<&str>) -> Vec<String> {
    // Everything of the model that rate, delay and loss leave out; the report prints these words beside the link.
    let mut notes = Vec::new();
    if matches!(spec.rate, Rate::Steps(_)) {
        notes.push("the rate changes over time".to_string());
    }
    if matches!(spec.delay, Delay::Table(_)) {
        notes.push("the delay changes over time".to_string());
    }
    if matches!(spec.loss, Loss::GilbertElliott { .. }) {
        notes.push("losses come in bursts".to_string());
    }
    if let Some(outages) = spec.outages {
        let [up, down] = [outages.up, outages.down].map(format_duration);
        notes.push(format!("random outages, {down} after {up} on average"));
    }
    if let Some(jitter) = spec.jitter {
        notes.push(format!("up to {} of jitter", format_duration(jitter.most)));
    }
    for (share, what) in [(spec.duplicate, "duplicated"), (spec.corrupt, "corrupted")] {
        if share > 0.0 {
            notes.push(format!("{} % {what}", share * 100.0));
        }
    }
    if let Some(reorder) = spec.reorder {
        notes.push(format!("{} % reordered by {}", reorder.probability * 100.0, format_duration(reorder.gap)));
    }
    if spec.bit_error_rate > 0.0 {
        notes.push(format!("bit error rate {:e}", spec.bit_error_rate));
    }
    if spec.overhead > 0 {
        notes.push(format!("{} B of framing per packet", spec.overhead));
    }
    if let Some(share) = shares {
        notes.push(format!("shares the bottleneck {share}"));
    }
    if spec.outages.is_some() {
        notes.push("random outages".to_string());
    }
    notes
}
