//! Random networks with random faults, as scenario text derived from a seed.
//!
//! Contacts change and faults strike until `calm_s`; from then on every link is up until the end, so that stored
//! bundles must arrive if the router ensures it.

use super::cables::Layers;
use farlink_base::Rng;

/// Fault-free time at the end in seconds, of networks with links and of networks with radios. It is shorter with
/// radios, whose contacts take computing time to the end.
const CALM_S: u64 = 3600;
const CALM_OF_RADIOS_S: u64 = 400;
/// Markers in the scenario's description: an additional invariant, and a permitted loss.
pub const DRAINS: &str = "all that is kept arrives";
pub const LOSES: &str = "links may lose bundles";

/// Network in parts that can be left out.
#[derive(Clone, Debug)]
pub struct Draft {
    pub seed: u64,
    pub calm_s: u64,
    /// Fault-free time after `calm_s`, seconds.
    pub well_s: u64,
    /// Whether all stored bundles must arrive.
    pub drains: bool,
    /// Whether a bundle sent to a neighbour may be lost.
    pub loses: bool,
    /// Lines before the first table, and tables that are always kept.
    pub top: String,
    pub common: String,
    pub nodes: Vec<String>,
    pub links: Vec<Part>,
    /// Tables of security, tunnels and quotas.
    pub rules: Vec<Part>,
    pub traffic: Vec<Part>,
    pub faults: Vec<Part>,
    /// Times at which nodes accept bundles from applications, for kills at that moment.
    pub sending: Vec<Sending>,
}

/// Bundles that an application sends from a given time: all at once, or at intervals.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    pub node: usize,
    pub start_s: u64,
    pub interval_ms: u64,
    pub count: u64,
}

impl Sending {
    /// Traffic table with bundles of up to this size and these additional lines.
    pub fn text(&self, n: usize, to: usize, most: &str, lines: &str) -> String {
        let Sending { node, start_s, interval_ms, count } = self;
        let pace = if *interval_ms > 0 { format!(", interval = \"{interval_ms} ms\"") } else { String::new() };
        format!(
            "[[traffic]]\nname = \"t{n}\"\nfrom = \"n{node}\"\nto = \"n{to}\"\nstart = \"{start_s} s\"\n{lines}\
             bundles = {{ count = {count}, size = [\"1 B\", \"{most}\"]{pace} }}\n"
        )
    }
    /// Time of one of its bundles, milliseconds.
    pub fn moment_ms(&self, number: u64) -> u64 {
        self.start_s * 1000 + number * self.interval_ms
    }
}

/// Tables that are removed together with any of these nodes, or with this link.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    pub text: String,
    pub nodes: Vec<usize>,
    pub link: Option<String>,
}

/// Draws one of the words.
pub fn pick<'a>(random: &mut Rng, of: &[&'a str]) -> &'a str {
    of[random.below(of.len() as u64) as usize]
}

/// Parameters drawn before the nodes.
pub struct Shape {
    pub count: usize,
    pub message: bool,
    pub by_radio: bool,
    pub router: &'static str,
    pub control: &'static str,
    /// Whether stores hold only few bundles.
    pub small: bool,
    /// Whether all nodes request and accept custody, with durable stores.
    pub custody: bool,
    pub secured: bool,
    pub layers: Layers,
    /// Whether applications drop refused bundles.
    pub lost: bool,
}

impl Shape {
    /// Whether a policy uses the oracle, so that no node may restart.
    pub fn knows_all(&self) -> bool {
        self.control == "gbsd"
    }
    /// Whether the control evicts bundles.
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
    /// Makes a network without parts.
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

    /// The network of a seed; one in sixteen is a crowd.
    pub fn of(seed: u64) -> Draft {
        if seed % 16 == 15 { Draft::crowd(seed) } else { Draft::network(seed) }
    }

    fn network(seed: u64) -> Draft {
        // A random stream of its own: other uses of the seed draw other numbers.
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
        // A stream of its own: features added later leave the earlier draws of a seed unchanged.
        let mut more = Rng::stream(seed, 0x51f0_0225);
        draft.draw_hops(&mut more);
        draft.draw_urgent(&mut more, &shape);
        if !shape.knows_all() {
            draft.draw_kills(&mut Rng::stream(seed, 0x51f0_0224));
        }
        draft
    }
}

/// Tables of movement and a radio for all nodes.
pub fn radio(area: &str, range: &str, rate: &str, metadata: &str) -> String {
    format!(
        "[[mobility]]\nname = \"m\"\nmodel = \"random_waypoint\"\narea = \"{area}\"\nspeed = [\"1 m/s\", \"9 m/s\"]\n\
         [[radio]]\nname = \"r\"\nrange = \"{range}\"\nrate = \"{rate}\"\nmetadata = \"{metadata}\"\n"
    )
}

/// Table of a node, with its store and bundle version.
pub fn node(n: usize, durable: bool, old: bool, by_radio: bool) -> String {
    let store = if durable { "durable" } else { "memory" };
    let version = if old { "bundle_version = 6\n" } else { "" };
    let moves = if by_radio { "mobility = \"m\"\nradio = \"r\"\n" } else { "" };
    format!("[[node]]\nname = \"n{n}\"\nid = \"ipn:{n}.0\"\nstore = \"{store}\"\n{version}{moves}")
}
