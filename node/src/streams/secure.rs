//! TLS on streams: started by a layer; records are sealed and opened next to the queue.

use super::Streams;
use crate::faults::{self, RefusedPeer};
use crate::log::more;
use crate::tls::{self, Credentials};
use farlink_base::{BytesMut, Instant, LayerId, LinkId, NodeId, Payload, StreamId, socket};
use farlink_stack::Input;
use std::collections::VecDeque;
use std::net::IpAddr;

impl Streams {
    /// Sets the credentials of a layer's secured sessions.
    pub fn set_credentials(&mut self, layer: LayerId, credentials: Credentials) {
        self.credentials.insert(layer, credentials);
    }

    /// Starts TLS on a stream. A client asks for `name`, or for the host of the link's address.
    // 9174-4.4-1, 9174-4.4.3-3, 9174-4.4.4.2-2
    pub fn start_tls(&mut self, id: StreamId, server: bool, name: Option<String>, inputs: &mut VecDeque<Input>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let host = || {
            let address = stream.link.and_then(|link| self.addresses.get(&link));
            address.map(|(_, address)| host_of(address).to_string()).unwrap_or_default()
        };
        let session = match self.credentials.get(&stream.layer) {
            None => Err("this node has none\nhint: set `certificate`, `key` and `authorities` of its [layer]".into()),
            Some(credentials) if server => match stream.peer {
                Some(peer) => tls::Session::server(credentials, peer.ip()),
                None => Err("nobody is there yet".into()),
            },
            Some(credentials) => tls::Session::client(credentials, &name.unwrap_or_else(host)),
        };
        match session {
            Ok(session) => {
                stream.tls = Some(Box::new(session));
                // A client has its first record to send at once.
                self.seal(id, inputs);
            }
            Err(why) => self.insecure(id, &why, inputs),
        }
    }
    /// Ends a stream for a TLS error.
    // 9174-4.4.3-9
    pub(super) fn insecure(&mut self, id: StreamId, why: &str, inputs: &mut VecDeque<Input>) {
        self.warn(id, why);
        let Some(stream) = self.streams.get_mut(&id) else { return };
        // Send the alert, as far as the kernel takes it at once.
        if let Some(records) = stream.tls.as_mut().and_then(|tls| tls.take().ok()).flatten() {
            stream.push(records);
            let _ = stream.write_out();
        }
        self.fail(id, inputs);
    }
    /// Logs why a peer is not trusted, with a limited rate.
    fn warn(&mut self, id: StreamId, why: &str) {
        let peer = self.streams.get(&id).and_then(|stream| stream.peer);
        let from = peer.map_or_else(|| "a peer".into(), |peer| peer.to_string());
        let link = self.link_of(id);
        self.faults.note(link, crate::clock::now(), &format!("TLS with {from}: {why}"));
        let now = std::time::Instant::now();
        if let Some(times) = peer.map_or(Some(0), |peer| self.insecurities.say(peer.ip(), now)) {
            let on = self.faults.of(link);
            tracing::warn!("TLS with {from}{on}: {why}{}", more(times));
        }
    }
    /// Link of a stream: the one it was opened for, or, if the peer opened it, the only one of its layer to that host.
    pub(crate) fn link_of(&self, id: StreamId) -> Option<LinkId> {
        let stream = self.streams.get(&id)?;
        let only = |host: IpAddr| {
            let ends = [LinkId(0), LinkId(u32::MAX)].map(|link| (stream.layer, host, link));
            let mut links = self.hosts.range(ends[0]..=ends[1]);
            links.next().filter(|_| links.next().is_none()).map(|(_, _, link)| *link)
        };
        stream.link.or_else(|| only(stream.peer?.ip()))
    }
    /// Notes why a session was refused, and returns the end of its log line, if the operator can do something about it.
    pub(crate) fn refused(
        &mut self,
        id: StreamId,
        link: Option<LinkId>,
        claims: Option<NodeId>,
        reason: &str,
        now: Instant,
    ) -> Option<Box<str>> {
        let link = link.or_else(|| self.link_of(id));
        let stream = self.streams.get(&id)?;
        let credentials = self.credentials.get(&stream.layer);
        let shown = credentials.map(Credentials::described).unwrap_or_default();
        let certified = stream.tls.as_ref().and_then(|tls| tls.proven());
        let about = faults::explain(reason, RefusedPeer { claims, certified, shown: &shown });
        let from = stream.peer.map_or_else(String::new, |peer| format!(" with {peer}"));
        let (what, hint) = about.as_deref().and_then(|about| about.split_once('\n')).unwrap_or_default();
        self.faults.note(link, now, &format!("{reason}{what}"));
        about.as_ref().map(|_| format!("{from}{}{what}\n{hint}", self.faults.of(link)).into())
    }
    /// Queues records that TLS wants to send.
    pub(super) fn seal(&mut self, id: StreamId, inputs: &mut VecDeque<Input>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        match stream.tls.as_mut().map(|tls| tls.take()) {
            Some(Ok(Some(records))) => {
                stream.push(records);
                self.mark_dirty(id);
            }
            Some(Err(why)) => self.insecure(id, &why, inputs),
            Some(Ok(None)) | None => {}
        }
    }
    /// Opens received records and passes their contents to the layer.
    pub(super) fn unseal(&mut self, id: StreamId, records: &[u8], inputs: &mut VecDeque<Input>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let Some(session) = stream.tls.as_mut() else { return };
        let (layer, mut plain) = (stream.layer, BytesMut::with_capacity(records.len()));
        let heard = match session.receive(records, &mut plain) {
            Ok(heard) => heard,
            Err(why) => return self.insecure(id, &why, inputs),
        };
        if let Some(proven) = heard.proven {
            // A contradiction is logged here, but the layer decides whether to continue.
            let contradicts = heard.contradicts.is_some();
            if let Some(why) = heard.contradicts {
                self.warn(id, &why);
            }
            inputs.push_back(Input::Socket(layer, socket::Input::Secured { stream: id, proven, contradicts }));
        }
        if !plain.is_empty() {
            let data = Payload::from(plain.freeze());
            inputs.push_back(Input::Socket(layer, socket::Input::Data { stream: id, data }));
        }
        // Handshake and alerts may have produced records.
        self.seal(id, inputs);
        if heard.ended
            && let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.peer_closed)
        // After a close_notify, further bytes are not authenticated and are not read.
        {
            (stream.peer_closed, stream.readable) = (true, false);
            inputs.push_back(Input::Socket(layer, socket::Input::Closed { stream: id, error: false }));
        }
    }
}

/// Host of `host:port`, without the brackets of an IPv6 address.
pub(super) fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}
