//! The stack: a work list joins agent, store and layers. What one machine pushes becomes work for
//! another or an output; nothing calls anything by recursion.

use crate::arrivals::{Arrivals, Arrived};
use crate::build;
use crate::config::Config;
use crate::io::{Input, Output};
use crate::parts::{Layer, Store};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use farlink_base::layer;
use farlink_base::store;
use farlink_base::{Accel, ConfigError, Event, EventClass, Instant, LayerId, LinkId, Payload, Sink, StreamId};
use farlink_bpa::app::{BundleStatus, Status};
use farlink_bpa::{Agent, OfferToken};
use farlink_bundle::{Bundle, EndpointId, Profile, decode, decode_parts};
use farlink_routing::ContactPlan;

/// One step of work.
enum Work {
    Layer(LayerId, layer::Input),
    Agent(farlink_bpa::Input),
    Store(store::Input),
}

/// One node, driven by whoever owns clocks, sockets and disks.
pub struct Stack {
    agent: Agent,
    store: Store,
    layers: Vec<Layer>,
    /// Layer of each configured link.
    link_layer: Vec<LayerId>,
    streams: BTreeMap<StreamId, LayerId>,
    arrivals: Arrivals,
    work: VecDeque<Work>,
    profile: Profile,
    accel: Accel,
    started: bool,
}

/// The machines other than the one that is pushing.
struct Joint<'a, S> {
    work: &'a mut VecDeque<Work>,
    out: &'a mut S,
    link_layer: &'a [LayerId],
    layers: usize,
    accel: &'a Accel,
}

fn layer_of(link_layer: &[LayerId], link: LinkId) -> LayerId {
    if link.is_dynamic() {
        return LayerId(((link.0 >> 24) & 0x7f) as u16);
    }
    link_layer.get(link.0 as usize).copied().unwrap_or_default()
}

impl<S: Sink<Output>> Sink<farlink_bpa::Output> for Joint<'_, S> {
    fn push(&mut self, value: farlink_bpa::Output) {
        use farlink_bpa::Output as O;
        match value {
            O::Verdict { token: OfferToken { layer, ticket }, result } => {
                let input = match result {
                    Ok(()) => layer::Input::Accepted { ticket },
                    Err(reason) => layer::Input::Refused { ticket, reason },
                };
                self.work.push_back(Work::Layer(layer, input));
            }
            O::Link { link, state } => {
                let layer = layer_of(self.link_layer, link);
                self.work.push_back(Work::Layer(layer, layer::Input::Link { link, state }));
            }
            O::Send { link, id, bundle, reliable } => {
                let layer = layer_of(self.link_layer, link);
                let bundle = bundle.encode(self.accel).into_payload();
                self.work.push_back(Work::Layer(layer, layer::Input::Send { link, id, bundle, reliable }));
            }
            O::Put { bundle, index, content } => {
                let encoded = content.encode(self.accel);
                let (head, payload, tail) = (encoded.head, encoded.payload, encoded.tail);
                self.work.push_back(Work::Store(store::Input::Put { bundle, index, head, payload, tail }));
            }
            O::Store(input) => self.work.push_back(Work::Store(input)),
            O::App(output) => self.out.push(Output::App(output)),
            O::Event(event) => self.out.push(Output::Event(event)),
            O::Shutdown => {
                for layer in 0..self.layers {
                    self.work.push_back(Work::Layer(LayerId(layer as u16), layer::Input::Shutdown));
                }
            }
        }
    }
    fn wants(&self, class: EventClass) -> bool {
        self.out.wants(class)
    }
}

impl<S: Sink<Output>> Sink<store::Output> for Joint<'_, S> {
    fn push(&mut self, value: store::Output) {
        match value {
            store::Output::Disk(op) => self.out.push(Output::Disk(op)),
            store::Output::Event(event) => self.out.push(Output::Event(event)),
            other => self.work.push_back(Work::Agent(farlink_bpa::Input::Store(other))),
        }
    }
    fn wants(&self, class: EventClass) -> bool {
        self.out.wants(class)
    }
}

/// A layer's outputs.
struct LayerJoint<'a, S> {
    layer: LayerId,
    work: &'a mut VecDeque<Work>,
    out: &'a mut S,
    streams: &'a mut BTreeMap<StreamId, LayerId>,
    arrivals: &'a mut Arrivals,
    profile: Profile,
    accel: &'a Accel,
}

impl<S: Sink<Output>> LayerJoint<'_, S> {
    fn offer(&mut self, token: OfferToken, arrived: Arrived) {
        match arrived {
            Arrived::Partly => {}
            Arrived::Refused(reason) => {
                let input = layer::Input::Refused { ticket: token.ticket, reason };
                self.work.push_back(Work::Layer(token.layer, input));
            }
            Arrived::Whole(link, rope) => {
                let input = match decode(&rope, self.profile, self.accel) {
                    Ok(bundle) => farlink_bpa::Input::Received {
                        link,
                        token: Some(token),
                        bundle: Box::new(bundle),
                        size: rope.len(),
                    },
                    Err(error) => farlink_bpa::Input::Malformed { link, token, error },
                };
                self.work.push_back(Work::Agent(input));
            }
        }
    }
}

