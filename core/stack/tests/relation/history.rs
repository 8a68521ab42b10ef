//! A history: a setup and steps, as data that is drawn, printed, read back and shrunk.

use super::forgery::Alteration;
use super::ledger::Violation;
use super::world::World;
use farlink_base::Rng;
use std::fmt;

/// Setup of a world. Node `n` is `ipn:(n + 1).0`; bundles go between the first and the last node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setup {
    /// Number of nodes. 2: two neighbours; 3: a relay between them.
    pub nodes: usize,
    /// Whether nodes have log stores instead of stores in memory.
    pub durable: bool,
    /// Version of the bundle protocol of the honest nodes and of the forgeries.
    pub version: u8,
    /// Whether the last link is UDPCL with datagrams too short for a bundle, so that bundles cross it as fragments.
    pub narrow: bool,
    /// Whether a crash is a power cut, which may keep parts of unsynced data, instead of none.
    pub power: bool,
}

impl Setup {
    /// The small worlds of two neighbours in which all histories are run.
    pub fn small() -> [Setup; 7] {
        let plain = Setup { nodes: 2, durable: true, version: 7, narrow: false, power: false };
        [
            plain,
            Setup { power: true, ..plain },
            Setup { durable: false, ..plain },
            Setup { version: 6, ..plain },
            Setup { version: 6, durable: false, ..plain },
            Setup { narrow: true, ..plain },
            Setup { narrow: true, durable: false, ..plain },
        ]
    }
}

/// One event of a history.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Step {
    /// An application sends honest bundle `bundle`: even ones go from the first node to the last, odd ones back.
    Send { bundle: u8 },
    /// The attacker's datagram arrives at `node`: an altered copy of `bundle`, or, before `bundle` is sent, a bundle
    /// with its expected identity.
    Forge { bundle: u8, alteration: Alteration, node: u8 },
    /// The first transmission from one node to its neighbour arrives.
    Cross { from: u8, to: u8 },
    /// The first transmission from one node to its neighbour is lost.
    Lose { from: u8, to: u8 },
    /// The first verdict of one node reaches its neighbour, the sender.
    Answer { from: u8, to: u8 },
    /// The disk of a node performs all requested operations, syncs included.
    Commit { node: u8 },
    /// The disk of a node performs the first requested operation.
    Part { node: u8 },
    /// A node is killed and started again.
    Crash { node: u8 },
    /// The link between nodes `link` and `link + 1` goes down.
    Down { link: u8 },
    /// The link between nodes `link` and `link + 1` comes up.
    Up { link: u8 },
    /// Time passes until the next timer of a node.
    Wait,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    pub setup: Setup,
    pub steps: Vec<Step>,
}

/// Honest bundles of a random history.
pub const BUNDLES: u8 = 3;

impl History {
    /// The history of a seed.
    pub fn random(seed: u64) -> History {
        let mut rng = Rng::stream(seed, 26);
        // Draws stay in this order: a seed names its history for ever.
        let setup = Setup {
            nodes: 2 + rng.below(2) as usize,
            durable: rng.chance(0.6),
            version: if rng.chance(0.3) { 6 } else { 7 },
            narrow: rng.chance(0.3),
            power: rng.chance(0.5),
        };
        let mut history = History { setup, steps: Vec::new() };
        let count = 6 + rng.below(30) as usize;
        let mut sent = 0;
        while history.steps.len() < count {
            history.draw(&mut rng, &mut sent);
        }
        // A history without an honest bundle would check nothing.
        while sent < 1 {
            history.steps.push(Step::Send { bundle: sent });
            sent += 1;
        }
        history
    }
    fn draw(&mut self, rng: &mut Rng, sent: &mut u8) {
        let nodes = self.setup.nodes as u64;
        let node = rng.below(nodes) as u8;
        let link = rng.below(nodes - 1) as u8;
        let (from, to) = if rng.chance(0.5) { (link, link + 1) } else { (link + 1, link) };
        let step = match rng.below(100) {
            0..14 if *sent < BUNDLES => {
                *sent += 1;
                Step::Send { bundle: *sent - 1 }
            }
            0..14 => Step::Wait,
            14..36 => {
                let bundle = rng.below(u64::from(BUNDLES.min(*sent + 1))) as u8;
                let alteration = Alteration::ALL[rng.below(Alteration::ALL.len() as u64) as usize];
                Step::Forge { bundle, alteration, node }
            }
            36..58 => Step::Cross { from, to },
            58..60 => Step::Lose { from, to },
            60..72 => Step::Answer { from, to },
            72..88 => Step::Commit { node },
            88..91 => Step::Crash { node },
            91..94 => Step::Down { link },
            94..97 => Step::Up { link },
            _ => Step::Wait,
        };
        self.steps.push(step);
    }

