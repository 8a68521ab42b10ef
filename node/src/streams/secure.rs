//! TLS on streams: begun when a layer asks, records sealed and opened at the edge of the queue.

use super::Streams;
use crate::log::more;
use crate::tls::{self, Credentials};
use farlink_base::{BytesMut, LayerId, Payload, StreamId, socket};
use farlink_stack::Input;
use std::collections::VecDeque;

impl Streams {
    /// What layers show and whom they believe where their sessions are secured.
    pub fn set_credentials(&mut self, layer: LayerId, credentials: Credentials) {
        self.credentials.insert(layer, credentials);
    }

    /// Begins TLS on a stream: from now on its bytes are inside records. A client asks for `name`, or for the
    /// host of the link's address.
    // 9174-4.4-1, 9174-4.4.3-3, 9174-4.4.4.2-2
    pub fn start_tls(&mut self, id: StreamId, server: bool, name: Option<String>, inputs: &mut VecDeque<Input>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let host = || {
            let address = stream.link.and_then(|link| self.addresses.get(&link));
            address.map(|(_, address)| host_of(address)).unwrap_or_default()
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
                self.seal(id, inputs);
            }
            Err(why) => self.insecure(id, &why, inputs),
        }
    }
    /// TLS ends a stream.
    // 9174-4.4.3-9
    pub(super) fn insecure(&mut self, id: StreamId, why: &str, inputs: &mut VecDeque<Input>) {
        self.warn(id, why);
        let Some(stream) = self.streams.get_mut(&id) else { return };
        // The peer is told, as far as its host takes it at once.
        if let Some(records) = stream.tls.as_mut().and_then(|tls| tls.take().ok()).flatten() {
            stream.push(records);
            let _ = stream.write_out();
        }
        self.fail(id, inputs);
    }
    /// Says why a peer is not believed, now and then.
    fn warn(&mut self, id: StreamId, why: &str) {
        let peer = self.streams.get(&id).and_then(|stream| stream.peer);
        let from = peer.map_or_else(|| "a peer".into(), |peer| peer.to_string());
        let now = std::time::Instant::now();
        if let Some(times) = peer.map_or(Some(0), |peer| self.insecurities.say(peer.ip(), now)) {
            tracing::warn!("TLS with {from}: {why}{}", more(times));
        }
    }
    /// Queues what TLS has to say.
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
    /// Opens records that came; what was inside is the layer's.
    pub(super) fn unseal(&mut self, id: StreamId, records: &[u8], inputs: &mut VecDeque<Input>) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        let Some(session) = stream.tls.as_mut() else { return };
        let (layer, mut plain) = (stream.layer, BytesMut::with_capacity(records.len()));
        let heard = match session.hear(records, &mut plain) {
            Ok(heard) => heard,
            Err(why) => return self.insecure(id, &why, inputs),
        };
        if let Some(proven) = heard.proven {
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
        self.seal(id, inputs);
        if heard.ended
            && let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.peer_closed)
        {
            (stream.peer_closed, stream.readable) = (true, false);
            inputs.push_back(Input::Socket(layer, socket::Input::Closed { stream: id, error: false }));
        }
    }
}

/// The host of a `host:port`, an IPv6 address without its brackets.
fn host_of(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']').to_string()
}
