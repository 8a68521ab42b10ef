//! Authentication of segments (RFC 5327 2.1). If a link requires it, every segment names ciphersuite and key in its
//! header, and ends with a keyed hash over all of the segment.

use super::engine::Ltp;
use super::extension::{self, Extensions, tag};
use super::segment::{View, kind};
use alloc::vec::Vec;
use core::net::SocketAddr;
use farlink_base::Payload;
use farlink_base::security::Secret;
use hmac::{Hmac, Mac};
use sha1::Sha1;

/// Ciphersuite numbers (RFC 5327 2.1).
pub mod suite {
    /// HMAC-SHA1 truncated to 80 bits.
    pub const HMAC_SHA1_80: u8 = 0;
    /// RSA signature with SHA-256; not supported.
    pub const RSA_SHA256: u8 = 1;
    /// HMAC-SHA1-80 with a key that the RFC publishes: a strong checksum, not authentication.
    pub const NULL: u8 = 255;
}

/// Length of a hash, truncated as the ciphersuite requires, bytes.
const HASH_BYTES: usize = 10;
/// Longest name of a key on the wire, bytes.
pub const KEY_ID_MAX: usize = 32;
/// Most generations of a key. A segment that names no key is verified with each of them.
pub const GENERATIONS_MAX: usize = 8;
/// Key of [`suite::NULL`], which the RFC publishes, so that anyone can compute a valid hash.
// 5327-2.1-12
const NULL_KEY: [u8; 20] = [
    0xc3, 0x7b, 0x7e, 0x64, 0x92, 0x58, 0x43, 0x40, 0xbe, 0xd1, 0x22, 0x07, 0x80, 0x89, 0x41, 0x15, 0x50, 0x68, 0xf7,
    0x38,
];

/// One generation of the key shared by the two ends of a link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkKey {
    /// Name of the key in segments, at most [`KEY_ID_MAX`] bytes; empty: segments name no key.
    pub id: Vec<u8>,
    /// Secret key.
    pub secret: Secret,
}

/// Authentication of a link's segments.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub enum Authentication {
    /// Segments are sent without authentication; authentication in the peer's segments is ignored.
    #[default]
    None,
    /// HMAC-SHA1-80 with the key that RFC 5327 publishes: detects damage, but anyone can compute the hash.
    Null,
    /// HMAC-SHA1-80 with these keys, newest first: the newest signs, each of them verifies. Without keys no segment is
    /// accepted.
    HmacSha1(Vec<LinkKey>),
}
impl Authentication {
    /// Names in configuration, in the order of the variants.
    pub const WORDS: &'static [&'static str] = &["none", "null", "hmac-sha1-80"];

    /// Index in [`Self::WORDS`].
    pub(super) fn place(&self) -> u64 {
        match self {
            Authentication::None => 0,
            Authentication::Null => 1,
            Authentication::HmacSha1(_) => 2,
        }
    }
    /// Variant at an index of [`Self::WORDS`], without keys.
    pub(super) fn at(place: u64) -> Authentication {
        match place {
            1 => Authentication::Null,
            2 => Authentication::HmacSha1(Vec::new()),
            _ => Authentication::None,
        }
    }
    /// Whether a key is required, and none is configured.
    pub fn lacks_key(&self) -> bool {
        matches!(self, Authentication::HmacSha1(keys) if keys.is_empty())
    }
    /// Number of bytes added to each segment.
    pub fn bytes(&self) -> u64 {
        Seal::new(self).map_or(0, |seal| seal.bytes().into())
    }
}

/// Signs and verifies the segments of a link.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Seal {
    suite: u8,
    keys: Vec<LinkKey>,
}

