//! A policy written in Python, as routers and controls share it: how it is made and asked, what it orders, and
//! what becomes of its exceptions.

use crate::errors::{RunError, mistake};
use crate::views::{Bundle, Names, PolicyEvent, Node, Peer};
use crate::copy_offer::later;
use farlink_base::{Instant, NodeId};
use farlink_book as book;
use farlink_book::{EventMask, Action, Actions, Why};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The first exception of any policy: it ends the run.
#[derive(Default, Debug)]
pub struct Fault {
    error: Mutex<Option<PyErr>>,
    /// Set with it: the run ends.
    pub stop: Arc<AtomicBool>,
    raised: AtomicBool,
}
impl Fault {
    fn set(&self, error: PyErr) {
        self.raised.store(true, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
    /// Takes it.
    pub fn take(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// What all policies of a run share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Names of nodes.
    pub names: Arc<Names>,
    /// The first exception.
    pub fault: Arc<Fault>,
}

/// Methods in which orders are given.
const TAKE_ORDERS: [&str; 2] = ["on", "route"];

/// Most questions to one policy at one moment of the run: more, and its answers are what is asked about again.
const AT_ONCE_MAX: u64 = 1_000_000;

/// News by the words of `hears`.
const HEARS: [(&str, EventMask); 6] = [
    ("peers", EventMask::PEERS),
    ("links", EventMask::LINKS),
    ("kept", EventMask::KEPT),
    ("handed", EventMask::HANDED),
    ("outcomes", EventMask::OUTCOMES),
    ("gone", EventMask::GONE),
];

/// An object of one node.
#[derive(Debug)]
pub struct Policy {
    object: Py<PyAny>,
    shared: Shared,
    methods: Vec<String>,
    /// Which news it wants.
    pub hears: EventMask,
    /// The moment of the last question, and how many there were at it.
    asked: Cell<(Instant, u64)>,
}

impl Policy {
    /// Made by calling `maker`, a subclass of the package's class of this name.
    ///
    /// # Errors
    /// What the call raised, or that what came is no policy.
    pub fn new(maker: &Bound<'_, PyAny>, class: &str, shared: Shared) -> PyResult<Policy> {
        let object = maker.call0()?;
        let base = maker.py().import("farlink.policies")?.getattr(class)?;
        if !object.is_instance(&base)? {
            let found = object.get_type().name()?.to_string();
            return Err(mistake(format!(
                "a {found} is no farlink.{class}\nhint: give a subclass of farlink.{class}, or what makes an object of one"
            )));
        }
        let methods = object.getattr("_asked")?.extract()?;
        let mut hears = EventMask::NOTHING;
        let wanted = object.getattr("hears")?;
        let wanted: Vec<String> = match wanted.extract::<String>() {
            Ok(word) => vec![word],
            Err(_) => wanted.extract()?,
        };
        for word in wanted {
            let Some((_, class)) = HEARS.iter().find(|(known, _)| *known == word) else {
                let known = HEARS.map(|(known, _)| known).join(", ");
                return Err(mistake(format!("hears: `{word}` is no kind of news\nhint: there are {known}")));
            };
            hears = hears.and(*class);
        }
        Ok(Policy { object: object.unbind(), shared, methods, hears, asked: Cell::default() })
    }

    /// A flag of the class.
    ///
    /// # Errors
    /// Where it is no truth value.
    pub fn flag(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.object.bind(py).getattr(name)?.is_truthy()
    }

    /// Asks it; what is not written in Python, or after an exception, is answered by `otherwise`.
    pub fn ask<T>(
        &self,
        method: &str,
        node: &book::Node<'_>,
        otherwise: T,
        call: impl FnOnce(&Asked<'_, '_>) -> PyResult<T>,
    ) -> T {
        if self.shared.fault.raised.load(Ordering::Relaxed) || !self.methods.iter().any(|known| known == method) {
            return otherwise;
        }
        Python::attach(|py| {
            let asked = || {
                self.count(method, node)?;
                let seen = Bound::new(py, Node::of(py, &self.shared.names, node)?)?;
                let answer = call(&Asked { object: self.object.bind(py), node: seen, names: &self.shared.names })?;
                if !TAKE_ORDERS.contains(&method) {
                    self.without_orders(method, py)?;
                }
                Ok(answer)
            };
            asked().unwrap_or_else(|error| {
                self.shared.fault.set(error);
                otherwise
            })
        })
    }

    /// Counts a question.
    ///
    /// # Errors
    /// When there were too many at one moment.
    fn count(&self, method: &str, node: &book::Node<'_>) -> PyResult<()> {
        let (at, count) = self.asked.get();
        let count = if at == node.now { count + 1 } else { 1 };
        self.asked.set((node.now, count));
        if count <= AT_ONCE_MAX {
            return Ok(());
        }
        let (name, now) = (self.shared.names.get(&node.me).map_or("a node", String::as_str), node.now.as_secs_f64());
        Err(RunError::new_err(format!(
            "`{method}` is asked without end at {now} s, of {name}\n\
             hint: an order such as `reroute_all` in answer to what it makes happen asks again, for ever"
        )))
    }

    /// Asks it what takes no orders.
    ///
    /// # Errors
    /// Where it gives some: they would be carried out at another time, if ever.
    fn without_orders(&self, method: &str, py: Python<'_>) -> PyResult<()> {
        let orders = self.object.bind(py).getattr("_orders")?;
        let orders = orders.cast::<PyList>()?;
        if orders.is_empty() {
            return Ok(());
        }
        let word: String = orders.get_item(0)?.cast::<PyTuple>()?.get_item(0)?.extract()?;
        let taken = if self.methods.iter().any(|known| known == "wants") { "`on` and `route`" } else { "`on`" };
        Err(mistake(format!(
            "`{method}` ordered `{word}`\nhint: orders are given in {taken}; `hears` says when `on` is called"
        )))
    }

    /// Tells it what happened, and takes what it orders.
    pub fn tell(&self, node: &book::Node<'_>, news: &book::PolicyEvent<'_>, out: &mut Actions) {
        self.ask("on", node, (), |asked| {
            let news = PolicyEvent::of(asked.node.py(), asked.names, node, news)?;
            asked.object.call_method1("on", (&asked.node, news))?;
            asked.orders(node.now, out)
        });
    }
}

/// A policy that is asked now.
pub struct Asked<'a, 'py> {
    /// It.
    pub object: &'a Bound<'py, PyAny>,
    /// The node as it sees it.
    pub node: Bound<'py, Node>,
    /// Names of nodes.
    pub names: &'a Arc<Names>,
}

impl Asked<'_, '_> {
    /// A bundle as it sees it.
    ///
    /// # Errors
    /// Where Python has no memory.
    pub fn bundle(&self, node: &book::Node<'_>, held: &book::Held) -> PyResult<Py<Bundle>> {
        Py::new(self.node.py(), Bundle::of(self.names, node, held))
    }
    /// A neighbour as it sees it.
    ///
    /// # Errors
    /// Where Python has no memory.
    pub fn peer(&self, peer: &book::Peer) -> PyResult<Py<Peer>> {
        Py::new(self.node.py(), Peer::of(self.names, self.node.get().id(), peer))
    }
    /// Takes what it ordered.
    ///
    /// # Errors
    /// What is no order.
    pub fn orders(&self, now: Instant, out: &mut Actions) -> PyResult<()> {
        let orders = self.object.getattr("_orders")?;
        let list = orders.cast::<PyList>()?;
        let me = self.node.get().id();
        for order in list.iter() {
            out.push(order_of(me, now, order.cast::<PyTuple>()?)?);
        }
        list.call_method0("clear")?;
        Ok(())
    }
}

fn order_of(me: NodeId, now: Instant, order: &Bound<'_, PyTuple>) -> PyResult<Action> {
    let kind: String = order.get_item(0)?.extract()?;
    let handle = || order.get_item(1)?.cast::<Bundle>()?.get().handle_at(me);
    let peer = || order.get_item(1)?.cast::<Peer>()?.get().id_at(me);
    Ok(match kind.as_str() {
        "reroute" => Action::Reroute(handle()?),
        "reroute_all" => Action::RerouteAll,
        "reroute_to" => Action::RerouteTo(NodeId(order.get_item(1)?.extract()?)),
        "reask" => Action::Reask(peer()?),
        "tell" => Action::Tell { to: peer()?, bytes: order.get_item(2)?.cast::<PyBytes>()?.as_bytes().to_vec() },
        "label" => Action::Label { bundle: handle()?, label: order.get_item(2)?.extract()? },
        "delete" => Action::Delete { bundle: handle()?, why: Why::Acked },
        "ban" => Action::Ban { id: order.get_item(1)?.cast::<Bundle>()?.get().identity() },
        "migrate" => {
            let to = order.get_item(2)?.cast::<Peer>()?.get().id_at(me)?;
            Action::Migrate { bundle: handle()?, to }
        }
        "wake" => Action::Wake(later(order.get_item(1)?.extract()?, now)?),
        other => return Err(mistake(format!("`{other}` is no order"))),
    })
}