impl<S: Sink<Output>> Sink<layer::Output> for LayerJoint<'_, S> {
    fn push(&mut self, value: layer::Output) {
        use layer::Output as O;
        let layer = self.layer;
        let agent = match value {
            O::Datagrams { to, train } => return self.out.push(Output::Datagrams { layer, to, train }),
            O::StreamConnect { stream, link } => {
                self.streams.insert(stream, layer);
                return self.out.push(Output::StreamConnect { layer, stream, link });
            }
            O::StreamWrite { stream, data } => return self.out.push(Output::StreamWrite { stream, data }),
            O::StreamClose { stream, abort } => {
                self.streams.remove(&stream);
                return self.out.push(Output::StreamClose { stream, abort });
            }
            O::PauseRead { stream } => return self.out.push(Output::PauseRead { stream }),
            O::ResumeRead { stream } => return self.out.push(Output::ResumeRead { stream }),
            O::Event(event) => return self.out.push(Output::Event(event)),
            O::Offer { ticket, link, part, last, total, reliable: _ } => {
                let token = OfferToken { layer, ticket };
                let arrived = self.arrivals.part(token, link, part, last, total);
                return self.offer(token, arrived);
            }
            O::OfferAborted { ticket } => return self.arrivals.abort(OfferToken { layer, ticket }),
            O::Sent { id, .. } => farlink_bpa::Input::Sent { id },
            O::SendFailed { id, refused, .. } => farlink_bpa::Input::SendFailed { id, refused },
            O::Ready { link, ready } => farlink_bpa::Input::Ready { link, ready },
            O::PeerUp { link, node_id, node } => farlink_bpa::Input::PeerUp { link, node_id, node },
            O::PeerDown { link } => farlink_bpa::Input::PeerDown { link },
        };
        self.work.push_back(Work::Agent(agent));
    }
    fn wants(&self, class: EventClass) -> bool {
        self.out.wants(class)
    }
}

impl Stack {
    /// A node as configured. It begins with the first [`Input::Clock`].
    ///
    /// # Errors
    /// Names the key that cannot be used and what to write instead.
    pub fn new(config: Config) -> Result<Stack, ConfigError> {
        build::peers_named(&config)?;
        let agent = build::agent(&config)?;
        let layers = build::layers(&config)?;
        Ok(Stack {
            agent,
            store: build::store(&config),
            layers,
            link_layer: config.links.iter().map(|l| LayerId(l.layer as u16)).collect(),
            streams: BTreeMap::new(),
            arrivals: Arrivals::new(config.limits.arriving_bytes, config.limits.bundle_bytes),
            work: VecDeque::new(),
            profile: config.profile,
            accel: config.accel,
            started: false,
        })
    }

    /// When to call with [`Input::Wake`] at the latest.
    pub fn next_timeout(&self) -> Option<Instant> {
        let machines = self.layers.iter().filter_map(Layer::next_timeout);
        machines.chain(self.agent.next_timeout()).chain(self.store.next_timeout()).min()
    }

    /// Takes one input at `now`; pushes what follows from it.
    pub fn handle<S: Sink<Output>>(&mut self, now: Instant, input: Input, out: &mut S) {
        self.take(now, input);
        while let Some(work) = self.work.pop_front() {
            self.step(now, work, out);
        }
    }

    fn take(&mut self, now: Instant, input: Input) {
        use farlink_bpa::Input as A;
        let agent = match input {
            Input::Wake => return self.wake(now),
            Input::Clock(clock) => {
                self.work.push_back(Work::Agent(A::Clock(clock)));
                if !self.started {
                    self.started = true;
                    self.work.push_back(Work::Store(store::Input::Open));
                }
                return;
            }
            Input::Datagrams { layer, from, train } => {
                return self.work.push_back(Work::Layer(layer, layer::Input::Datagrams { from, train }));
            }
            Input::StreamOpened { layer, stream, from } => {
                self.streams.insert(stream, layer);
                return self.work.push_back(Work::Layer(layer, layer::Input::StreamOpened { stream, from }));
            }
            Input::StreamData { stream, data } => {
                return self.stream(stream, |stream| layer::Input::StreamData { stream, data });
            }
            Input::StreamWritable { stream, room } => {
                return self.stream(stream, |stream| layer::Input::StreamWritable { stream, room });
            }
            Input::StreamClosed { stream, error } => {
                self.stream(stream, |stream| layer::Input::StreamClosed { stream, error });
                self.streams.remove(&stream);
                return;
            }
            Input::DiskDone(done) => return self.work.push_back(Work::Store(store::Input::DiskDone(done))),
            Input::LinkUp { link } => A::Carrier { link, up: true },
            Input::LinkDown { link } => A::Carrier { link, up: false },
            Input::App(input) => A::App(input),
            Input::Admin(input) => A::Admin(input),
            Input::Message { link, bundle } => {
                let size = bundle.encoded_len();
                A::Received { link, token: None, bundle: Box::new(Bundle::clone(&bundle)), size }
            }
        };
        self.work.push_back(Work::Agent(agent));
    }

