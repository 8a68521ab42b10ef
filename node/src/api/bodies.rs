//! Memory for request bodies, shared by all connections of the API.

use super::{BODY_MAX, Problem};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Length up to which bodies are accepted even if the memory is used up, so that long unfinished ones do not lock out
/// commands. Short bodies take at most 8 MiB in all: two listeners have 64 connections each.
const SHORT: u64 = 64 << 10;

/// Counter of the bytes of request bodies that are not answered yet, with its bound.
pub struct BodyRoom {
    used: AtomicU64,
    most: u64,
}
impl BodyRoom {
    /// Creates a count of zero with the bound `most`.
    pub fn new(most: u64) -> Arc<BodyRoom> {
        Arc::new(BodyRoom { used: AtomicU64::new(0), most })
    }
}

/// Bytes of one body within a [`BodyRoom`]; returned on drop, however the request ends.
struct BodyPart {
    room: Arc<BodyRoom>,
    bytes: u64,
}
impl BodyPart {
    /// Counts more bytes of the body; false, and nothing is counted, if there is no room.
    fn grow(&mut self, bytes: u64) -> bool {
        let (most, short) = (self.room.most, self.bytes + bytes <= SHORT);
        let more = |used: u64| Some(used + bytes).filter(|used| short || *used <= most);
        let fits = self.room.used.fetch_update(Relaxed, Relaxed, more).is_ok();
        self.bytes += if fits { bytes } else { 0 };
        fits
    }
}
impl Drop for BodyPart {
    fn drop(&mut self) {
        self.room.used.fetch_sub(self.bytes, Relaxed);
    }
}

/// Middleware that reads the whole body of a request and counts its bytes until the answer is made. Refuses a body that
/// is too long or finds no room.
pub async fn read(State(room): State<Arc<BodyRoom>>, request: Request, next: Next) -> Response {
    let (head, body) = request.into_parts();
    let (mut part, mut whole, mut chunks) = (BodyPart { room, bytes: 0 }, Vec::new(), body.into_data_stream());
    // The length is counted as chunks arrive: a `Content-Length` may be wrong or absent.
    while let Some(chunk) = chunks.next().await {
        let Ok(chunk) = chunk else {
            return Problem(StatusCode::BAD_REQUEST, "the body ended early".into()).into_response();
        };
        if whole.len() + chunk.len() > BODY_MAX {
            let why = format!("a body has at most {BODY_MAX} bytes");
            return Problem(StatusCode::PAYLOAD_TOO_LARGE, why).into_response();
        }
        if !part.grow(chunk.len() as u64) {
            return full(&part.room).into_response();
        }
        whole.extend_from_slice(&chunk);
    }
    next.run(Request::from_parts(head, Body::from(whole))).await
}

fn full(room: &BodyRoom) -> Problem {
    let why = format!(
        "bodies of requests may take {} bytes of memory together, and there is no room for this one\n\
         hint: try again when others have ended, send it in parts, or raise `[limits] memory`",
        room.most
    );
    Problem(StatusCode::SERVICE_UNAVAILABLE, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_share_bound_but_short_ones_fit() {
        let room = BodyRoom::new(1 << 20);
        let part = || BodyPart { room: room.clone(), bytes: 0 };
        let (mut first, mut second, mut short) = (part(), part(), part());
        assert!(first.grow(SHORT) && first.grow((1 << 20) - SHORT));
        assert!(!second.grow(SHORT + 1) && short.grow(SHORT) && !short.grow(1));
        drop(first);
        assert!(second.grow(SHORT + 1));
        drop((second, short));
        assert_eq!(room.used.load(Relaxed), 0);
    }
}
