//! From typed events to people and programs: log lines, the live stream and the events file.
//!
//! The owner of the stack hands over batches; a thread of its own formats them. **The events file**
//! (`[events] file`) has one JSON object per line, written in order, flushed at least every 200 ms
//! and at exit:
//!
//! ```json
//! {"time_ns":81234567890,"utc_ns":1795165200123456789,"node":"ipn:1.0","event":"seen","bundle":7,
//!  "source":"ipn:1.64","created_ms":848480400000,"sequence":3,"destination":"ipn:2.64",
//!  "payload":100000,"size":100064,"priority":"normal","lifetime_ms":86400000}
//! {"time_ns":81234569000,"utc_ns":...,"node":"ipn:1.0","event":"created","bundle":7}
//! ```
//!
//! A node that starts again appends to the file. Its bundle numbers then start again, so a number belongs to the last
//! `seen` with it before the line.
//!
//! Names and fields are those of `farlink_events` (`docs/reference/node.md` lists them), by which the
//! testbed reads the file back.

use crate::clock::WallClock;
use crate::config::EventsSettings;
use crate::log::{Crowd, Repeats, more};
use farlink_base::{Event, EventClass, Instant, LinkId, Refusal};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::mem::{Discriminant, discriminant};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

pub use farlink_events::EventNames;

/// Interval at which buffered events are written to the file.
const FLUSH_EVERY: Duration = Duration::from_millis(200);
/// Most batches that may wait for the formatting thread; each is of one turn.
const BATCHES: usize = 1024;

/// Item for the formatting thread.
enum EventText {
    /// With a text, the event is a warning, and the text continues its sentence.
    Event(Instant, Event, Option<Box<str>>),
    /// Name of a link in later events.
    Link(LinkId, String),
}
/// Events of one turn, with the offset that turns instants into wall time.
type Batch = (i128, Vec<EventText>);

/// Classes of frequent events that the log shows.
#[derive(Debug, Default)]
struct EventWants {
    /// Bundle events.
    log: AtomicBool,
    /// LTP sessions that ended in good order: there may be one for each bundle.
    sessions: AtomicBool,
}

/// Receives a node's events, in the thread that owns the stack.
pub struct EventHub {
    metrics: Arc<crate::metrics::Metrics>,
    outbox: Option<SyncSender<Batch>>,
    thread: Option<std::thread::JoinHandle<()>>,
    batch: Vec<EventText>,
    live: tokio::sync::broadcast::Sender<Arc<str>>,
    wanted: Arc<EventWants>,
    file: bool,
    segments: bool,
}

