//! Just enough MessagePack to talk to dtn7-go: maps, lists, texts, bytes and booleans.

/// Deepest nesting that is followed.
const DEPTH_MAX: u32 = 16;

/// Encoder of one message.
#[derive(Default)]
pub struct PackWriter {
    /// Bytes so far.
    pub out: Vec<u8>,
}

impl PackWriter {
    fn head(&mut self, codes: [u8; 3], length: usize) {
        match length {
            0..=0xff => self.out.extend([codes[0], length as u8]),
            0x100..=0xffff => self.out.extend([&[codes[1]][..], &(length as u16).to_be_bytes()].concat()),
            _ => self.out.extend([&[codes[2]][..], &(length as u32).to_be_bytes()].concat()),
        }
    }
    /// Begins a map of at most 15 entries, each a text and a value.
    pub fn map(mut self, entries: u8) -> Self {
        self.out.push(0x80 | entries & 0x0f);
        self
    }
    /// Appends a text.
    pub fn text(mut self, text: &str) -> Self {
        self.head([0xd9, 0xda, 0xdb], text.len());
        self.out.extend(text.as_bytes());
        self
    }
    /// Appends bytes.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.head([0xc4, 0xc5, 0xc6], bytes.len());
        self.out.extend(bytes);
        self
    }
    /// Appends a number below 128.
    pub fn number(mut self, number: u8) -> Self {
        self.out.push(number & 0x7f);
        self
    }
    /// Appends a boolean.
    pub fn flag(mut self, flag: bool) -> Self {
        self.out.push(0xc2 | u8::from(flag));
        self
    }
}

/// Decoder of one message, which allocates nothing.
pub struct PackReader<'a> {
    rest: &'a [u8],
}

/// Head of an item: its kind, and a length, a count or a value.
enum PackHead {
    Nil,
    Flag(bool),
    Number,
    Text(usize),
    Bytes(usize),
    Extension(usize),
    List(u64),
    Map(u64),
}

