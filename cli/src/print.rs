//! Printing that survives a closed pipe or a full disk: `println!`, `print!` and `eprintln!` of this program, which do
//! not panic as those of the standard library do.

use std::io::{self, ErrorKind, Write as _};

/// Prints data to standard output.
macro_rules! print {
    ($($text:tt)*) => { crate::print::data(format_args!($($text)*)) };
}

/// Prints a line of data to standard output.
macro_rules! println {
    () => { crate::print::data(format_args!("\n")) };
    ($($text:tt)*) => { crate::print::data(format_args!("{}\n", format_args!($($text)*))) };
}

/// Prints a message to standard error. One that cannot be printed changes nothing: the exit status has the result.
macro_rules! eprintln {
    ($($text:tt)*) => { crate::print::message(format_args!($($text)*)) };
}

/// Prints data to standard output; ends the program if that takes nothing more.
pub fn data(text: std::fmt::Arguments<'_>) {
    if let Err(why) = io::stdout().lock().write_fmt(text) {
        stdout_failed(&why);
    }
}

/// Prints a message to standard error, as far as that takes it.
pub fn message(text: std::fmt::Arguments<'_>) {
    let _ = io::stderr().lock().write_fmt(format_args!("{text}\n"));
}

/// Ends the program because standard output takes nothing more: quietly if its reader is gone (`| head`), else with an
/// error.
pub fn stdout_failed(why: &io::Error) -> ! {
    if why.kind() == ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    message(format_args!(
        "error: standard output cannot be written: {why}\n\
         hint: is the disk behind it full? Write the output to another place"
    ));
    std::process::exit(1);
}
