//! Measures the time until many hosts and links are up, and how punctual changes of the links are: `many_links HOSTS
//! LINKS CHANGES`. `cargo xtask bench links` runs it.

mod world;

use std::process::ExitCode;
use world::ManyLinks;

fn main() -> ExitCode {
    // This program is its own supervisor.
    if let Some(code) = farlink_lab::supervisor::run_if_asked() {
        return code;
    }
    let numbers: Vec<usize> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let &[hosts, links, changes] = &numbers[..] else {
        eprintln!("usage: many_links HOSTS LINKS CHANGES");
        return ExitCode::from(2);
    };
    let program = std::env::current_exe().unwrap_or_default();
    match (ManyLinks { hosts, links, changes }).run(&program) {
        Ok(found) => {
            let seconds = found.set_up.as_secs_f64();
            println!(
                "{hosts} hosts and {links} links joined in {seconds:.2} s; {} changes, {} later than 50 ms; a host saw at \
                 least {} of {} at each of its links",
                found.seen[1] * links,
                found.late,
                found.seen[0],
                found.seen[1]
            );
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
