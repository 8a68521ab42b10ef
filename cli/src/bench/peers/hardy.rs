//! Hardy: a small daemon built from its published crates (`tests/peers/hardy`), with a store in memory.

use super::only;
use farlink_apps::bench::{BenchOptions, Middle, Ports};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Path of the daemon `farlink-hardy-peer`.
pub struct Hardy(pub PathBuf);

impl Middle for Hardy {
    fn name(&self) -> String {
        "hardy".into()
    }
    fn prepare(&mut self, options: &BenchOptions, ports: &Ports, folder: &Path) -> anyhow::Result<Command> {
        only(options, &["tcpclv4"])?;
        let mut command = Command::new(&self.0);
        command.current_dir(folder).args(["ipn:3.0", &format!("127.0.0.1:{}", ports.middle)]);
        command.args(["--connect", &format!("127.0.0.1:{}", ports.sink)]);
        Ok(command)
    }
}
