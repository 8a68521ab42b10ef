//! dtn7-rs: the daemon `dtnd`, over TCPCLv4 and MTCP.

use super::only;
use farlink_apps::bench::{BenchOptions, Middle, Ports};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Path of the daemon `dtnd`.
pub struct Dtnd(pub PathBuf);

impl Middle for Dtnd {
    fn name(&self) -> String {
        "dtn7-rs".into()
    }
    fn prepare(&mut self, options: &BenchOptions, ports: &Ports, folder: &Path) -> anyhow::Result<Command> {
        only(options, &["tcpclv4", "mtcp"])?;
        let cla = if options.layer == "mtcp" { "mtcp" } else { "tcp" };
        // `dtnd` always serves its web interface: give it a free port, so that two can run on one machine.
        let web = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(&self.0);
        command.current_dir(folder).args(["--nodeid", "3", "--routing", "epidemic", "--janitor", "1s"]);
        command.args(["--web-port", &web.to_string()]);
        // Both neighbours are configured: discovery would only add others.
        command.args(["--disable_nd", "--cla", &format!("{cla}:port={}:bind=127.0.0.1", ports.middle)]);
        command.args(["--static-peer", &format!("{cla}://127.0.0.1:{}/2", ports.sink)]);
        Ok(command)
    }
}
