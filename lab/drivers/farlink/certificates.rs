//! TLS certificates of a run, issued by `farlink node certs` with an authority created for the run.

use crate::driver::{COMMON, NodeContext};
use anyhow::{Context, Result, bail};
use farlink_scenario::Tls;
use std::process::Command;

/// Certificate files of a node, relative to its folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Files {
    pub certificate: String,
    pub key: String,
    pub authorities: String,
}

/// Creates the certificate of a node; the first call of a run also creates the run's authority. `None` if no session of
/// the node uses TLS.
///
/// # Errors
/// If the program fails; the error has its output.
pub fn make(node: &NodeContext<'_>) -> Result<Option<Files>> {
    let here = &node.scenario.nodes[node.index];
    if node.scenario.layers_of(node.index).iter().all(|layer| here.tls(layer.kind) == Tls::Forbid) {
        return Ok(None);
    }
    let mut command = Command::new(node.program);
    // All nodes name the same folder, so that they share one authority.
    command.current_dir(node.folder).args(["node", "certs", "--out"]).arg(folder());
    for id in here.ids.iter().skip(1) {
        command.args(["--alias", id]);
    }
    let output = command.args(here.ids.first()).output().context("cannot make certificates")?;
    if !output.status.success() {
        bail!("cannot make the certificate of `{}`: {}", here.name, String::from_utf8_lossy(&output.stderr).trim());
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let Some(files) = read(&said) else { bail!("`farlink node certs` printed unexpected output: {said}") };
    Ok(Some(files))
}

/// Folder shared by all nodes, relative to the folder of a node.
fn folder() -> String {
    format!("../{COMMON}")
}

/// Parses the first line of the output: node ID, certificate, key.
fn read(said: &str) -> Option<Files> {
    // Later lines advise the user how to distribute the files.
    let [_, certificate, key] = said.lines().next()?.split_whitespace().collect::<Vec<_>>()[..] else { return None };
    Some(Files { certificate: certificate.into(), key: key.into(), authorities: format!("{}/authority.pem", folder()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use farlink_base::DtnTime;
    use farlink_scenario::Scenario;
    use std::path::Path;

    #[test]
    fn certificate_paths_are_parsed() {
        let said = "ipn:1.0  ../.common/ipn-1.pem  ../.common/ipn-1.key\nbelieved by nodes with ...\n";
        let files = read(said).unwrap();
        assert_eq!((&*files.certificate, &*files.key), ("../.common/ipn-1.pem", "../.common/ipn-1.key"));
        assert_eq!(files.authorities, "../.common/authority.pem");
        assert_eq!(read(""), None);
    }

    #[test]
    fn only_tls_nodes_get_certificates() {
        let text = "name = \"s\"\nduration = \"1 s\"\n[[node]]\nname = \"a\"\nid = \"ipn:1.0\"\n[[node]]\nname = \"b\"\n\
            id = \"ipn:2.0\"\n[[node]]\nname = \"c\"\nid = \"ipn:3.0\"\n[node_defaults]\ntcpclv4 = { tls = \"allow\" }\n\
            [[link]]\nname = \"l\"\nbetween = [\"a\", \"b\"]\nlayer = \"tcpclv4\"\n\
            [[link]]\nname = \"m\"\nbetween = [\"b\", \"c\"]\nlayer = \"ltp\"\n";
        let scenario = Scenario::parse(text).unwrap_or_else(|errors| panic!("{errors:#?}"));
        let made = |index: usize| {
            let (folder, program) = (Path::new("/"), Path::new("/no/such/program"));
            make(&NodeContext { scenario: &scenario, index, folder, epoch: DtnTime(1), program, real_time: true })
        };
        assert!(made(0).is_err() && made(1).is_err() && made(2).unwrap().is_none());
    }
}
