//! Congestion controls written in Python.

use crate::policy::{Policy, Shared};
use crate::router::wrong;
use crate::views::Peer;
use crate::copy_offer::CopyOffer;
use farlink_base::{PeerId, Refusal};
use farlink_book as book;
use farlink_book::{EventMask, Held, PolicyEvent, Node, Actions};
use farlink_congestion::Control;
use pyo3::prelude::*;

/// Congestion control of one node, written in Python.
#[derive(Debug)]
pub struct PythonControl {
    policy: Policy,
    wishes: bool,
}

impl PythonControl {
    /// Creates the control by calling `maker`.
    ///
    /// # Errors
    /// If the call raises an exception, or returns no control.
    pub fn new(maker: &Bound<'_, PyAny>, shared: Shared) -> PyResult<PythonControl> {
        let policy = Policy::new(maker, "Control", shared)?;
        Ok(PythonControl { wishes: policy.flag(maker.py(), "wishes")?, policy })
    }
}

fn worth_of(method: &str, answer: &Bound<'_, PyAny>) -> PyResult<f64> {
    // NaN cannot be ordered, as eviction needs.
    let worth: f64 = answer.extract().map_err(|_| wrong(method, "a number or None", answer))?;
    if worth.is_nan() { Err(wrong(method, "a number that is one, or None", answer)) } else { Ok(worth) }
}

impl Control for PythonControl {
    fn hears(&self) -> EventMask {
        self.policy.hears
    }
    fn wishes(&self) -> bool {
        self.wishes
    }
    fn on(&mut self, node: &Node<'_>, news: &PolicyEvent<'_>, out: &mut Actions) {
        self.policy.tell(node, news, out);
    }
    fn admit(&self, node: &Node<'_>, new: &Held) -> Result<f64, Refusal> {
        // A control without the method gets the answer that applies without any control.
        self.policy.ask("admit", node, Ok(f64::INFINITY), |asked| {
            let answer = asked.object.call_method1("admit", (&asked.node, asked.bundle(node, new)?))?;
            if answer.is_none() {
                return Ok(Err(Refusal::NoResources));
            }
            if let Ok(plain) = answer.extract::<bool>() {
                // True admits the bundle in any case: with infinite worth, every removable bundle may be evicted for
                // it.
                return Ok(if plain { Ok(f64::INFINITY) } else { Err(Refusal::NoResources) });
            }
            worth_of("admit", &answer).map(Ok)
        })
    }
    fn worth(&self, node: &Node<'_>, held: &Held) -> Option<f64> {
        self.policy.ask("worth", node, None, |asked| {
            let answer = asked.object.call_method1("worth", (&asked.node, asked.bundle(node, held)?))?;
            if answer.is_none() { Ok(None) } else { worth_of("worth", &answer).map(Some) }
        })
    }
    fn allow(&self, node: &Node<'_>, peer: &book::Peer, held: &Held, want: Option<book::CopyOffer>) -> Option<book::CopyOffer> {
        self.policy.ask("allow", node, want, |asked| {
            let wanted = want.as_ref().map(|want| CopyOffer::of(node, want));
            let told = (&asked.node, asked.peer(peer)?, asked.bundle(node, held)?, wanted);
            let answer = asked.object.call_method1("allow", told)?;
            if answer.is_none() {
                return Ok(None);
            }
            if let Ok(plain) = answer.extract::<bool>() {
                return Ok(want.filter(|_| plain));
            }
            match answer.cast::<CopyOffer>() {
                Ok(answer) => Ok(Some(answer.get().engine(node, held, want.as_ref()))),
                Err(_) => Err(wrong("allow", "None, True for what is wanted, or a farlink.CopyOffer", &answer)),
            }
        })
    }
    fn rehome(&self, node: &Node<'_>, held: &Held) -> Option<PeerId> {
        self.policy.ask("rehome", node, None, |asked| {
            let answer = asked.object.call_method1("rehome", (&asked.node, asked.bundle(node, held)?))?;
            if answer.is_none() {
                return Ok(None);
            }
            let peer = answer.cast::<Peer>().map_err(|_| wrong("rehome", "None or a peer", &answer))?;
            Ok(node.peers.get(peer.get().id_at(node.me)?).map(|peer| peer.id))
        })
    }
}
