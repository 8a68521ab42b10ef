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
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::mem::{Discriminant, discriminant};
use std::path::{Path, PathBuf};
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
        let file = settings.map(|settings| EventsFile::open(&settings.file)).transpose()?;
        // Slow clients of the live stream lose the oldest of 4096 events rather than slow the node.
        let (live, _) = tokio::sync::broadcast::channel(4096);
        let (outbox, inbox) = sync_channel(BATCHES);
        let mut writer =
            Writer { names, file, live: live.clone(), repeats: Repeats::default(), strangers: Crowd::default() };
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

/// Length of buffered lines at which they are written at once, bytes.
const WRITE_AT: usize = 64 << 10;

/// Events file: a node that starts again goes on where the last run ended. While its disk is full, whole lines are
/// dropped and counted.
#[derive(Debug)]
struct EventsFile {
    path: PathBuf,
    /// `None` until there is room to create the file.
    file: Option<File>,
    /// Lines to write. The first is the rest of one that was written in part, if the file is `torn`.
    lines: Vec<u8>,
    /// Whether the file ends within a line.
    torn: bool,
    /// Lines dropped since the last write that succeeded.
    lost: u64,
    /// Time of the last warning, while events are lost.
    told: Option<std::time::Instant>,
}
impl EventsFile {
    /// Opens the file, or leaves that for later if the disk is full.
    ///
    /// # Errors
    /// If the file cannot be opened for another reason.
    fn open(path: &Path) -> io::Result<EventsFile> {
        let mut file =
            EventsFile { path: path.into(), file: None, lines: Vec::new(), torn: false, lost: 0, told: None };
        match file.create() {
            Err(why) if !is_full(&why) => return Err(why),
            Err(why) => file.warn(&why),
            Ok(()) => {}
        }
        Ok(file)
    }
    fn create(&mut self) -> io::Result<()> {
        let file = OpenOptions::new().append(true).create(true).open(&self.path)?;
        if file.metadata()?.is_file() && is_torn(&self.path).unwrap_or(false) {
            // The last run ended within a line; the line stays, unreadable, and ends here.
            self.lines.insert(0, b'\n');
            self.torn = true;
        }
        self.file = Some(file);
        Ok(())
    }
    fn add(&mut self, line: &str) {
        self.lines.extend_from_slice(line.as_bytes());
        self.lines.push(b'\n');
        if self.lines.len() >= WRITE_AT {
            self.flush();
        }
    }
    fn flush(&mut self) {
        if self.lines.is_empty() {
            return;
        }
        let mut done = 0;
        let written = self.write(&mut done);
        if done > 0 {
            self.torn = self.lines[done - 1] != b'\n';
        }
        match written {
            Ok(()) if self.lost > 0 => {
                self.told = None;
                let lost = std::mem::take(&mut self.lost);
                tracing::warn!("events file {}: events are written again; {lost} were lost", self.path.display());
            }
            Ok(()) => self.told = None,
            Err(why) => {
                // A line that was written in part is completed by the next write that finds room.
                let end = self.lines[done..]
                    .iter()
                    .position(|byte| *byte == b'\n')
                    .map_or(self.lines.len(), |at| done + at + 1);
                let kept = if self.torn { done..end } else { done..done };
                self.lost += self.lines[kept.end..].iter().filter(|byte| **byte == b'\n').count() as u64;
                self.lines = self.lines[kept].to_vec();
                return self.warn(&why);
            }
        }
        self.lines.clear();
    }
    /// Writes all lines, as far as possible; `done` is the number of bytes written.
    fn write(&mut self, done: &mut usize) -> io::Result<()> {
        if self.file.is_none() {
            self.create()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        while *done < self.lines.len() {
            match file.write(&self.lines[*done..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => *done += written,
                Err(why) if why.kind() == ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }
    /// Warns that events are lost, once a minute.
    fn warn(&mut self, why: &io::Error) {
        let now = std::time::Instant::now();
        if self.told.is_none_or(|told| now.duration_since(told) >= WARN_EVERY) {
            self.told = Some(now);
            let lost = if self.lost == 0 { String::new() } else { format!(" ({} so far)", self.lost) };
            tracing::warn!(
                "events file {}: {why}: events are lost until it can be written{lost}\n\
                 hint: free space on its disk, or name a file on another in [events]",
                self.path.display()
            );
        }
    }
}
/// Interval of warnings about an events file that cannot be written.
const WARN_EVERY: Duration = Duration::from_secs(60);
/// Whether an error means that there is no room at present.
fn is_full(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}
/// Whether a file ends within a line.
fn is_torn(path: &Path) -> io::Result<bool> {
    let (mut file, mut last) = (File::open(path)?, [0]);
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}

struct Writer {
    names: EventNames,
    file: Option<EventsFile>,
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
                file.add(&line);
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
            file.flush();
        }
    }
}
impl Drop for EventsFile {
    fn drop(&mut self) {
        if self.lost > 0 {
            tracing::warn!("events file {}: {} events were lost in the end", self.path.display(), self.lost);
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
            let mut file = EventsFile::open(&path).unwrap();
            file.add("b");
            file.flush();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        }
        assert!(EventsFile::open(Path::new("/dev/null")).is_ok());
    }

    #[test]
    fn full_disk_loses_whole_events_counted() {
        let mut file = EventsFile::open(Path::new("/dev/full")).unwrap();
        (0..5).for_each(|_| file.add("{}"));
        file.flush();
        file.add("{}");
        file.flush();
        assert_eq!((file.lost, file.lines.len(), file.told.is_some()), (6, 0, true));
        // A pipe that takes a part, as a disk does while it fills.
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        (file.file, file.lost) = (Some(File::from(writer)), 0);
        let lines: Vec<String> = (0..20_000).map(|number| format!("{{\"number\":{number:06}}}")).collect();
        file.lines = lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect();
        file.flush();
        assert!(file.lost > 0 && !file.lines.is_empty(), "{} lost", file.lost);
        let (mut reader, mut read, mut chunk) = (File::from(reader), Vec::new(), [0; 4096]);
        let mut drain = |read: &mut Vec<u8>| {
            while let Ok(n @ 1..) = reader.read(&mut chunk) {
                read.extend(&chunk[..n])
            }
        };
        // The disk stays full: what completes the torn line is kept.
        file.add("{\"dropped\":1}");
        file.flush();
        drain(&mut read);
        let lost = file.lost - 1;
        file.add("{\"last\":1}");
        file.flush();
        drain(&mut read);
        assert_eq!((file.lost, file.told), (0, None));
        let text = String::from_utf8(read).unwrap();
        let got: Vec<&str> = text.lines().collect();
        let kept = lines.len() - lost as usize;
        assert_eq!(
            (&got[..kept], got[kept..].to_vec()),
            (&lines.iter().map(String::as_str).collect::<Vec<_>>()[..kept], vec!["{\"last\":1}"])
        );
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