impl Seal {
    /// Creates the signer and verifier for a setting; `None` without authentication.
    pub(super) fn new(authentication: &Authentication) -> Option<Seal> {
        match authentication {
            Authentication::None => None,
            Authentication::HmacSha1(keys) => {
                let mut keys: Vec<LinkKey> = keys.iter().take(GENERATIONS_MAX).cloned().collect();
                // Truncate the names, because they are compared as they appear on the wire.
                keys.iter_mut().for_each(|key| key.id.truncate(KEY_ID_MAX));
                Some(Seal { suite: suite::HMAC_SHA1_80, keys })
            }
            // 5327-2.1-11
            Authentication::Null => {
                let secret = Secret::new(NULL_KEY.to_vec());
                Some(Seal { suite: suite::NULL, keys: [LinkKey { id: Vec::new(), secret }].into() })
            }
        }
    }
    /// Value of the header extension: ciphersuite and name of the newest key.
    // 5327-2.1-2, 5327-2.1-3
    fn header(&self) -> Vec<u8> {
        let mut value = Vec::from([self.suite]);
        value.extend_from_slice(self.keys.first().map_or(&[][..], |key| &key.id));
        value
    }
    /// Number of bytes added to a segment.
    pub(super) fn bytes(&self) -> u32 {
        let header = 1 + self.keys.first().map_or(0, |key| key.id.len());
        (extension::size(header) + extension::size(HASH_BYTES)) as u32
    }
    /// Head of a segment with the authentication header added; [`Seal::end`] makes the trailer.
    // 5327-2.1-2, 5327-2.1-4, 5327-2.1-6
    pub(super) fn begin(&self, segment: &[u8]) -> Vec<u8> {
        extension::dress(segment, [(tag::AUTHENTICATION, &self.header()[..])].into_iter(), 1)
    }
    /// Authentication trailer for a segment with this head and data.
    // 5327-2.1-5, 5327-2.1-8, 5327-2.1-9
    pub(super) fn end(&self, head: &[u8], data: &Payload) -> Vec<u8> {
        let mut end = Vec::from([tag::AUTHENTICATION, HASH_BYTES as u8]);
        let key = self.keys.first().map_or(&[][..], |key| key.secret.bytes());
        let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(key) else { return end };
        mac.update(head);
        update(&mut mac, data);
        mac.update(&end);
        end.extend_from_slice(&mac.finalize().into_bytes()[..HASH_BYTES]);
        end
    }
    /// Signs a complete segment that has no block data.
    pub(super) fn seal(&self, segment: &[u8]) -> Vec<u8> {
        let mut sealed = self.begin(segment);
        let end = self.end(&sealed, &Payload::new());
        sealed.extend_from_slice(&end);
        sealed
    }
    /// Verifies that a segment has the authentication that its link requires.
    ///
    /// # Errors
    ///
    /// The reason why the segment is rejected.
    // 5327-2.1-3, 5327-2.1-7, 5327-2.1-8
    pub(super) fn check(&self, segment: &[u8], view: &View<'_>) -> Result<(), &'static str> {
        let hashes = || view.trailer.of(tag::AUTHENTICATION).filter(|hash| hash.len() == HASH_BYTES);
        let headers = || view.header.of(tag::AUTHENTICATION);
        let ours = || headers().filter(|value| value.first() == Some(&self.suite));
        if headers().next().is_some() && ours().next().is_none() {
            return Err(match headers().any(|value| value.first() == Some(&suite::RSA_SHA256)) {
                true => "LTP segment authenticated by RSA-SHA256, which is not spoken here",
                false => "LTP segment authenticated in another way than its link asks for",
            });
        }
        if hashes().next().is_none() {
            return Err("LTP segment without the authentication that its link asks for");
        }
        // Keys are selected by name if all headers name one. If no key here has that name, the peer may have named a
        // key that has no name here.
        let named = ours().next().is_some() && ours().all(|value| value.len() > 1);
        let is_meant = |key: &&LinkKey| ours().any(|value| value[1..] == key.id[..]);
        let known = named && self.keys.iter().any(|key| is_meant(&key));
        let may_be = |key: &&LinkKey| match (named, known) {
            (false, _) => true,
            (true, true) => is_meant(key),
            (true, false) => key.id.is_empty(),
        };
        for key in self.keys.iter().filter(may_be) {
            let Ok(mut mac) = Hmac::<Sha1>::new_from_slice(key.secret.bytes()) else { continue };
            covered(&mut mac, segment, view.trailer_at, &view.trailer);
            // Compared in constant time.
            if hashes().any(|hash| mac.clone().verify_truncated_left(hash).is_ok()) {
                return Ok(());
            }
        }
        Err("LTP segment whose authentication is wrong")
    }
}

impl Ltp {
    /// Checks that a segment is authentic, before it has any effect; segments of links without authentication pass.
    /// `head` is the beginning of the segment; where authentication is required, it must have all `total` bytes.
    ///
    /// # Errors
    ///
    /// The reason why the segment is rejected.
    // 5327-2.1-1
    pub(super) fn is_believed(
        &self,
        from: SocketAddr,
        view: &View<'_>,
        (head, total): (&[u8], u64),
    ) -> Result<(), &'static str> {
        // Skip the lookup if no link authenticates.
        if !self.sealed {
            return Ok(());
        }
        let Some(seal) = self.span_of(from, view).and_then(|index| self.spans[index].rules.seal()) else {
            return Ok(());
        };
        if head.len() as u64 != total {
            return Err("LTP segment without the authentication that its link asks for");
        }
        seal.check(head, view)
    }
    /// Span of the peer that a segment claims to come from: that of its session, else of its engine, else of its
    /// address.
    fn span_of(&self, from: SocketAddr, view: &View<'_>) -> Option<usize> {
        let id = view.session;
        let cancelled = || self.sessions.cancelled.get(&id).map(|cancelled| cancelled.span);
        let of_ours = matches!(view.kind, kind::REPORT | kind::CANCEL_RECEIVER | kind::CANCEL_SENDER_ACK);
        if of_ours && id.engine == self.config.engine {
            let export = self.sessions.exports.get(&id.number).map(|export| export.span);
            return export.or_else(cancelled).or_else(|| self.span_at(from));
        }
        let import = self.sessions.imports.get(&id).map(|import| import.span);
        let of_engine = || self.span_from(id.engine, from).or_else(|| self.by_engine.get(&id.engine).copied());
        import.or_else(cancelled).or_else(of_engine).or_else(|| self.span_at(from))
    }
}