    /// Copy of the history without the attacker's steps.
    pub fn honest(mut self) -> History {
        self.steps.retain(|step| !matches!(step, Step::Forge { .. }));
        self
    }

    /// Runs it to its end and checks it.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn run(&self) -> Result<(), Violation> {
        let mut world = World::new(self.setup);
        for step in &self.steps {
            world.step(*step)?;
        }
        world.drain()
    }

    /// A smaller history with the same violation.
    pub fn shrunk(&self, violation: &Violation) -> History {
        // Runs of steps are left out, the longest first; then the setup is simplified.
        let fails = |history: &History| history.run().is_err_and(|other| other.kind() == violation.kind());
        let mut best = self.clone();
        loop {
            let before = best.clone();
            let mut size = best.steps.len().div_ceil(2);
            while size > 0 {
                let mut at = 0;
                while at < best.steps.len() {
                    let mut less = best.clone();
                    less.steps.drain(at..(at + size).min(best.steps.len()));
                    if fails(&less) { best = less } else { at += size }
                }
                size /= 2;
            }
            for plain in [
                Setup { durable: false, ..best.setup },
                Setup { version: 7, ..best.setup },
                Setup { narrow: false, ..best.setup },
                Setup { power: false, ..best.setup },
            ] {
                let less = History { setup: plain, steps: best.steps.clone() };
                if plain != best.setup && fails(&less) {
                    best = less;
                }
            }
            if best == before {
                return best;
            }
        }
    }

    /// Parses the format of [`fmt::Display`].
    pub fn parse(text: &str) -> Option<History> {
        let mut words = text.split_whitespace();
        let mut number = |name: &str| {
            let (key, value) = words.next()?.split_once('=')?;
            (key == name).then(|| value.parse::<u8>().ok())?
        };
        let setup = Setup {
            nodes: number("nodes")?.into(),
            durable: number("durable")? == 1,
            version: number("version")?,
            narrow: number("narrow")? == 1,
            power: number("power")? == 1,
        };
        Some(History { setup, steps: words.map(Step::parse).collect::<Option<_>>()? })
    }
}

impl Step {
    fn parse(word: &str) -> Option<Step> {
        let mut parts = word.split(':');
        let name = parts.next()?;
        let mut number = || parts.next()?.parse::<u8>().ok();
        Some(match name {
            "send" => Step::Send { bundle: number()? },
            "forge" => {
                let bundle = number()?;
                let node = number()?;
                Step::Forge { bundle, node, alteration: Alteration::named(parts.next()?)? }
            }
            "cross" => Step::Cross { from: number()?, to: number()? },
            "lose" => Step::Lose { from: number()?, to: number()? },
            "answer" => Step::Answer { from: number()?, to: number()? },
            "commit" => Step::Commit { node: number()? },
            "part" => Step::Part { node: number()? },
            "crash" => Step::Crash { node: number()? },
            "down" => Step::Down { link: number()? },
            "up" => Step::Up { link: number()? },
            "wait" => Step::Wait,
            _ => return None,
        })
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Send { bundle } => write!(f, "send:{bundle}"),
            Step::Forge { bundle, alteration, node } => write!(f, "forge:{bundle}:{node}:{alteration}"),
            Step::Cross { from, to } => write!(f, "cross:{from}:{to}"),
            Step::Lose { from, to } => write!(f, "lose:{from}:{to}"),
            Step::Answer { from, to } => write!(f, "answer:{from}:{to}"),
            Step::Commit { node } => write!(f, "commit:{node}"),
            Step::Part { node } => write!(f, "part:{node}"),
            Step::Crash { node } => write!(f, "crash:{node}"),
            Step::Down { link } => write!(f, "down:{link}"),
            Step::Up { link } => write!(f, "up:{link}"),
            Step::Wait => write!(f, "wait"),
        }
    }
}
impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setup { nodes, durable, version, narrow, power } = self.setup;
        let bit = u8::from;
        write!(
            f,
            "nodes={nodes} durable={} version={version} narrow={} power={}",
            bit(durable),
            bit(narrow),
            bit(power)
        )?;
        self.steps.iter().try_for_each(|step| write!(f, " {step}"))
    }
}