impl<'a> PackReader<'a> {
    /// Decoder of these bytes.
    pub fn new(message: &'a [u8]) -> Self {
        PackReader { rest: message }
    }
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
    fn number(&mut self, digits: usize) -> Option<u64> {
        Some(self.take(digits)?.iter().fold(0, |number, digit| number << 8 | u64::from(*digit)))
    }
    fn length(&mut self, digits: usize) -> Option<usize> {
        usize::try_from(self.number(digits)?).ok()
    }
    fn head(&mut self) -> Option<PackHead> {
        let code = *self.take(1)?.first()?;
        Some(match code {
            0x00..=0x7f | 0xe0..=0xff => PackHead::Number,
            0x80..=0x8f => PackHead::Map(u64::from(code & 0x0f)),
            0x90..=0x9f => PackHead::List(u64::from(code & 0x0f)),
            0xa0..=0xbf => PackHead::Text(usize::from(code & 0x1f)),
            0xc0 => PackHead::Nil,
            0xc2 | 0xc3 => PackHead::Flag(code == 0xc3),
            0xc4..=0xc6 => PackHead::Bytes(self.length(1 << (code - 0xc4))?),
            // The type of an extension follows its length.
            0xc7..=0xc9 => PackHead::Extension(self.length(1 << (code - 0xc7))?.checked_add(1)?),
            0xca | 0xcb => self.take(4 << (code - 0xca)).map(|_| PackHead::Number)?,
            0xcc..=0xcf => self.take(1 << (code - 0xcc)).map(|_| PackHead::Number)?,
            0xd0..=0xd3 => self.take(1 << (code - 0xd0)).map(|_| PackHead::Number)?,
            0xd4..=0xd8 => PackHead::Extension((1 << (code - 0xd4)) + 1),
            0xd9..=0xdb => PackHead::Text(self.length(1 << (code - 0xd9))?),
            0xdc | 0xdd => PackHead::List(self.number(2 << (code - 0xdc))?),
            0xde | 0xdf => PackHead::Map(self.number(2 << (code - 0xde))?),
            0xc1 => return None,
        })
    }
    /// Begins a map and returns the number of its entries.
    pub fn map(&mut self) -> Option<u64> {
        match self.head()? {
            PackHead::Map(entries) => Some(entries),
            _ => None,
        }
    }
    /// Begins a list and returns the number of its items; nil is an empty list.
    pub fn list(&mut self) -> Option<u64> {
        match self.head()? {
            PackHead::List(items) => Some(items),
            PackHead::Nil => Some(0),
            _ => None,
        }
    }
    /// Reads a text.
    pub fn text(&mut self) -> Option<&'a str> {
        match self.head()? {
            PackHead::Text(length) => std::str::from_utf8(self.take(length)?).ok(),
            _ => None,
        }
    }
    /// Reads bytes; nil gives an empty slice.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        match self.head()? {
            PackHead::Bytes(length) | PackHead::Text(length) => self.take(length),
            PackHead::Nil => Some(&[]),
            _ => None,
        }
    }
    /// Reads a boolean.
    pub fn flag(&mut self) -> Option<bool> {
        match self.head()? {
            PackHead::Flag(flag) => Some(flag),
            _ => None,
        }
    }
    /// Skips an item.
    pub fn skip(&mut self) -> Option<()> {
        self.skip_below(0)
    }
    fn skip_below(&mut self, depth: u32) -> Option<()> {
        let items = match self.head()? {
            PackHead::Text(length) | PackHead::Bytes(length) | PackHead::Extension(length) => {
                return self.take(length).map(drop);
            }
            PackHead::List(items) => items,
            PackHead::Map(entries) => entries * 2,
            PackHead::Nil | PackHead::Flag(_) | PackHead::Number => 0,
        };
        if items > 0 && depth >= DEPTH_MAX {
            return None;
        }
        (0..items).try_for_each(|_| self.skip_below(depth + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_the_round_trip() {
        let (short, long) = ("Payload", "x".repeat(70_000));
        let message = PackWriter::default().map(3).text(short).bytes(long.as_bytes()).text("Success").flag(true);
        let message = message.text(&long).number(7).out;
        let mut reader = PackReader::new(&message);
        assert_eq!((reader.map(), reader.text(), reader.bytes()), (Some(3), Some(short), Some(long.as_bytes())));
        assert_eq!((reader.text(), reader.flag()), (Some("Success"), Some(true)));
        assert_eq!((reader.text(), reader.skip(), reader.skip()), (Some(&*long), Some(()), None));
        assert!(PackReader::new(&message).skip().is_some());
    }

    #[test]
    fn items_have_their_lengths() {
        // Items of every family of the specification, not of each width, with a marker behind.
        let items: &[&[u8]] = &[
            &[0x7f],
            &[0xe0],
            &[0xc0],
            &[0xa1, b'x'],
            &[0x81, 1, 2],
            &[0x92, 1, 2],
            &[0xc4, 1, 9],
            &[0xc7, 1, 5, 9],
            &[0xca, 0, 0, 0, 0],
            &[0xcb, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0xcd, 1, 0],
            &[0xd3, 0, 0, 0, 0, 0, 0, 0, 0],
            &[0xd4, 5, 9],
            &[0xd6, 5, 9, 9, 9, 9],
            &[0xda, 0, 1, b'x'],
            &[0xdc, 0, 1, 3],
            &[0xdf, 0, 0, 0, 1, 3, 4],
        ];
        for item in items {
            let message = [item, &[0xc3][..]].concat();
            let mut reader = PackReader::new(&message);
            assert_eq!((reader.skip(), reader.flag()), (Some(()), Some(true)), "{item:x?}");
            for end in 0..item.len() {
                assert!(PackReader::new(&item[..end]).skip().is_none(), "{item:x?} to {end}");
            }
        }
    }

    #[test]
    fn hostile_messages_end_early() {
        let deep = vec![0x91; 100_000];
        let claims: [&[u8]; 5] =
            [&deep, &[0xdd, 255, 255, 255, 255], &[0xdf, 255, 255, 255, 255, 1], &[0xc6, 255, 255, 255, 255], &[0xc1]];
        assert!(claims.iter().all(|claim| PackReader::new(claim).skip().is_none()));
        let mut random = farlink_base::Rng::new(2);
        for _ in 0..20_000 {
            let noise: Vec<u8> = (0..random.below(40)).map(|_| random.next_u64() as u8).collect();
            let _ = PackReader::new(&noise).skip();
        }
    }
}
