//! Round-trip times by a program of the implementation: its own stamps, read from its output.

use super::super::event::AppEvent;
use super::super::ping::PingPlan;
use super::super::{ATTENTION, SenderTerms};
use super::{Programs, missing};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs the program; `say` gets an event for each ping, those without an answer last. Returns the number answered.
///
/// # Errors
/// If the file names no such program, or it cannot be started.
pub fn ping(
    programs: &Programs,
    plan: &PingPlan,
    terms: &SenderTerms,
    stop: &AtomicBool,
    say: &mut dyn FnMut(AppEvent),
) -> Result<u64> {
    let program = programs.ping.as_ref().ok_or_else(|| missing("ping"))?;
    let (time, number, unit) = program.rtt.as_ref().ok_or_else(|| missing("ping"))?.read()?;
    let seconds = |duration: Duration| format!("{}", duration.as_secs_f64());
    let values = [
        ("to", plan.to.clone()),
        ("source", terms.source.clone().unwrap_or_default()),
        ("count", plan.count.to_string()),
        ("size", plan.size.to_string()),
        ("interval_s", seconds(plan.interval)),
        ("timeout_s", seconds(plan.timeout)),
        ("lifetime_s", terms.lifetime.as_secs().max(1).to_string()),
    ];
    let mut program = programs.command(program).start(&values, Path::new("."), Stdio::piped())?;
    let lines = program.lines()?;
    let mut answered: BTreeSet<u64> = BTreeSet::new();
    // The program may wait for answers that never arrive.
    let all = plan.interval.saturating_mul(u32::try_from(plan.count).unwrap_or(u32::MAX));
    let silence = Instant::now() + all.saturating_add(plan.timeout).min(Duration::from_secs(1 << 32));
    while !stop.load(Ordering::Relaxed) && (answered.len() as u64) < plan.count && Instant::now() < silence {
        // `pop` fails once the program has closed its output.
        let Ok(line) = lines.pop(ATTENTION) else { break };
        let Some((at_ns, line)) = line else { continue };
        let group = |regex: &regex_lite::Regex| Some(regex.captures(&line)?.get(1)?.as_str().to_string());
        let Some(time) = group(&time) else { continue };
        let time: f64 = time.parse().with_context(|| format!("`{time}` in `{line}` is not a time"))?;
        let given = number.as_ref().and_then(group).and_then(|number| number.parse().ok());
        let number = given.unwrap_or(answered.len() as u64);
        if answered.insert(number) {
            say(AppEvent::RoundTrip { number, at_ns, rtt_s: time * unit, own: true });
        }
    }
    if !stop.load(Ordering::Relaxed) {
        // Some programs number from 1: as many as are missing are lost, whatever their numbers.
        let missing = plan.count.saturating_sub(answered.len() as u64);
        let absent = (0..).filter(|number| !answered.contains(number));
        absent.take(usize::try_from(missing)?).for_each(|number| say(AppEvent::Lost { number }));
    }
    Ok(answered.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pinged(script: &str, rtt: serde_json::Value) -> (Result<u64>, Vec<AppEvent>) {
        let run = json!(["sh", "-c", script, "-", "{count}", "{to}", "{interval_s}"]);
        let programs = Programs::parse(&json!({ "ping": { "run": run, "rtt": rtt } }).to_string()).unwrap();
        let (interval, timeout) = (Duration::from_millis(500), Duration::from_secs(20));
        let plan = PingPlan { to: "ipn:2.1".into(), count: 3, interval, size: 64, timeout };
        let terms = SenderTerms { source: None, lifetime: timeout, window: 1 };
        let mut events = Vec::new();
        let result = ping(&programs, &plan, &terms, &AtomicBool::new(false), &mut |event| events.push(event));
        (result, events)
    }

    #[test]
    fn times_of_the_program_are_read() {
        let script = "echo $1 $2 $3; echo '64 bytes from ipn:2.1  seq=2 time=0.25 s'; echo seq=0 time=1.5; exit 1";
        let rtt = json!({ "match": r"time=([\d.]+)", "unit": "s", "number": r"seq=(\d+)" });
        let (result, events) = pinged(script, rtt);
        assert_eq!(result.unwrap(), 2);
        let told: Vec<String> = events.iter().map(AppEvent::text).collect();
        assert_eq!(told, ["ping 2: 250.000 ms", "ping 0: 1500.000 ms", "ping 1: no answer"]);
        assert!(events[0].json()["own"] == true);
    }

    #[test]
    fn answers_without_numbers_are_counted() {
        let (result, events) = pinged("echo 3 ipn: 10 ms; echo 20 ms", json!({ "match": "([0-9]+) ms", "unit": "ms" }));
        assert_eq!((result.unwrap(), events.len()), (2, 3));
        assert_eq!(events[1].text(), "ping 1: 20.000 ms");
        let (result, _) = pinged("echo x ms", json!({ "match": "(.*) ms", "unit": "ms" }));
        assert!(result.unwrap_err().to_string().contains("`x` in `x ms` is not a time"));
    }
}
