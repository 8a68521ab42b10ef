//! Types of event fields, and how each is written and read back.

use crate::names::{self};
use crate::read::{EventLine, interned};
use crate::words::Word;
use crate::write::{FieldWriter, identity};
use farlink_base::{BundleHandle, BundleKey, DeleteReason, LinkId, LtpSegmentEvent, NodeId, Priority, Refusal};

/// A type of event field.
pub trait EventField: Sized {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>);
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String>;
}

impl EventField for u64 {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
        out.number(name, *self);
    }
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
        line.number(name)
    }
}

/// Implements the trait for numbers narrower than 64 bits.
macro_rules! narrow {
    ($($kind:ty),*) => {$(
        impl EventField for $kind {
            fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
                out.raw(name, self);
            }
            fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
                let number = line.number(name)?;
                <$kind>::try_from(number).map_err(|_| format!("`{name}`: {number} is too large"))
            }
        }
    )*};
}
narrow!(u8, u32);

impl EventField for i64 {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
        out.raw(name, self);
    }
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
        line.signed(name)
    }
}

impl EventField for bool {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
        out.raw(name, self);
    }
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
        line.flag(name)
    }
}

impl EventField for &'static str {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
        out.text(name, self);
    }
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
        line.text(name, "why").map(|text| interned(&text))
    }
}

impl EventField for BundleHandle {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
        out.number(name, self.0);
        // Handles mean nothing to readers of a log: add the identity.
        if !out.is_json() && name == "bundle" {
            if let Some(identity) = out.names.identity(*self) {
                out.text("id", &identity);
            }
        }
    }
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
        line.number(name).map(BundleHandle)
    }
}

impl EventField for LinkId {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
        out.text(name, &out.names.link(*self));
    }
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
        let text = line.text(name, "dynamic:4")?;
        line.names.link_named(&text).ok_or_else(|| format!("`{name}`: no link is called `{text}`"))
    }
}

impl EventField for Option<LinkId> {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
        if let Some(link) = self {
            link.write(name, out);
        }
    }
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
        // An absent link is written as no field at all.
        line.has(name).then(|| LinkId::read(name, line)).transpose()
    }
}

impl EventField for NodeId {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
        out.text(name, &names::node(*self));
    }
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
        line.endpoint(name).map(|(node, _)| node)
    }
}

impl EventField for Option<NodeId> {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
        if let Some(node) = self {
            node.write(name, out);
        }
    }
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
        line.has(name).then(|| NodeId::read(name, line)).transpose()
    }
}

impl EventField for BundleKey {
    fn write(&self, _: &str, out: &mut FieldWriter<'_>) {
        if !out.is_json() {
            out.text("id", &identity(self));
            return;
        }
        out.endpoint("source", self.source, self.service);
        out.number("created_ms", self.time);
        out.number("sequence", self.sequence);
        if let Some((offset, length)) = self.fragment {
            out.number("fragment_offset", offset);
            out.number("fragment_length", length);
        }
    }
    fn read(_: &str, line: &EventLine<'_>) -> Result<Self, String> {
        let (source, service) = line.endpoint("source")?;
        let (time, sequence) = (line.number("created_ms")?, line.number("sequence")?);
        // `&` does not short-circuit, so that a sample records both fields as optional.
        let fragment = line.has("fragment_offset") & line.has("fragment_length");
        let part = || Ok::<_, String>((line.number("fragment_offset")?, line.number("fragment_length")?));
        Ok(BundleKey { source, service, time, sequence, fragment: fragment.then(part).transpose()? })
    }
}

impl EventField for Option<BundleKey> {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
        if let Some(key) = self {
            key.write(name, out);
        }
    }
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
        // A bundle key is written as several fields. `source` is present exactly if all required ones are.
        line.has("source").then(|| BundleKey::read(name, line)).transpose()
    }
}

/// Implements the trait for enumerations, written as words.
macro_rules! worded {
    ($($kind:ty),*) => {$(
        impl EventField for $kind {
            fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
                out.text(name, self.word());
            }
            fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
                read_word(name, line)
            }
        }
    )*};
}
worded!(Priority, DeleteReason);

impl EventField for Refusal {
    fn write(&self, name: &str, out: &mut FieldWriter<'_>) {
        // Log lines have the full sentence instead of the word.
        if out.is_json() { out.text(name, self.word()) } else { out.text(name, &self.to_string()) }
    }
    fn read(name: &str, line: &EventLine<'_>) -> Result<Self, String> {
        read_word(name, line)
    }
}

fn read_word<T: Word>(name: &str, line: &EventLine<'_>) -> Result<T, String> {
    let text = line.text(name, T::ALL.last().map_or("", |(_, word)| word))?;
    T::from_word(&text).ok_or_else(|| format!("`{name}`: `{text}` is no word for it"))
}

/// Implements the trait for a struct whose fields are written like the event's own.
macro_rules! group {
    ($kind:ident: $($field:ident),*) => {
        impl EventField for $kind {
            fn write(&self, _: &str, out: &mut FieldWriter<'_>) {
                $( self.$field.write(stringify!($field), out); )*
            }
            fn read(_: &str, line: &EventLine<'_>) -> Result<Self, String> {
                $( let $field = EventField::read(stringify!($field), line)?; )*
                Ok($kind { $($field),* })
            }
        }
    };
}
group!(LtpSegmentEvent: link, sent, engine, session, kind, offset, length, checkpoint, report, resend);
