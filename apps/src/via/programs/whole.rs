//! Sending and receiving by programs of the implementation that choose their own payloads: bundles are counted, not
//! timed one by one.

use super::super::ATTENTION;
use super::super::event::AppEvent;
use super::{Programs, SenderTerms, expression, missing};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Lets the program `load` send bundles of one length, and waits for its end.
///
/// # Errors
/// If the file names no such program, or it fails, or `stop` was set before its end.
pub fn load(
    programs: &Programs,
    (count, size): (u64, u64),
    to: &str,
    terms: &SenderTerms,
    stop: &AtomicBool,
    say: &mut dyn FnMut(AppEvent),
) -> Result<()> {
    let program = programs.load.as_ref().ok_or_else(|| missing("load"))?;
    let values = [
        ("to", to.to_string()),
        ("source", terms.source.clone().unwrap_or_default()),
        ("count", count.to_string()),
        ("size", size.to_string()),
        ("lifetime_s", terms.lifetime.as_secs().max(1).to_string()),
    ];
    let mut program = programs.command(program).start(&values, Path::new("."), Stdio::null())?;
    while !stop.load(Ordering::Relaxed) {
        if let Some(status) = program.wait_until(Instant::now() + ATTENTION)? {
            ensure!(status.success(), "`{}` failed: {status}", program.shown());
            say(AppEvent::Sent { bundles: count, bytes: count * size, own: true });
            return Ok(());
        }
    }
    anyhow::bail!("stopped before the end of `{}`", program.shown())
}

/// Lets the program `unload` receive, until it ends or prints its last line. `timeout` limits the whole.
///
/// # Errors
/// If the file names no such program, or it fails, or the time is over.
pub fn unload(
    programs: &Programs,
    endpoint: &str,
    count: u64,
    timeout: Option<Duration>,
    stop: &AtomicBool,
    say: &mut dyn FnMut(AppEvent),
) -> Result<()> {
    let program = programs.unload.as_ref().ok_or_else(|| missing("unload"))?;
    let done = program.done.as_deref().map(expression).transpose()?;
    let values = [("endpoint", endpoint.to_string()), ("source", endpoint.to_string()), ("count", count.to_string())];
    let mut program = programs.command(program).start(&values, Path::new("."), Stdio::piped())?;
    let (lines, begun) = (program.lines()?, Instant::now());
    while !stop.load(Ordering::Relaxed) {
        let late = timeout.is_some_and(|timeout| begun.elapsed() > timeout);
        ensure!(!late, "`{}` has not received everything in time\nhint: use a longer --timeout", program.shown());
        let Ok(line) = lines.pop(ATTENTION) else {
            // The program has closed its output, and so ends soon.
            let status = program.wait_until(Instant::now() + 20 * ATTENTION)?;
            let succeeded = done.is_none() && status.is_some_and(|status| status.success());
            ensure!(succeeded, "`{}` ended before it had received everything", program.shown());
            say(AppEvent::Counted { bundles: count, at_ns: farlink_os::monotonic_ns() });
            return Ok(());
        };
        let groups = line.as_ref().and_then(|(at_ns, line)| Some((*at_ns, done.as_ref()?.captures(line)?)));
        if let Some((at_ns, groups)) = groups {
            let bundles = groups.get(1).and_then(|number| number.as_str().parse().ok()).unwrap_or(count);
            say(AppEvent::Counted { bundles, at_ns });
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const WAIT: Duration = Duration::from_secs(20);

    fn loaded(script: &str) -> (Result<()>, Vec<AppEvent>) {
        let run = json!(["sh", "-c", script, "-", "{count}", "{size}", "{to}", "{lifetime_s}"]);
        let programs = Programs::parse(&json!({ "load": { "run": run } }).to_string()).unwrap();
        let terms = SenderTerms { source: None, lifetime: WAIT, window: 1 };
        let (mut events, stop) = (Vec::new(), AtomicBool::new(false));
        let result = load(&programs, (3, 100), "ipn:2.1", &terms, &stop, &mut |event| events.push(event));
        (result, events)
    }

    fn unloaded(script: &str, done: Option<&str>, timeout: Option<Duration>) -> (Result<()>, Vec<AppEvent>) {
        let run = json!(["sh", "-c", script, "-", "{endpoint}", "{count}"]);
        let programs = Programs::parse(&json!({ "unload": { "run": run, "done": done } }).to_string()).unwrap();
        let (mut events, stop) = (Vec::new(), AtomicBool::new(false));
        let result = unload(&programs, "ipn:2.1", 3, timeout, &stop, &mut |event| events.push(event));
        (result, events)
    }

    #[test]
    fn load_counts_when_it_succeeds() {
        let (result, events) = loaded("test \"$1 $2 $3 $4\" = '3 100 ipn:2.1 20'");
        result.unwrap();
        assert_eq!(events, [AppEvent::Sent { bundles: 3, bytes: 300, own: true }]);
        let (result, events) = loaded("exit 2");
        assert!(result.unwrap_err().to_string().contains("failed: exit status: 2") && events.is_empty());
    }

    #[test]
    fn unload_ends_with_its_last_line() {
        let count = |events: &[AppEvent]| match events {
            [AppEvent::Counted { bundles, .. }] => *bundles,
            other => panic!("{other:?}"),
        };
        let (result, events) = unloaded("echo $1 $2; echo Stopping; sleep 60", Some("^Stop"), None);
        assert_eq!((result.is_ok(), count(&events)), (true, 3));
        let (result, events) = unloaded("echo got 2 of $2; sleep 60", Some("got ([0-9]+)"), None);
        assert_eq!((result.is_ok(), count(&events)), (true, 2));
        let (result, events) = unloaded("exit 0", None, None);
        assert_eq!((result.is_ok(), count(&events)), (true, 3));
        for (script, done) in [("exit 0", Some("x")), ("exit 1", None)] {
            assert!(unloaded(script, done, None).0.unwrap_err().to_string().contains("ended before"));
        }
        let (result, _) = unloaded("sleep 60", None, Some(Duration::from_millis(60)));
        assert!(result.unwrap_err().to_string().contains("in time\nhint: "));
    }
}