/// Adds the bytes of a segment that the hash covers: all but the hashes themselves.
// 5327-2.1-8
fn covered(mac: &mut Hmac<Sha1>, segment: &[u8], trailer_at: usize, trailer: &Extensions<'_>) {
    mac.update(segment.get(..trailer_at).unwrap_or_default());
    for extension in trailer.iter() {
        mac.update(extension.prefix);
        if extension.tag != tag::AUTHENTICATION {
            mac.update(extension.value);
        }
    }
    mac.update(segment.get(trailer_at + trailer.len()..).unwrap_or_default());
}

/// Adds block data to the hash; chunks that are not in memory, such as fills, are first copied into a buffer.
fn update(mac: &mut Hmac<Sha1>, data: &Payload) {
    let mut at = 0;
    for chunk in data.chunks() {
        if let farlink_base::Chunk::Bytes(bytes) = chunk {
            mac.update(bytes);
        } else {
            let mut written = alloc::vec![0; chunk.len() as usize];
            data.copy_to(at, &mut written);
            mac.update(&written);
        }
        at += chunk.len();
    }
}

#[cfg(test)]
mod tests {
    use super::super::segment::{Data, HeaderBuffer, Segment, SegmentBody, SessionId, kind, parse};
    use super::*;
    use core::slice;

