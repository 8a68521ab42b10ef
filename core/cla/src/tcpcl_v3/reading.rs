//! Parses messages of version 3 for the passive reader of TCPCL.

use super::wire::{V3Message, read_contact, read_message};
use crate::reading::StreamStep;
use crate::tcpcl_v4::wire::{END, NoMessage, START};
use farlink_base::PayloadReader;

/// Reads the contact header from after its version.
pub(crate) fn contact(reader: &mut PayloadReader<'_>) -> Result<(), NoMessage> {
    read_contact(reader).map(drop)
}
/// Reads the next message; of a segment, only the head.
pub(crate) fn message(reader: &mut PayloadReader<'_>) -> Result<StreamStep, NoMessage> {
    Ok(match read_message(reader)? {
        // Version 3 does not number transfers; each follows the one before (RFC 7242 5.2).
        V3Message::Segment { flags, len } => {
            StreamStep::Data { id: 0, starts: flags & START != 0, ends: flags & END != 0, len }
        }
        V3Message::Ack(_)
        | V3Message::Refuse(_)
        | V3Message::Keepalive
        | V3Message::Shutdown { .. }
        | V3Message::Length(_) => StreamStep::Message,
    })
}
