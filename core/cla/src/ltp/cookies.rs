//! Cookies (RFC 5327 2.2): bytes that are in all segments of a session once either end has added them. Cookies of peers
//! are echoed. This engine requests a cookie of its own from peers whose address may be forged: showing it proves that
//! they receive at that address. No state is kept, because the cookie is computed again from address, session and time.

use super::engine::Ltp;
use super::extension::{self, Extensions, tag};
use super::segment::{Data, Segment, SegmentBody, SessionId, View, kind};
use super::sending::blank_event;
use super::span::{ControlSegment, LtpSpan};
use alloc::boxed::Box;
use alloc::vec::Vec;
use bytes::Bytes;
use core::net::{IpAddr, SocketAddr};
use farlink_base::layer::Output;
use farlink_base::{Instant, Sink};
use hmac::{Hmac, Mac};
use sha1::Sha1;

/// Longest cookie that is echoed, bytes.
const COOKIE_MAX: usize = 64;
/// Most cookies of a session, one from each end.
const COOKIES_MAX: usize = 2;
/// Length of this engine's cookies, bytes.
const OURS_BYTES: usize = 16;
/// Unit of the time that goes into this engine's cookies, ns: each cookie is valid in the hour in which it was made,
/// and in the next.
const HOUR_NS: u64 = 3_600_000_000_000;

/// When to request cookies from peers that may have forged their addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskCookies {
    /// Cookies are requested while peers that may have forged their addresses hold at least half of their share of the
    /// sessions.
    Pressed,
    /// Cookies are always requested.
    Always,
    /// Cookies are never requested.
    Never,
}
impl AskCookies {
    /// Names in configuration, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["pressed", "always", "never"];
    /// Variant at an index of [`Self::WORDS`].
    pub(super) fn at(place: u64) -> AskCookies {
        [AskCookies::Pressed, AskCookies::Always, AskCookies::Never][place.min(2) as usize]
    }
}

/// Cookies of one session.
#[derive(PartialEq, Debug)]
pub(super) struct Cookies(Vec<Box<[u8]>>);

impl Cookies {
    /// Number of bytes that the cookies add to a segment.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().map(|cookie| extension::size(cookie.len()) as u64).sum()
    }
    /// Checks the cookies of a segment against those of its session, and records them. All known cookies must be
    /// present, each unchanged or extended, and no others. New cookies are accepted only if the session has none.
    /// Returns whether the segment is acceptable.
    // 5327-2.2-2, 5327-2.2-4, 5327-2.2-5, 5327-2.2-6, 5327-2.2-7, 5327-2.2-8
    pub(super) fn take(had: &mut Option<Box<Cookies>>, shown: &Extensions<'_>) -> bool {
        if shown.is_empty() {
            return had.is_none();
        }
        let shown: Vec<&[u8]> = shown.of(tag::COOKIE).take(COOKIES_MAX + 1).collect();
        let sound = |cookie: &&[u8]| (1..=COOKIE_MAX).contains(&cookie.len());
        if shown.len() > COOKIES_MAX || !shown.iter().all(sound) {
            return false;
        }
        let Some(had) = had else {
            if !shown.is_empty() {
                *had = Some(Box::new(Cookies(shown.into_iter().map(Box::from).collect())));
            }
            return true;
        };
        if shown.len() != had.0.len() {
            return false;
        }
        // With two cookies, either order is allowed.
        let fits = |order: &[usize]| had.0.iter().zip(order).all(|(cookie, at)| shown[*at].starts_with(cookie));
        let orders: [&[usize]; 2] = if shown.len() == 1 { [&[0], &[0]] } else { [&[0, 1], &[1, 0]] };
        let Some(order) = orders.into_iter().find(|order| fits(order)) else { return false };
        for (cookie, at) in had.0.iter_mut().zip(order) {
            if cookie.len() < shown[*at].len() {
                *cookie = Box::from(shown[*at]);
            }
        }
        true
    }
    fn values(&self) -> impl Iterator<Item = (u8, &[u8])> {
        self.0.iter().map(|cookie| (tag::COOKIE, &cookie[..]))
    }
}