impl EventHub {
    /// Starts the formatting thread.
    ///
    /// # Errors
    /// If the events file cannot be created.
    pub fn start(
        metrics: Arc<crate::metrics::Metrics>,
        names: EventNames,
        settings: Option<&EventsSettings>,
    ) -> std::io::Result<EventHub> {
        let file = settings.map(|settings| open(&settings.file)).transpose()?;
        // Slow clients of the live stream lose the oldest of 4096 events rather than slow the node.
        let (live, _) = tokio::sync::broadcast::channel(4096);
        let (outbox, inbox) = sync_channel(BATCHES);
        let mut writer = Writer {
            names,
            file: file.map(BufWriter::new),
            live: live.clone(),
            repeats: Repeats::default(),
            strangers: Crowd::default(),
        };
        let has_file = writer.file.is_some();
        let thread = std::thread::Builder::new().name("events".into()).spawn(move || writer.run(&inbox))?;
        Ok(EventHub {
            metrics,
            outbox: Some(outbox),
            thread: Some(thread),
            batch: Vec::new(),
            live,
            wanted: Arc::default(),
            file: has_file,
            segments: settings.is_some_and(|settings| settings.segments),
        })
    }
    /// Creates a hub for another shard, with the same outputs.
    pub fn beside(&self, metrics: Arc<crate::metrics::Metrics>) -> EventHub {
        EventHub {
            metrics,
            outbox: self.outbox.clone(),
            thread: None,
            batch: Vec::new(),
            live: self.live.clone(),
            wanted: self.wanted.clone(),
            file: self.file,
            segments: self.segments,
        }
    }
    /// Returns whether anyone wants events of this class. All classes but LTP segments are always wanted, for the
    /// counters.
    pub fn wants(&self, class: EventClass) -> bool {
        class != EventClass::Segment || self.segments
    }
    /// Sets the name of a new link for later events.
    pub fn name_link(&mut self, link: LinkId, name: String) {
        self.batch.push(EventText::Link(link, name));
    }
    /// Counts an event and queues it for output; with `about`, its log line is a warning that ends with this text.
    pub fn push(&mut self, now: Instant, event: Event, about: Option<Box<str>>) {
        self.metrics.count(&event);
        // Without a reader the formatting thread is not woken.
        let read = |log: &AtomicBool| self.file || log.load(Relaxed) || self.live.receiver_count() > 0;
        let wanted = match event.class() {
            EventClass::Bundle => read(&self.wanted.log),
            EventClass::Link if matches!(event, Event::LtpSessionEnd { cancelled: false, .. }) => {
                read(&self.wanted.sessions)
            }
            EventClass::Segment => self.segments,
            EventClass::Link | EventClass::Node => true,
        };
        if wanted {
            self.batch.push(EventText::Event(now, event, about));
        }
    }
    /// Passes the events of this turn to the formatting thread.
    pub fn flush(&mut self, clock: &WallClock) {
        if !self.batch.is_empty() {
            // Wall time is computed by the thread: one offset for the whole batch.
            let offset = i128::from(clock.unix_ns_at(Instant::ZERO));
            let batch = (offset, std::mem::take(&mut self.batch));
            match &self.outbox {
                // A file must be complete, so the node waits for it. A log that is not read must not stop the node.
                Some(outbox) if self.file => drop(outbox.send(batch)),
                Some(outbox) => {
                    // Names of links are kept for the next batch: all later events need them.
                    if let Err(TrySendError::Full((_, said))) = outbox.try_send(batch) {
                        self.batch.extend(said.into_iter().filter(|said| matches!(said, EventText::Link(..))));
                    }
                }
                None => {}
            }
        }
        // The level may change while the node runs; checked once a turn rather than for each event.
        self.wanted.log.store(tracing::enabled!(target: "farlink::bundle", tracing::Level::DEBUG), Relaxed);
        self.wanted.sessions.store(tracing::enabled!(target: "farlink::link", tracing::Level::DEBUG), Relaxed);
    }
    /// Live stream of event lines, in JSON.
    pub fn live(&self) -> tokio::sync::broadcast::Sender<Arc<str>> {
        self.live.clone()
    }
    /// Writes all events and ends the thread.
    pub fn finish(&mut self, clock: &WallClock) {
        self.flush(clock);
        // The thread ends when all senders are dropped.
        self.outbox = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Opens the events file: a node that starts again goes on where the last run ended.
fn open(path: &Path) -> std::io::Result<File> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    if file.metadata()?.is_file() && is_torn(path).unwrap_or(false) {
        // The last run was killed within a line; the line stays, unreadable, and ends here.
        file.write_all(b"\n")?;
    }
    Ok(file)
}
/// Whether a file ends within a line.
fn is_torn(path: &Path) -> std::io::Result<bool> {
    let (mut file, mut last) = (File::open(path)?, [0]);
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

struct Writer {
    names: EventNames,
    file: Option<BufWriter<File>>,
    live: tokio::sync::broadcast::Sender<Arc<str>>,
    repeats: Repeats<WriteFault>,
    /// Limits log lines about unconfigured neighbours, which may come and go under ever new link numbers.
    strangers: Crowd,
}

/// Key of a fault that others can cause at will; each is limited in the log separately.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct WriteFault {
    kind: Discriminant<Event>,
    link: Option<LinkId>,
    refusal: Option<Discriminant<Refusal>>,
    why: &'static str,
}
impl WriteFault {
    fn of(event: &Event) -> Option<WriteFault> {
        let (link, refusal, why) = match event {
            Event::Refused { link, reason, .. } => (*link, Some(discriminant(reason)), ""),
            // The reason is part of the key, so that a frequent one does not hide others.
            Event::Malformed { link, reason, .. } | Event::SessionRefused { link, reason, .. } => {
                (*link, None, *reason)
            }
            Event::LtpSessionEnd { link, cancelled: true, why, .. } => (Some(*link), None, *why),
            Event::LinkUp { link, .. } | Event::LinkDown { link } if link.is_dynamic() => (Some(*link), None, ""),
            _ => return None,
        };
        Some(WriteFault { kind: discriminant(event), link, refusal, why })
    }
}

impl Writer {
    fn run(&mut self, inbox: &Receiver<Batch>) {
        let mut flushed = std::time::Instant::now();
        loop {
            match inbox.recv_timeout(FLUSH_EVERY) {
                Ok((offset, batch)) => batch.into_iter().for_each(|said| match said {
                    EventText::Event(at, event, about) => self.one(offset, at, &event, about.as_deref()),
                    EventText::Link(link, name) => self.names.name_link(link, name),
                }),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.flush(),
            }
            // Flushed by time, since a flush for each line would cost a system call.
            if flushed.elapsed() >= FLUSH_EVERY {
                self.flush();
                flushed = std::time::Instant::now();
            }
        }
    }
    fn one(&mut self, offset: i128, at: Instant, event: &Event, about: Option<&str>) {
        let utc_ns = u64::try_from(i128::from(at.0) + offset).unwrap_or(0);
        self.log(event, about);
        let live = self.live.receiver_count() > 0;
        if self.file.is_some() || live {
            // Formatted once for all readers.
            let line = self.names.json(at, utc_ns, event);
            if live {
                let _ = self.live.send(line.as_str().into());
            }
            if let Some(file) = &mut self.file {
                let _ = writeln!(file, "{line}");
            }
        }
        // Names of an ended bundle are forgotten only now, as the line of its last event still needed them.
        self.names.after(event);
    }
    fn log(&mut self, event: &Event, about: Option<&str>) {
        let now = std::time::Instant::now();
        let times = match WriteFault::of(event) {
            Some(WriteFault { link: Some(link), .. }) if link.is_dynamic() => self.strangers.say(now),
            Some(fault) => self.repeats.say(fault, now),
            None => Some(0),
        };
        // Suppressed in the log only; file and stream have every event.
        let Some(times) = times.map(more) else { return };
        if let Some(about) = about {
            let text = self.names.text(event);
            return match event.class() {
                EventClass::Node => tracing::warn!(target: "farlink::node", "{text}{about}{times}"),
                _ => tracing::warn!(target: "farlink::link", "{text}{about}{times}"),
            };
        }
        match event.class() {
            EventClass::Bundle if matches!(event, Event::Refused { .. }) => {
                tracing::warn!(target: "farlink::bundle", "{}{times}", self.names.text(event));
            }
            EventClass::Bundle if tracing::enabled!(target: "farlink::bundle", tracing::Level::DEBUG) => {
                tracing::debug!(target: "farlink::bundle", "{}", self.names.text(event));
            }
            EventClass::Bundle => {}
            EventClass::Segment => tracing::trace!(target: "farlink::ltp", "{}", self.names.text(event)),
            EventClass::Link if matches!(event, Event::LtpSessionEnd { cancelled: false, .. }) => {
                tracing::debug!(target: "farlink::link", "{}", self.names.text(event));
            }
            // The disk thread has logged the cause, with the file's name.
            EventClass::Node if matches!(event, Event::StoreFailed { .. }) => {
                tracing::debug!(target: "farlink::node", "{}", self.names.text(event));
            }
            EventClass::Link => tracing::info!(target: "farlink::link", "{}{times}", self.names.text(event)),
            EventClass::Node => tracing::warn!(target: "farlink::node", "{}", self.names.text(event)),
        }
    }
    fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            let _ = file.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_file_goes_on_after_torn_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        for (before, after) in [("", "b\n"), ("{}\n", "{}\nb\n"), ("{}\n{\"ti", "{}\n{\"ti\nb\n")] {
            std::fs::write(&path, before).unwrap();
            open(&path).unwrap().write_all(b"b\n").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        }
        assert!(open(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn one_fault_does_not_hide_another() {
        let (mut repeats, now) = (Repeats::default(), std::time::Instant::now());
        let mut said = |event: Event| repeats.say(WriteFault::of(&event).unwrap(), now).is_some();
        let malformed = |reason| Event::Malformed { link: None, offset: 0, reason };
        let refused = |reason| Event::Refused { link: Some(LinkId(3)), key: None, reason };
        let session = |reason| Event::SessionRefused { link: None, peer: None, reason };
        assert!(said(malformed("a message of unknown type")) && said(malformed("extension items")));
        assert!(said(refused(Refusal::Expired)) && said(refused(Refusal::NoResources)));
        assert!(said(session("a message of unknown type")), "another kind");
        assert!(!said(malformed("extension items")) && !said(refused(Refusal::Expired)), "each once");
        assert_eq!(WriteFault::of(&Event::LinkDown { link: LinkId(3) }), None, "what is configured is always told");
    }
}
