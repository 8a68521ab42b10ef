//! Checks of a driver's texts against the placeholders that each place knows.

use super::file::{DRIVER_FILE, DriverFile, DriverMistake, line_at};
use super::template::{Checks, Place};

/// Checks all commands, files and templates. `read` gives the text of a file of the driver's folder.
///
/// # Errors
/// All mistakes, each with file and line.
pub fn check<'t>(
    text: &'t str,
    file: &DriverFile,
    read: &dyn Fn(&str) -> Option<&'t str>,
) -> Result<(), Vec<DriverMistake>> {
    let mut checks = Checks::new(text, file);
    let start = &file.start;
    checks.words(Place::Node, start.run.get_ref());
    checks.words(Place::Layer, &start.each.layer);
    checks.words(Place::Link, &start.each.link);
    checks.words(Place::Service, &start.each.service);
    checks.words(Place::Route, &start.each.route);
    checks.words(Place::Node, start.environment.values());
    let ready = start.ready.get_ref();
    checks.words(Place::Node, [&ready.connect, &ready.file, &ready.log].into_iter().flatten());
    checks.words(Place::Node, ready.run.iter().flatten());
    checks.words(Place::Node, start.also.iter().flatten());
    checks.words(Place::Node, file.stop.run.iter().flatten());
    checks.words(Place::Node, &file.app.at);
    let app = &file.app;
    for command in [&app.send, &app.receive, &app.load, &app.unload, &app.ping].into_iter().flatten() {
        checks.words(Place::App, &command.run);
        checks.words(Place::App, &command.log);
    }
    for entry in &file.files {
        checks.words(Place::File, &entry.text);
        for (name, is_template) in [(&entry.template, true), (&entry.copy, false)] {
            let Some(name) = name else { continue };
            match read(name.get_ref()) {
                Some(content) if is_template => checks.check(Place::File, name.get_ref(), 1, content),
                Some(_) => {}
                None => {
                    let line = line_at(text, name.span().start);
                    let hint = "put it beside driver.toml, as text of at most 4 MiB";
                    checks.fail(DRIVER_FILE, line, format!("no file `{}`", name.get_ref()), hint);
                }
            }
        }
    }
    checks.finish(file)
}
