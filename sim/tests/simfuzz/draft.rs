//! Random networks with random faults, as text: what a seed stands for.
//!
//! Until `calm_s` contacts come and go and faults strike; from then on every link is up until the end, so that what
//! was kept must arrive where the router sees to that.

use super::cables::Layers;
use farlink_base::Rng;

/// How long everything is well at the end, in seconds: of links, and of radios, whose contacts go on costing.
const CALM_S: u64 = 3600;
const CALM_OF_RADIOS_S: u64 = 400;
/// In a scenario's description: what must hold besides, and what may happen.
pub const DRAINS: &str = "all that is kept arrives";
pub const LOSES: &str = "links may lose bundles";

/// One network, in parts that can be left out.
#[derive(Clone, Debug)]
pub struct Draft {
    pub seed: u64,
    pub calm_s: u64,
    /// How long all is well after that, in seconds.
    pub well_s: u64,
    /// Whether what was kept has to arrive.
    pub drains: bool,
    /// Whether a bundle that a neighbour was sent may be gone.
    pub loses: bool,
    /// Lines before the first table, and tables that are not left out.
    pub top: String,
    pub common: String,
    pub nodes: Vec<String>,
    pub links: Vec<Part>,
    /// Security, tunnels, quotas.
    pub rules: Vec<Part>,
    pub traffic: Vec<Part>,
    pub faults: Vec<Part>,
    /// When nodes take bundles from applications that are killed as they do.
    pub sending: Vec<Sending>,
}

/// An application that hands over so many bundles from some time on: all at once, or one by one.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    pub node: usize,
    pub start_s: u64,
    pub interval_ms: u64,
    pub count: u64,
}

impl Sending {
    /// Its traffic as a file has it, up to this size in these words, and with these lines more.
    pub fn text(&self, n: usize, to: usize, most: &str, lines: &str) -> String {
        let Sending { node, start_s, interval_ms, count } = self;
        let pace = if *interval_ms > 0 { format!(", interval = \"{interval_ms} ms\"") } else { String::new() };
        format!(
            "[[traffic]]\nname = \"t{n}\"\nfrom = \"n{node}\"\nto = \"n{to}\"\nstart = \"{start_s} s\"\n{lines}\
             bundles = {{ count = {count}, size = [\"1 B\", \"{most}\"]{pace} }}\n"
        )
    }
    /// When it hands over one of them, in milliseconds.
    pub fn moment_ms(&self, number: u64) -> u64 {
        self.start_s * 1000 + number * self.interval_ms
    }
}

/// Some tables, and the nodes and links without which they mean nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub text: String,
    pub nodes: Vec<usize>,
    pub link: Option<String>,
}

/// One of these.
pub fn pick<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
    of[random.below(of.len() as u64) as usize]
}

/// What is drawn of a network before its nodes.
pub struct Shape {
    pub count: usize,
    pub message: bool,
    pub by_radio: bool,
    pub router: &'static str,
    pub control: &'static str,
    /// Stores hold some bundles only.
    pub small: bool,
    /// All ask for custody and take it, and all stores are durable.
    pub custody: bool,
    pub secured: bool,
    pub layers: Layers,
    /// Applications do not offer again what was refused.
    pub lost: bool,
}

impl Shape {
    /// Whether a policy knows the whole network: then nobody restarts.
    pub fn knows_all(&self) -> bool {
        self.control == "gbsd"
    }
    /// Whether its control gives bundles up.
    pub fn gives_up(&self) -> bool {
        !matches!(self.control, "none" | "ion")
    }
    fn of(random: &mut Rng) -> Shape {
        let by_radio = random.chance(0.1);
        let message = by_radio || random.chance(0.25);
        let most = if random.chance(0.3) { 11 } else { 4 };
        let routers: &[&str] = match by_radio {
            true => &["epidemic", "epidemic", "spray-and-wait", "prophet", "maxprop", "rapid"],
            false => &["sabr", "sabr", "sabr", "sabr", "sabr", "epidemic", "epidemic", "prophet", "maxprop", "rapid"],
        };
        let router = pick(random, routers);
        let controls: &[&str] = match by_radio {
            true => &["drop-oldest", "marginal-utility", "hbsd", "gbsd", "rrcc", "ccc"],
            false => &["drop-oldest", "marginal-utility", "ion", "storage-routing", "hbsd", "rrcc"],
        };
        let control = if random.chance(0.3) { pick(random, controls) } else { "none" };
        let custody = router == "sabr" && control == "none" && random.chance(0.2);
        let layers = match random.below(10) {
            0 | 1 if !by_radio => Layers::Unreliable,
            _ if custody && random.chance(0.5) => Layers::Unreliable,
            2 => Layers::Rough,
            _ => Layers::Plain,
        };
        Shape {
            count: 2 + random.below(most) as usize,
            message,
            by_radio,
            router,
            control,
            small: random.chance(0.15),
            custody,
            secured: random.chance(0.12),
            layers,
            lost: control == "ion",
        }
    }
}

