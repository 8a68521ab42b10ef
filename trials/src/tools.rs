//! Helpers of several chores: the repository's root, running commands, parsing arguments.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Root folder of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Command that runs, in the repository's root, the cargo that runs this chore.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

/// Folder of cargo's builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

/// The program `farlink` as `make demo` runs it: named by FARLINK_BIN, or built now.
///
/// # Errors
/// When the program cannot be built.
pub fn farlink() -> Result<PathBuf> {
    if let Some(ready) = std::env::var_os("FARLINK_BIN") {
        return Ok(ready.into());
    }
    run(cargo().args(["build", "--profile", "quick", "--package", "farlink"]))?;
    Ok(target().join("quick/farlink"))
}

/// Runs a command with its output on the terminal.
///
/// # Errors
/// When the command cannot be started or fails; the message contains it, so that it can be repeated.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run `{}`", shown(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command and returns its standard output.
///
/// # Errors
/// When the command cannot be started or fails.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run `{}`", shown(command)))?;
    if !output.status.success() {
        bail!("`{}` failed: {}", shown(command), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Output of `cargo metadata` for the workspace at `root` (its members only).
///
/// # Errors
/// When cargo cannot read the workspace.
pub fn metadata(root: &Path) -> Result<serde_json::Value> {
    let text = output(cargo().current_dir(root).args(["metadata", "--no-deps", "--format-version", "1"]))?;
    Ok(serde_json::from_str(&text)?)
}

/// Arguments of a chore: `--name VALUE` pairs and plain words.
pub struct Arguments<'a> {
    words: Vec<&'a str>,
}

impl<'a> Arguments<'a> {
    /// Arguments as given after the chore's name.
    pub fn new(arguments: &'a [String]) -> Self {
        Arguments { words: arguments.iter().map(String::as_str).collect() }
    }
    /// Takes a flag and returns whether it was given.
    pub fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| *word != name);
        self.words.len() < before
    }
    /// Takes a word given as `--name WORD`.
    ///
    /// # Errors
    /// When nothing follows the name.
    pub fn word(&mut self, name: &str) -> Result<Option<&'a str>> {
        let Some(at) = self.words.iter().position(|word| *word == name) else { return Ok(None) };
        let value = *self.words.get(at + 1).with_context(|| format!("{name} wants a word"))?;
        // Taken words are removed: `rest` finds those that no option claimed.
        self.words.drain(at..at + 2);
        Ok(Some(value))
    }
    /// Takes a number given as `--name N`; `default` without it.
    ///
    /// # Errors
    /// When the value is not a number.
    pub fn number(&mut self, name: &str, default: u64) -> Result<u64> {
        let Some(value) = self.word(name)? else { return Ok(default) };
        value.parse().with_context(|| format!("{name}: `{value}` is not a number"))
    }
    /// Takes the plain words.
    ///
    /// # Errors
    /// When an option remains that is unknown.
    pub fn rest(self) -> Result<Vec<&'a str>> {
        match self.words.iter().find(|word| word.starts_with('-')) {
            Some(unknown) => bail!("unknown option `{unknown}`; see `cargo xtask help`"),
            None => Ok(self.words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_taken_individually() {
        let given: Vec<String> = ["cbor", "--seconds", "5", "--only", "aap2", "--all"].map(String::from).into();
        let mut arguments = Arguments::new(&given);
        assert_eq!(arguments.number("--seconds", 60).unwrap(), 5);
        assert_eq!(arguments.number("--jobs", 2).unwrap(), 2);
        assert_eq!(arguments.word("--only").unwrap(), Some("aap2"));
        assert!(arguments.flag("--all") && !arguments.flag("--all"));
        assert_eq!(arguments.rest().unwrap(), ["cbor"]);
        let unknown = ["--fast".to_string()];
        assert!(Arguments::new(&unknown).rest().is_err());
    }
}