    fn key(id: &str, byte: u8) -> LinkKey {
        LinkKey { id: id.as_bytes().to_vec(), secret: Secret::new(alloc::vec![byte; 20]) }
    }
    fn seal(keys: &[LinkKey]) -> Seal {
        Seal::new(&Authentication::HmacSha1(keys.to_vec())).unwrap()
    }
    fn report_ack() -> Vec<u8> {
        let session = SessionId { engine: 2, number: 300 };
        Segment { session, body: SegmentBody::ReportAck { serial: 9 } }.emit().to_vec()
    }
    fn check(seal: &Seal, segment: &[u8]) -> Result<(), &'static str> {
        seal.check(segment, &parse(segment, segment.len() as u64).unwrap())
    }

    /// Keeps 5327-2.1-2, 5327-2.1-3, 5327-2.1-5, 5327-2.1-8, 5327-2.1-9.
    #[test]
    fn sealed_segment_matches_rfc() {
        // The example of section 2.1 has key 0x24; the hash was computed with Python's hmac module.
        let seal = seal(&[LinkKey { id: alloc::vec![0x24], secret: Secret::new(alloc::vec![0x0b; 20]) }]);
        let sealed = seal.seal(&report_ack());
        let bare = [0x09, 0x02, 0x82, 0x2c];
        assert_eq!(sealed[..4], bare);
        assert_eq!(sealed[4..9], [0x11, 0x00, 0x02, 0x00, 0x24], "the figure in RFC 5327 2.1");
        assert_eq!(sealed[9..12], [0x09, 0x00, 0x0a]);
        assert_eq!(sealed[12..], HASH_BY_PYTHON);
        assert_eq!((sealed.len() - report_ack().len()) as u32, seal.bytes());
        assert_eq!(check(&seal, &sealed), Ok(()));
    }
    const HASH_BY_PYTHON: [u8; 10] = [0x68, 0xe5, 0x84, 0x2e, 0x00, 0x08, 0xd3, 0x98, 0x20, 0x7d];
    const NULL_HASH_BY_PYTHON: [u8; 10] = [0x58, 0xa5, 0x4f, 0x11, 0x25, 0x10, 0xfb, 0x80, 0xfd, 0x91];

    /// Keeps 5327-2.1-11, 5327-2.1-12.
    #[test]
    fn null_suite_uses_public_key() {
        let null = Seal::new(&Authentication::Null).unwrap();
        let sealed = null.seal(&report_ack());
        assert_eq!(sealed[4..8], [0x11, 0x00, 0x01, 0xff]);
        assert_eq!(sealed[sealed.len() - 10..], NULL_HASH_BY_PYTHON);
        assert_eq!(check(&null, &sealed), Ok(()));
        let real = seal(&[key("", 1)]);
        assert!(check(&real, &sealed).unwrap_err().contains("another way"), "only as configured");
        assert!(check(&null, &real.seal(&report_ack())).unwrap_err().contains("another way"));
    }

    /// Keeps 5327-2.1-8.
    #[test]
    fn every_changed_bit_is_detected() {
        let seal = seal(&[key("a", 1)]);
        let body = [5u8; 40];
        let data = Data { kind: kind::BLOCK_END, service: 1, offset: 0, length: 40, checkpoint: 3, report: 0 };
        let head = seal.begin(HeaderBuffer::data(SessionId { engine: 2, number: 3 }, &data).bytes());
        let mut rope = Payload::from(body[..7].to_vec());
        rope.push_bytes(body[7..].to_vec().into());
        let whole = [&head[..], &body, &seal.end(&head, &rope)].concat();
        assert_eq!(check(&seal, &whole), Ok(()));
        for bit in 0..whole.len() * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            let taken = parse(&changed, changed.len() as u64).is_ok_and(|view| seal.check(&changed, &view).is_ok());
            assert!(!taken, "bit {bit}");
        }
        for cut in 0..whole.len() {
            let taken = parse(&whole[..cut], cut as u64).is_ok_and(|view| seal.check(&whole[..cut], &view).is_ok());
            assert!(!taken, "cut at {cut}");
        }
        let more = [&seal.seal(&report_ack())[..], &[0]].concat();
        assert!(check(&seal, &more).is_err(), "trailing bytes are covered");
    }

    #[test]
    fn patterns_hash_as_their_bytes() {
        // Simulated and real segments must have equal hashes.
        let (seal, fill) = (seal(&[key("", 7)]), Payload::fill(9, 5000).slice(100, 1300));
        let mut bytes = alloc::vec![0; 1300];
        fill.copy_to(0, &mut bytes);
        assert_eq!(seal.end(b"head", &fill), seal.end(b"head", &Payload::from(bytes)));
    }

    /// Keeps 5327-2.1-3, 5327-2.1-7.
    #[test]
    fn any_correct_hash_suffices() {
        let (old, new) = (key("2025", 1), key("2026", 2));
        let (before, between, after) =
            (seal(slice::from_ref(&old)), seal(&[new.clone(), old.clone()]), seal(slice::from_ref(&new)));
        let [by_old, by_new] = [&before, &between].map(|seal| seal.seal(&report_ack()));
        assert_eq!(check(&between, &by_old), Ok(()));
        assert_eq!((check(&between, &by_new), check(&after, &by_new)), (Ok(()), Ok(())));
        assert!(check(&after, &by_old).is_err() && check(&before, &by_new).is_err());
        // Two headers and two hashes; each hash covers everything but the hashes.
        let mut both = extension::dress(&report_ack(), [(0, &b"\x002025"[..]), (0, b"\x002026")].into_iter(), 2);
        let end = both.len();
        for _ in 0..2 {
            extension::put(&mut both, 0, &[0; 10]);
        }
        let mut mac = Hmac::<Sha1>::new_from_slice(&[2; 20]).unwrap();
        mac.update(&both[..end]);
        mac.update(&[0, 10, 0, 10]);
        let at = both.len() - 10;
        both[at..].copy_from_slice(&mac.finalize().into_bytes()[..10]);
        assert_eq!((check(&between, &both), check(&after, &both)), (Ok(()), Ok(())));
        assert!(check(&before, &both).is_err());
    }

    /// Keeps 5327-2.1-3.
    #[test]
    fn key_names_select_the_key() {
        let named = seal(&[key("moon", 1)]).seal(&report_ack());
        assert!(check(&seal(&[key("sun", 1)]), &named).is_err(), "the name is authenticated with the key");
        assert_eq!(check(&seal(&[key("sun", 2), key("", 1)]), &named), Ok(()), "an unnamed key may match");
        let unnamed = seal(&[key("", 1)]).seal(&report_ack());
        assert_eq!(check(&seal(&[key("sun", 2), key("moon", 1)]), &unnamed), Ok(()));
        let long = LinkKey { id: alloc::vec![200; 300], secret: Secret::new(alloc::vec![1; 20]) };
        let cut = seal(&[long]);
        assert_eq!(cut.seal(&report_ack()).len() - report_ack().len(), cut.bytes() as usize);
        assert_eq!(check(&cut, &cut.seal(&report_ack())), Ok(()));
    }

    /// Keeps 5327-2.1-4.
    #[test]
    fn later_segments_may_omit_header_field() {
        let seal = seal(&[key("a", 1)]);
        let mut bare = report_ack();
        bare[4] = 0x01;
        let end = seal.end(&bare, &Payload::new());
        bare.extend_from_slice(&end);
        assert_eq!(check(&seal, &bare), Ok(()));
    }

    #[test]
    fn unsupported_suites_are_reported() {
        let seal = seal(&[key("", 1)]);
        let shows = |value: &[u8], hash: &[u8]| {
            let mut segment = extension::dress(&report_ack(), [(0, value)].into_iter(), 1);
            extension::put(&mut segment, 0, hash);
            check(&seal, &segment).unwrap_err()
        };
        assert!(shows(&[1], &[7; 128]).contains("RSA-SHA256"));
        assert!(shows(&[2], &[7; 10]).contains("another way") && shows(&[], &[7; 10]).contains("another way"));
        for len in [0, 9, 11, 20] {
            assert!(shows(&[0], &alloc::vec![0; len]).contains("without"), "{len}");
        }
        assert!(check(&seal, &report_ack()).unwrap_err().contains("without"));
    }

    #[test]
    fn nothing_verifies_without_a_key() {
        // Segments that this engine signed itself do not verify either.
        let none = seal(&[]);
        assert!(check(&none, &none.seal(&report_ack())).is_err());
        assert!(Authentication::HmacSha1(Vec::new()).lacks_key() && !Authentication::Null.lacks_key());
        assert_eq!(Authentication::HmacSha1([key("ab", 1)].into()).bytes(), 5 + 12);
        assert_eq!((Authentication::None.bytes(), Authentication::Null.bytes()), (0, 15));
        let many: Vec<LinkKey> = (0..20).map(|n| key("", n)).collect();
        assert_eq!(seal(&many).keys.len(), GENERATIONS_MAX);
        for place in 0..3 {
            assert_eq!(Authentication::at(place).place(), place);
        }
    }
}
