//! `cargo xtask static`: the command `farlink` as one file that needs nothing else on the machine where it runs.

use crate::{Chore, tools};
use anyhow::{Context, Result, ensure};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

pub const CHORE: Chore = Chore {
    name: "static",
    usage: "[--target TARGET] [--profile PROFILE]",
    help: "Builds `farlink` as one static file, for machines on which nothing is installed.

  --target T    x86_64-unknown-linux-musl or aarch64-unknown-linux-musl; without it, that of this machine
  --profile P   profile of cargo (quick)

The last line says where the file is. Needs the target (`rustup target add T`) and a C compiler for it: that which the
variable CC_<target> names, else `musl-gcc` for this machine's processors (Debian: musl-tools), else Zig, which compiles
for all: `zig` in PATH, or of python3 (`pip install ziglang`).",
    run,
};

const TARGETS: [&str; 2] = ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"];

fn run(arguments: &[String]) -> Result<()> {
    let mut arguments = tools::Arguments::new(arguments);
    let native = format!("{}-unknown-linux-musl", env::consts::ARCH);
    let target = arguments.word("--target")?.unwrap_or(&native);
    let profile = arguments.word("--profile")?.unwrap_or("quick");
    arguments.rest()?;
    ensure!(TARGETS.contains(&target), "`{target}` is no target of this chore\nhint: {}", TARGETS.join(", "));
    check_target(target)?;
    let mut build = tools::cargo();
    build.args(["build", "--locked", "--package", "farlink", "--profile", profile, "--target", target]);
    compile_c(&mut build, target, target == native)?;
    tools::run(&mut build)?;
    let folder = if profile == "dev" { "debug" } else { profile };
    let file = tools::target().join(target).join(folder).join("farlink");
    let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    ensure!(!needs_loader(&bytes), "{} is not static: it names a loader", file.display());
    println!("{}", file.display());
    Ok(())
}

/// Checks that the standard library for this target is installed.
fn check_target(target: &str) -> Result<()> {
    let mut rustc = Command::new("rustc");
    let folder =
        tools::output(rustc.current_dir(tools::root()).args(["--print", "target-libdir", "--target", target]))?;
    let there = Path::new(folder.trim()).is_dir();
    ensure!(there, "the standard library for {target} is missing\nhint: rustup target add {target}");
    Ok(())
}

/// Names a C compiler, which mimalloc and ring need, and a linker for other processors.
fn compile_c(build: &mut Command, target: &str, native: bool) -> Result<()> {
    let [lower, upper] = [target.replace('-', "_"), target.replace('-', "_").to_uppercase()];
    let linker = format!("CARGO_TARGET_{upper}_LINKER");
    if !native && env::var_os(&linker).is_none() {
        // The linker of the toolchain knows all processors; that of this machine only its own.
        build.env(linker, "rust-lld");
    }
    let given = env::var_os(format!("CC_{lower}")).is_some();
    if given || (native && answers(&["musl-gcc".into(), "--version".into()])) {
        return Ok(());
    }
    let zig = zig().with_context(|| {
        let debian = if native { "apt-get install musl-tools, or " } else { "" };
        format!("no C compiler for {target}\nhint: {debian}pip install ziglang, or name one in CC_{lower}")
    })?;
    for (name, tool) in [("CC", "cc"), ("AR", "ar")] {
        build.env(format!("{name}_{lower}"), wrapper(&zig, target, tool)?);
    }
    Ok(())
}

/// Command line that starts Zig; `None` if Zig is not installed.
fn zig() -> Option<Vec<String>> {
    let ways =
        [vec!["zig"], vec!["python3", "-m", "ziglang"]].map(|words| words.into_iter().map(String::from).collect());
    ways.into_iter().find(|words: &Vec<String>| answers(&[&words[..], &["version".into()]].concat()))
}

fn answers(words: &[String]) -> bool {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Script that runs one of Zig's tools for this target, since build scripts take a compiler as one word.
fn wrapper(zig: &[String], target: &str, tool: &str) -> Result<PathBuf> {
    let own = target.replace("-unknown", "");
    let folder = tools::target().join("static");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("zig-{tool}-{own}"));
    let zig = zig.join(" ");
    let script = match tool {
        // Build scripts name the target as Rust calls it, which Zig does not know.
        "cc" => format!(
            "#!/bin/sh\nfor word; do shift; case \"$word\" in --target=*) ;; *) set -- \"$@\" \"$word\" ;; esac; done\n\
             exec {zig} cc -target {own} -fno-sanitize=all \"$@\"\n"
        ),
        tool => format!("#!/bin/sh\nexec {zig} {tool} \"$@\"\n"),
    };
    fs::write(&file, script)?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))?;
    Ok(file)
}

/// Whether a program of 64 bits names a loader that must be on its machine (a program header of type `PT_INTERP`).
fn needs_loader(program: &[u8]) -> bool {
    let number = |at: usize, len: usize| -> usize {
        let bytes = program.get(at..at.saturating_add(len)).unwrap_or_default();
        bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
    };
    let (start, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    (0..count).any(|header| number(start.saturating_add(header * size), 4) == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loader_of_program_is_found() {
        let own = fs::read("/proc/self/exe").unwrap();
        assert_eq!(needs_loader(&own), cfg!(target_env = "gnu"), "this test is linked to the C library of its machine");
        assert!(!needs_loader(&own[..100]) && !needs_loader(b"#!/bin/sh\n"));
    }

    #[test]
    fn unknown_target_is_refused() {
        let why = run(&["--target".into(), "riscv64gc-unknown-linux-musl".into()]).unwrap_err().to_string();
        assert!(why.contains("hint: x86_64-unknown-linux-musl"), "{why}");
    }

    #[test]
    fn wrapper_drops_name_of_target() {
        let echo = ["echo".to_string()];
        let file = wrapper(&echo, "aarch64-unknown-linux-musl", "cc").unwrap();
        let said =
            tools::output(Command::new(file).args(["--target=aarch64-unknown-linux-musl", "-O3", "a b"])).unwrap();
        assert_eq!(said, "cc -target aarch64-linux-musl -fno-sanitize=all -O3 a b\n");
    }
}
