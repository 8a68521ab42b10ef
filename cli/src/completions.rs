//! `farlink completions`: shell completion scripts.

use crate::CliError;

/// Arguments of `farlink completions`.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  farlink completions bash > /etc/bash_completion.d/farlink\n  \
    farlink completions zsh > ~/.zfunc/_farlink\n  \
    farlink completions fish > ~/.config/fish/completions/farlink.fish")]
pub struct Args {
    /// Shell to write the script for.
    shell: clap_complete::Shell,
}

pub fn run(args: Args) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "farlink", &mut script);
    print!("{}", String::from_utf8_lossy(&script));
    Ok(())
}
