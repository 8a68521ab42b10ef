//! Finds the application socket that `ping`, `echo`, `send`, `recv` and `perf` connect to.

use crate::CliError;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;

/// Default name of the socket.
const USUAL: &str = "farlink.sock";

/// Option that names the application socket.
#[derive(clap::Args)]
pub struct SocketArgs {
    /// Application socket of the node: a path, or host:port; default: `farlink.sock`, or the only `*.sock` in this
    /// folder that is not a control socket.
    #[arg(long = "at", value_name = "SOCKET")]
    place: Option<String>,
}
impl SocketArgs {
    /// Path or address of the socket.
    pub fn find(&self) -> Result<String, CliError> {
        self.place.clone().map_or_else(find_here, Ok)
    }
}

/// Path of the application socket in this folder.
pub fn find_here() -> Result<String, CliError> {
    let found = farlink_apps::while_starting(|| {
        // The usual name wins over other sockets.
        let found = if Path::new(USUAL).exists() { vec![USUAL.into()] } else { sockets(Path::new("."))? };
        if found.is_empty() { Err(std::io::ErrorKind::NotFound.into()) } else { Ok(found) }
    });
    match found {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(why.into()),
        found => only(&found.unwrap_or_default()),
    }
}

/// Names of the application sockets in a folder, sorted.
fn sockets(folder: &Path) -> std::io::Result<Vec<String>> {
    // Files may vanish while the folder is read.
    let entries = std::fs::read_dir(folder)?.filter_map(Result::ok);
    let sockets = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_socket()));
    let names = sockets.filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> =
        names.filter(|name| name.ends_with(".sock") && !name.ends_with(".control.sock")).collect();
    names.sort();
    Ok(names)
}

fn only(sockets: &[String]) -> Result<String, CliError> {
    match sockets {
        [only] => Ok(only.clone()),
        [] => Err(CliError::Run(anyhow::anyhow!(
            "no node has its application socket in this folder\n\
             hint: is it running? --at names the socket: `[app] socket` of the node's file, or host:port of its `listen`"
        ))),
        several => Err(CliError::Input(format!(
            "several nodes have their application socket here: {}\nhint: name one with --at",
            several.join(", ")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_socket_is_found_several_listed() {
        let dir = tempfile::tempdir().unwrap();
        let found = || match only(&sockets(dir.path()).unwrap()) {
            Ok(name) => name,
            Err(CliError::Input(why)) => why,
            Err(CliError::Run(why)) => why.to_string(),
        };
        // A file of that name that is not a socket is skipped.
        std::fs::write(dir.path().join("no.sock"), "").unwrap();
        assert!(found().contains("no node has its application socket in this folder\nhint: "), "{}", found());
        let _sockets = ["b.control.sock", "b.sock"].map(|name| UnixListener::bind(dir.path().join(name)).unwrap());
        assert_eq!(found(), "b.sock");
        let _another = UnixListener::bind(dir.path().join("a.sock")).unwrap();
        assert!(found().contains("here: a.sock, b.sock\nhint: "), "{}", found());
    }
}
