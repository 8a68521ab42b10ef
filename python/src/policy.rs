//! Common part of routers and controls written in Python: construction, questions, orders, exceptions.

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

/// First exception of any policy of a run; it ends the run.
#[derive(Default, Debug)]
pub struct Fault {
    error: Mutex<Option<PyErr>>,
    /// Flag at which the simulator stops; it is set together with the exception.
    pub stop: Arc<AtomicBool>,
    raised: AtomicBool,
}
impl Fault {
    fn set(&self, error: PyErr) {
        self.raised.store(true, Ordering::Relaxed);
        self.stop.store(true, Ordering::Relaxed);
        // Keeps the first exception, of which later ones are usually consequences.
        self.error.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
    /// Takes the exception, if there is one.
    pub fn take(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// State that all policies of a run share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Names of the scenario's nodes, by their numbers.
    pub names: Arc<Names>,
    /// First exception of any policy.
    pub fault: Arc<Fault>,
}

/// Methods of policies that may give orders to the engine.
const TAKE_ORDERS: [&str; 2] = ["on", "route"];

/// Maximum number of questions to one policy at one simulated instant; more mean that its answers cause the questions.
const AT_ONCE_MAX: u64 = 1_000_000;

/// Masks of events, by the words of a policy's attribute `hears`.
const HEARS: [(&str, EventMask); 6] = [
    ("peers", EventMask::PEERS),
    ("links", EventMask::LINKS),
    ("kept", EventMask::KEPT),
    ("handed", EventMask::HANDED),
    ("outcomes", EventMask::OUTCOMES),
    ("gone", EventMask::GONE),
];

/// Python object of a policy for one node.
#[derive(Debug)]
pub struct Policy {
    object: Py<PyAny>,
    shared: Shared,
    methods: Vec<String>,
    /// Events that the policy wants to receive.
    pub hears: EventMask,
    /// Simulated time of the last question, and the number of questions at that time.
    asked: Cell<(Instant, u64)>,
}

impl Policy {
    /// Creates the object by calling `maker`, whose result must be an instance of the class `class` of
    /// `farlink.policies`.
    ///
    /// # Errors
    /// If the call raises an exception, returns no such policy, or `hears` has an unknown word.
    pub fn new(maker: &Bound<'_, PyAny>, class: &str, shared: Shared) -> PyResult<Policy> {
        let object = maker.call0()?;
        let base = maker.py().import("farlink.policies")?.getattr(class)?;
        if !object.is_instance(&base)? {
            let found = object.get_type().name()?.to_string();
            return Err(mistake(format!(
                "a {found} is no farlink.{class}\nhint: give a subclass of farlink.{class}, or what makes an object of one"
            )));
        }
        // Methods that the subclass overrides; the Python side finds them when the class is created.
        let methods = object.getattr("_asked")?.extract()?;
        let mut hears = EventMask::NOTHING;
        let wanted = object.getattr("hears")?;
        // A single word is a string, which would also convert to a sequence of letters.
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

    /// Value of a flag of the class.
    ///
    /// # Errors
    /// If the class lacks the flag, or the flag has no truth value.
    pub fn flag(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        self.object.bind(py).getattr(name)?.is_truthy()
    }

    /// Calls a method with `call` and returns its answer; `otherwise` if the class lacks the method, or after any
    /// exception.
    pub fn ask<T>(
        &self,
        method: &str,
        node: &book::Node<'_>,
        otherwise: T,
        call: impl FnOnce(&Asked<'_, '_>) -> PyResult<T>,
    ) -> T {
        // Methods that the class lacks do not call Python: its lock and the snapshot would cost microseconds.
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

    /// Counts a question at the current simulated time.
    ///
    /// # Errors
    /// If there were too many questions at this time.
    fn count(&self, method: &str, node: &book::Node<'_>) -> PyResult<()> {
        // Simulated time stands still in a loop of orders and questions, so the count finds such a loop.
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

    /// Refuses orders from a method that takes none.
    ///
    /// # Errors
    /// If the method gave an order.
    fn without_orders(&self, method: &str, py: Python<'_>) -> PyResult<()> {
        // The engine would carry out orders of such a method at another time, if ever.
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

    /// Passes an event to the policy's method `on`, and takes the orders that this gives.
    pub fn tell(&self, node: &book::Node<'_>, news: &book::PolicyEvent<'_>, out: &mut Actions) {
        self.ask("on", node, (), |asked| {
            let news = PolicyEvent::of(asked.node.py(), asked.names, node, news)?;
            asked.object.call_method1("on", (&asked.node, news))?;
            asked.orders(node.now, out)
        });
    }
}

/// Call of a policy in progress.
pub struct Asked<'a, 'py> {
    /// Python object of the policy.
    pub object: &'a Bound<'py, PyAny>,
    /// Snapshot of the node.
    pub node: Bound<'py, Node>,
    /// Names of the scenario's nodes.
    pub names: &'a Arc<Names>,
}

impl Asked<'_, '_> {
    /// Takes a snapshot of a bundle.
    ///
    /// # Errors
    /// If Python runs out of memory.
    pub fn bundle(&self, node: &book::Node<'_>, held: &book::Held) -> PyResult<Py<Bundle>> {
        Py::new(self.node.py(), Bundle::of(self.names, node, held))
    }
    /// Takes a snapshot of a neighbour.
    ///
    /// # Errors
    /// If Python runs out of memory.
    pub fn peer(&self, peer: &book::Peer) -> PyResult<Py<Peer>> {
        Py::new(self.node.py(), Peer::of(self.names, self.node.get().id(), peer))
    }
    /// Moves the orders given so far to `out`.
    ///
    /// # Errors
    /// If the list holds anything but orders.
    pub fn orders(&self, now: Instant, out: &mut Actions) -> PyResult<()> {
        let orders = self.object.getattr("_orders")?;
        let list = orders.cast::<PyList>()?;
        let me = self.node.get().id();
        for order in list.iter() {
            out.push(order_of(me, now, order.cast::<PyTuple>()?)?);
        }
        // The policy object keeps the list for the next call.
        list.call_method0("clear")?;
        Ok(())
    }
}

// Converts an order, which `farlink.policies` appends as a tuple of a word and its arguments.
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