impl Draft {
    /// The scenario as a file.
    pub fn text(&self) -> String {
        let said = [(self.drains, DRAINS), (self.loses, LOSES)];
        let said: String = said.iter().filter(|(so, _)| *so).map(|(_, what)| format!("; {what}")).collect();
        let mut text = format!(
            "name = \"simfuzz-{}\"\ndescription = \"random{said}\"\nseed = {}\nduration = \"{} s\"\n{}{}",
            self.seed,
            self.seed,
            self.calm_s + self.well_s,
            self.top,
            self.common
        );
        self.nodes.iter().for_each(|node| text += node);
        for part in [&self.links, &self.rules, &self.traffic, &self.faults].into_iter().flatten() {
            text += &part.text;
        }
        text
    }
    /// Nothing yet.
    pub fn empty(seed: u64, random: &mut Rng, by_radio: bool, message: bool) -> Draft {
        let fidelity = if message { "message" } else { "full" };
        Draft {
            seed,
            calm_s: 100 + random.below(1000),
            well_s: if by_radio { CALM_OF_RADIOS_S } else { CALM_S },
            drains: false,
            loses: false,
            top: format!("stop_when_delivered = {}\nfidelity = \"{fidelity}\"\n", random.chance(0.5)),
            common: String::new(),
            nodes: Vec::new(),
            links: Vec::new(),
            rules: Vec::new(),
            traffic: Vec::new(),
            faults: Vec::new(),
            sending: Vec::new(),
        }
    }

    /// The network of a seed: one in sixteen is a crowd.
    pub fn of(seed: u64) -> Draft {
        if seed % 16 == 15 { Draft::crowd(seed) } else { Draft::network(seed) }
    }

    /// Some nodes with all that a scenario knows.
    fn network(seed: u64) -> Draft {
        let mut random = Rng::stream(seed, 0x51f0_0221);
        let shape = Shape::of(&mut random);
        let mut draft = Draft::empty(seed, &mut random, shape.by_radio, shape.message);
        draft.loses = shape.layers == Layers::Unreliable && !shape.custody;
        let sees_to_it = matches!(shape.router, "sabr" | "epidemic");
        draft.drains = !shape.by_radio && !shape.small && shape.control == "none" && sees_to_it && !draft.loses;
        let capacity = if shape.small { "400 kB" } else { "200 MB" };
        draft.common = format!(
            "[node_defaults]\nrouter = \"{}\"\ncontrol = \"{}\"\nstore_capacity = \"{capacity}\"\n{}\
             [measure]\ninterval = \"10 s\"\n",
            shape.router,
            shape.control,
            if shape.by_radio { String::new() } else { super::nodes::of_all(&mut random, &shape) },
        );
        if shape.by_radio {
            draft.common += &radio("500 m", "150 m", "1 Mbit/s", "charged");
        }
        let durable = [0.0, 0.6, 1.0, 1.0][random.below(4) as usize];
        for n in 1..=shape.count {
            let durable = shape.custody || random.chance(durable);
            let version = !shape.secured && random.chance(0.15);
            draft.nodes.push(node(n, durable, version, shape.by_radio));
        }
        if !shape.by_radio {
            draft.draw_links(&mut random, &shape);
        }
        draft.draw_rules(&mut random, &shape);
        draft.draw_traffic(&mut random, &shape);
        let faults = random.below(80);
        draft.draw_faults(&mut random, &shape, faults);
        let mut more = Rng::stream(seed, 0x51f0_0225);
        draft.draw_hops(&mut more);
        draft.draw_urgent(&mut more, &shape);
        if !shape.knows_all() {
            draft.draw_kills(&mut Rng::stream(seed, 0x51f0_0224));
        }
        draft
    }
}

/// A way to move and a radio for all.
pub fn radio(area: &str, range: &str, rate: &str, metadata: &str) -> String {
    format!(
        "[[mobility]]\nname = \"m\"\nmodel = \"random_waypoint\"\narea = \"{area}\"\nspeed = [\"1 m/s\", \"9 m/s\"]\n\
         [[radio]]\nname = \"r\"\nrange = \"{range}\"\nrate = \"{rate}\"\nmetadata = \"{metadata}\"\n"
    )
}

/// A node, with a store and a version of bundles.
pub fn node(n: usize, durable: bool, old: bool, by_radio: bool) -> String {
    let store = if durable { "durable" } else { "memory" };
    let version = if old { "bundle_version = 6\n" } else { "" };
    let moves = if by_radio { "mobility = \"m\"\nradio = \"r\"\n" } else { "" };
    format!("[[node]]\nname = \"n{n}\"\nid = \"ipn:{n}.0\"\nstore = \"{store}\"\n{version}{moves}")
}