    /// Input for the layer that owns a stream; streams the layer has closed are no one's.
    fn stream(&mut self, stream: StreamId, input: impl FnOnce(StreamId) -> layer::Input) {
        if let Some(layer) = self.streams.get(&stream) {
            self.work.push_back(Work::Layer(*layer, input(stream)));
        }
    }

    fn wake(&mut self, now: Instant) {
        for (index, layer) in self.layers.iter().enumerate() {
            if layer.next_timeout().is_some_and(|t| t <= now) {
                self.work.push_back(Work::Layer(LayerId(index as u16), layer::Input::Wake));
            }
        }
        if self.store.next_timeout().is_some_and(|t| t <= now) {
            self.work.push_back(Work::Store(store::Input::Wake));
        }
        if self.agent.next_timeout().is_some_and(|t| t <= now) {
            self.work.push_back(Work::Agent(farlink_bpa::Input::Wake));
        }
    }

    fn step<S: Sink<Output>>(&mut self, now: Instant, work: Work, out: &mut S) {
        match work {
            Work::Layer(id, input) => self.step_layer(now, id, input, out),
            Work::Agent(farlink_bpa::Input::Store(store::Output::Recovered { bundle, index, head, payload, tail })) => {
                self.recover(now, bundle, &index, (head, payload, tail), out);
            }
            Work::Agent(input) => {
                let (agent, mut joint) = self.agent_joint(out);
                agent.handle(now, input, &mut joint);
            }
            Work::Store(input) => {
                let mut joint = Joint {
                    work: &mut self.work,
                    out,
                    link_layer: &self.link_layer,
                    layers: self.layers.len(),
                    accel: &self.accel,
                };
                self.store.handle(now, input, &mut joint);
            }
        }
    }

    fn agent_joint<'a, S>(&'a mut self, out: &'a mut S) -> (&'a mut Agent, Joint<'a, S>) {
        let joint = Joint {
            work: &mut self.work,
            out,
            link_layer: &self.link_layer,
            layers: self.layers.len(),
            accel: &self.accel,
        };
        (&mut self.agent, joint)
    }

    fn step_layer<S: Sink<Output>>(&mut self, now: Instant, id: LayerId, input: layer::Input, out: &mut S) {
        let Some(layer) = self.layers.get_mut(usize::from(id.0)) else { return };
        if let (Layer::Message, layer::Input::Send { link, id, bundle, .. }) = (&*layer, &input) {
            return self.send_message(*link, *id, bundle, out);
        }
        let mut joint = LayerJoint {
            layer: id,
            work: &mut self.work,
            out,
            streams: &mut self.streams,
            arrivals: &mut self.arrivals,
            profile: self.profile,
            accel: &self.accel,
        };
        layer.handle(now, input, &mut joint);
    }

    /// Message-level simulation: the bundle crosses whole and counts as confirmed when it leaves.
    fn send_message<S: Sink<Output>>(&mut self, link: LinkId, id: layer::SendId, bundle: &Payload, out: &mut S) {
        if let Ok(bundle) = decode(bundle, self.profile, &self.accel) {
            out.push(Output::Message { link, bundle: Arc::new(bundle) });
        }
        self.work.push_back(Work::Agent(farlink_bpa::Input::Sent { id }));
    }

    fn recover<S: Sink<Output>>(
        &mut self,
        now: Instant,
        handle: farlink_base::BundleHandle,
        index: &store::IndexEntry,
        (head, payload, tail): (farlink_base::Bytes, Payload, farlink_base::Bytes),
        out: &mut S,
    ) {
        let size = head.len() as u64 + payload.len() + tail.len() as u64;
        match decode_parts(&head, payload, &tail, Profile::Permissive, &self.accel) {
            Ok(bundle) => {
                let (agent, mut joint) = self.agent_joint(out);
                agent.on_recovered(now, handle, index, Box::new(bundle), size, &mut joint);
            }
            Err(error) => {
                out.push(Output::Event(Event::Malformed { link: None, offset: error.offset, reason: error.reason }));
                self.work.push_back(Work::Store(store::Input::Delete { bundle: handle, remember: None }));
            }
        }
    }

    /// A snapshot for operators.
    pub fn status(&self, now: Instant) -> Status {
        self.agent.status(now)
    }
    /// The first `limit` held bundles and why each is still here.
    pub fn bundles(&self, now: Instant, limit: usize) -> Vec<BundleStatus> {
        self.agent.bundles(now, limit)
    }
    /// Static routes: pattern and next hop.
    pub fn routes(&self) -> &[(String, EndpointId)] {
        self.agent.routes()
    }
    /// The contact plan in force.
    pub fn plan(&self) -> Option<&Arc<ContactPlan>> {
        self.agent.plan()
    }
    /// Fill of the store.
    pub fn store_usage(&self) -> store::Usage {
        self.store.usage()
    }
    /// The administrative endpoint of a node named in an event.
    pub fn node_name(&self, node: farlink_base::NodeId) -> EndpointId {
        self.agent.node_name(node)
    }
}
