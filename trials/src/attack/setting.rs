//! Settings in which the nodes of one attack case differ from those of other cases.

use super::stage::LIAR;
use std::path::Path;

/// Setup of a case's nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Layer of the first neighbour, and the nodes' policies.
    pub way: Way,
    /// Shards of the node under attack.
    pub shards: u8,
    /// Session limit of each of that node's layers over TCP; `None` for the default.
    pub sessions: Option<u32>,
}

/// Session limit of cases that open thousands of sessions at once.
const CROWD: u32 = 5000;

/// Layer of the first neighbour, with the policies that a case needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Tcpcl,
    /// TCPCLv4 with TLS.
    Tls,
    Old,
    Stcp,
    Mtcp,
    /// TCPCLv4; all nodes copy bundles and exchange policy messages.
    Copies,
    /// TCPCLv4; all nodes take custody and report compressed.
    Custody,
    /// TCPCLv4; the node under attack discovers neighbours by announcements.
    Announced,
}

impl Setting {
    /// Setup of the named case: cases about a stream layer use it for the honest neighbour, all others TCPCLv4.
    pub fn of(case: &str, shards: u8) -> Setting {
        let way = match case.split('-').next() {
            Some("tls") => Way::Tls,
            Some("tcpclv3") => Way::Old,
            Some("stcp") => Way::Stcp,
            Some("mtcp") => Way::Mtcp,
            Some("liar") => Way::Copies,
            Some("custody" | "compressed") => Way::Custody,
            Some("announcements") => Way::Announced,
            _ => Way::Tcpcl,
        };
        Setting { way, shards, sessions: case.ends_with("-endless-heads").then_some(CROWD) }
    }
    /// Whether nodes with this many shards support the setup.
    pub fn is_possible(self) -> bool {
        self.shards == 1 || !matches!(self.way, Way::Copies | Way::Announced)
    }
    /// First lines of the attacked node's configuration.
    pub fn shards(self) -> String {
        if self.shards > 1 { format!("shards = {}\n", self.shards) } else { String::new() }
    }
    /// Session limit, for each layer over TCP of the attacked node.
    pub fn sessions(self) -> String {
        self.sessions.map_or_else(String::new, |most| format!("sessions = {most}\n"))
    }
    /// Further lines of the attacked node's configuration; it listens for announcements at `announcements`.
    pub fn besides(self, announcements: &str) -> String {
        match self.way {
            // Only this node requests custody: its store is durable.
            Way::Custody => {
                "[custody]\nrequest = [\"ipn:2.*\", \"ipn:3.*\"]\n\n[compressed_reports]\ndelay = \"1 s\"\n\n".into()
            }
            Way::Announced => format!(
                "[discovery]\nto = \"127.0.0.4:3003\"\nlisten = \"{announcements}\"\ninterval = \"1 s\"\n\
                 layers = [\"tcp\", \"stcp\"]\n\n"
            ),
            _ => self.way.policies().into(),
        }
    }
}

impl Way {
    /// Name of the layer in the attacked node's configuration.
    pub fn layer(self) -> &'static str {
        match self {
            Way::Tcpcl | Way::Copies | Way::Custody | Way::Announced => "tcp",
            Way::Tls => "tls",
            Way::Old => "old",
            Way::Stcp => "stcp",
            Way::Mtcp => "mtcp",
        }
    }
    /// Kind of the layer in a node's configuration.
    pub fn kind(self) -> &'static str {
        match self {
            Way::Stcp => "stcp",
            Way::Mtcp => "mtcp",
            Way::Old => "tcpclv3",
            _ => "tcpclv4",
        }
    }
    /// Router and control of every node.
    pub fn policies(self) -> &'static str {
        match self {
            Way::Copies => "[router]\nname = \"epidemic\"\n\n[control]\nname = \"marginal-utility\"\n\n",
            Way::Custody => "[custody]\n\n[compressed_reports]\n\n",
            _ => "",
        }
    }
    /// The hostile neighbour's link in the attacked node's configuration.
    pub fn liar(self) -> String {
        match self {
            Way::Copies | Way::Custody | Way::Old => format!(
                "[link.liar]\nlayer = \"{}\"\npeer = \"ipn:66.0\"\naddress = \"{}:{}\"\nconnect = false\n\n",
                self.layer(),
                LIAR.0,
                LIAR.1
            ),
            Way::Mtcp => {
                format!("[link.liar]\nlayer = \"mtcp\"\npeer = \"ipn:66.0\"\naddress = \"{}:{}\"\n\n", LIAR.0, LIAR.1)
            }
            _ => String::new(),
        }
    }
}

/// TLS lines of a layer, for the node of this number.
pub fn secured(node: usize, certificates: &Path) -> String {
    let at = certificates.display();
    format!(
        "tls = \"require\"\ncertificate = \"{at}/ipn-{node}.pem\"\nkey = \"{at}/ipn-{node}.key\"\n\
         authorities = \"{at}/authority.pem\"\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_without_shards_are_left_out() {
        let possible = |case, shards| Setting::of(case, shards).is_possible();
        assert!(possible("liar", 1) && possible("announcements", 1) && possible("stcp-endless-heads", 4));
        assert!(!possible("liar", 2) && !possible("announcements", 4));
        assert_eq!(
            (Setting::of("reports", 1).shards(), Setting::of("reports", 2).shards()),
            ("".into(), "shards = 2\n".into())
        );
        assert!(Setting::of("mtcp-endless-heads", 1).sessions().starts_with("sessions = "));
    }
}