/// Adds the cookies of a session to a segment, or to the head of one.
// 5327-2.2-1, 5327-2.2-2
pub(super) fn with_cookies(segment: Bytes, cookies: Option<&Cookies>) -> Bytes {
    match cookies {
        Some(cookies) => extension::dress(&segment, cookies.values(), 0).into(),
        None => segment,
    }
}

/// Adds the cookies of a received segment to its answer; for answers outside a session.
// 5327-2.2-2, 5327-2.2-10
pub(super) fn echoing(segment: Bytes, shown: &Extensions<'_>) -> Bytes {
    if shown.is_empty() {
        return segment;
    }
    let mut cookies = None;
    Cookies::take(&mut cookies, shown);
    with_cookies(segment, cookies.as_deref())
}

impl Ltp {
    /// Whether a segment carries the cookies that its session requires; true if there is no such session.
    // 5327-2.2-8
    pub(super) fn cookies_are_good(&mut self, from: SocketAddr, view: &View<'_>) -> bool {
        // Skip the lookup in the common case.
        if view.header.is_empty() && !self.had_cookies {
            return true;
        }
        let Some(sessions) = self.sessions.made() else { return true };
        let id = view.session;
        let of_ours = matches!(view.kind, kind::REPORT | kind::CANCEL_RECEIVER | kind::CANCEL_SENDER_ACK);
        let (span, cookies) = if of_ours && id.engine == self.config.engine {
            let Some(export) = sessions.exports.get_mut(&id.number) else { return true };
            (export.span, &mut export.cookies)
        } else {
            let Some(import) = sessions.imports.get_mut(&id) else { return true };
            (import.span, &mut import.cookies)
        };
        // A segment from another address is dropped later for that reason, and must not change the cookies.
        let good = !self.spans[span].is_at(from) || Cookies::take(cookies, &view.header);
        self.had_cookies |= cookies.is_some();
        good
    }
    /// Whether peers whose address may be forged must now show a cookie to begin a session.
    pub(super) fn asks_cookies(&self) -> bool {
        match self.config.cookies {
            AskCookies::Never => false,
            AskCookies::Always => true,
            AskCookies::Pressed => self.sessions.guests_press(self.config.sessions),
        }
    }
    /// Cookie of this engine for a session from an address, in a given hour.
    fn cookie(&self, hour: u64, from: SocketAddr, id: SessionId) -> [u8; OURS_BYTES] {
        let mut cookie = [0; OURS_BYTES];
        // The seed is the key, because only this engine knows it.
        let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(&self.config.seed.to_be_bytes()) else { return cookie };
        mac.update(b"farlink LTP cookie");
        match from.ip() {
            IpAddr::V4(ip) => mac.update(&ip.octets()),
            IpAddr::V6(ip) => mac.update(&ip.octets()),
        }
        [self.config.engine, id.engine, id.number, hour].iter().for_each(|part| mac.update(&part.to_be_bytes()));
        cookie.copy_from_slice(&mac.finalize().into_bytes()[..OURS_BYTES]);
        cookie
    }
    /// Whether the first segment of a session has a recent cookie of this engine.
    // 5327-2.2-3
    pub(super) fn shows_cookie(&self, now: Instant, from: SocketAddr, id: SessionId, shown: &Extensions<'_>) -> bool {
        if shown.is_empty() {
            return false;
        }
        let hour = now.0 / HOUR_NS;
        let good = [hour, hour.saturating_sub(1)].map(|hour| self.cookie(hour, from, id));
        shown.of(tag::COOKIE).any(|value| good.iter().any(|cookie| value.starts_with(cookie)))
    }
    /// Asks the sender of a checkpoint for a cookie, by a report without claims: the sender then sends everything
    /// again, with the cookie. The report is at most as long as the segment, so a forged address is sent no more than
    /// was received; if it would be longer, nothing is sent.
    pub(super) fn ask_cookie(
        &mut self,
        now: Instant,
        from: SocketAddr,
        id: SessionId,
        (data, total): (&Data, u64),
        out: &mut impl Sink<Output>,
    ) {
        if !data.is_checkpoint() {
            return;
        }
        let (serial, checkpoint) = (self.first_serial(id), data.checkpoint);
        let body = SegmentBody::Report { serial, checkpoint, lower: 0, upper: data.end(), claims: Vec::new() };
        let cookie = self.cookie(now.0 / HOUR_NS, from, id);
        let cookies = Cookies([Box::from(&cookie[..])].into());
        let bytes = with_cookies(Segment { session: id, body }.emit(), Some(&cookies));
        // A longer answer would amplify the traffic to a forged address.
        if bytes.len() as u64 > total {
            return;
        }
        let control =
            |span: Option<&LtpSpan>| ControlSegment { event: blank_event(span, id, kind::REPORT), bytes, after: None };
        self.reply(None, from, control, out);
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::parse;
    use super::*;

    fn takes(had: &mut Option<Box<Cookies>>, shown: &[&[u8]]) -> bool {
        let bare =
            Segment { session: SessionId { engine: 1, number: 2 }, body: SegmentBody::ReportAck { serial: 9 } }.emit();
        let segment = extension::dress(&bare, shown.iter().map(|value| (tag::COOKIE, *value)), 0);
        Cookies::take(had, &parse(&segment, segment.len() as u64).unwrap().header)
    }

    /// Keeps 5327-2.2-2, 5327-2.2-4, 5327-2.2-8.
    #[test]
    fn known_cookie_is_required() {
        let mut had = None;
        assert!(takes(&mut had, &[]) && had.is_none());
        assert!(takes(&mut had, &[b"abc"]));
        assert!(takes(&mut had, &[b"abc"]) && !takes(&mut had, &[]) && !takes(&mut had, &[b"abd"]));
        assert!(!takes(&mut had, &[b"ab"]) && takes(&mut had, &[b"abcdef"]));
        assert!(!takes(&mut had, &[b"abc"]), "the shorter value is no longer valid");
        assert_eq!(had.as_ref().unwrap().bytes(), 8);
    }

    /// Keeps 5327-2.2-5, 5327-2.2-6, 5327-2.2-7.
    #[test]
    fn late_cookies_are_rejected() {
        let mut had = None;
        assert!(takes(&mut had, &[b"ours", b"theirs"]));
        assert!(takes(&mut had, &[b"theirs", b"ours"]) && takes(&mut had, &[b"ours", b"theirs longer"]));
        assert!(!takes(&mut had, &[b"ours"]) && !takes(&mut had, &[b"ours", b"ours"]));
        assert!(!takes(&mut had, &[b"theirs", b"ours"]), "the cookie was extended");
        assert!(!takes(&mut had, &[b"ours", b"theirs longer", b"third"]));
        let mut one = None;
        assert!(takes(&mut one, &[b"ours"]) && !takes(&mut one, &[b"ours", b"late"]));
    }

    #[test]
    fn stored_cookies_are_bounded() {
        for shown in [&[&[7u8; 65][..]][..], &[b""], &[b"a", b"b", b"c"], &[b"a", &[7; 65]]] {
            let mut had = None;
            assert!(!takes(&mut had, shown) && had.is_none());
        }
        let mut had = None;
        assert!(takes(&mut had, &[&[7; 64]]) && !takes(&mut had, &[&[7; 65]]));
        let bare = Bytes::from_static(&[9, 1, 2, 0, 9]);
        assert_eq!(with_cookies(bare.clone(), None), bare);
        assert_eq!(with_cookies(bare, had.as_deref()).len(), 5 + 66);
    }

    #[test]
    fn other_extensions_are_no_cookies() {
        let bare = [9, 1, 2, 0, 9];
        let other = extension::dress(&bare, [(0xc0, &b"private"[..])].into_iter(), 0);
        let view = parse(&other, other.len() as u64).unwrap();
        let mut had = None;
        assert!(Cookies::take(&mut had, &view.header) && had.is_none());
        assert_eq!(echoing(Bytes::copy_from_slice(&bare), &view.header), bare[..]);
        assert!(takes(&mut had, &[b"a"]) && !Cookies::take(&mut had, &view.header));
    }
}
