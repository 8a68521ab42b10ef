//! What is particular about the nodes of a case.

use super::stage::LIAR;
use std::path::Path;

/// Setup of a case's nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// By what the first neighbour is reached, and what the nodes do with bundles.
    pub way: Way,
    /// Owner threads of the node under attack.
    pub shards: u8,
    /// Most sessions of each of its layers over TCP; none: as many as by default.
    pub sessions: Option<u32>,
}

/// Sessions where thousands are to be open at once.
const CROWD: u32 = 5000;

/// By what the first neighbour is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// TCPCLv4.
    Tcpcl,
    /// The same with TLS.
    Tls,
    /// TCPCLv3.
    Old,
    /// STCP.
    Stcp,
    /// MTCP.
    Mtcp,
    /// TCPCLv4, where all nodes copy bundles and tell each other what they know.
    Copies,
    /// TCPCLv4, where all nodes take custody, and report compressed.
    Custody,
    /// TCPCLv4, where the node under attack finds neighbours by announcements.
    Announced,
}

impl Setting {
    /// A case that attacks a stream layer has its neighbour over it; all others have one over TCPCLv4.
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
    /// Whether a node may have so many owner threads with it.
    pub fn is_possible(self) -> bool {
        self.shards == 1 || !matches!(self.way, Way::Copies | Way::Announced)
    }
    /// First lines of the node under attack.
    pub fn shards(self) -> String {
        if self.shards > 1 { format!("shards = {}\n", self.shards) } else { String::new() }
    }
    /// Lines of each layer over TCP of the node under attack.
    pub fn sessions(self) -> String {
        self.sessions.map_or_else(String::new, |most| format!("sessions = {most}\n"))
    }
    /// Lines of the node under attack: what it does besides, where it hears announcements at this address.
    pub fn besides(self, announcements: &str) -> String {
        match self.way {
            // Who asks for custody keeps its bundles through a restart.
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
    /// Name of the layer in the node under attack.
    pub fn layer(self) -> &'static str {
        match self {
            Way::Tcpcl | Way::Copies | Way::Custody | Way::Announced => "tcp",
            Way::Tls => "tls",
            Way::Old => "old",
            Way::Stcp => "stcp",
            Way::Mtcp => "mtcp",
        }
    }
    /// Its kind.
    pub fn kind(self) -> &'static str {
        match self {
            Way::Stcp => "stcp",
            Way::Mtcp => "mtcp",
            Way::Old => "tcpclv3",
            _ => "tcpclv4",
        }
    }
    /// Lines of each node: what decides where bundles go, and how long they are kept.
    pub fn policies(self) -> &'static str {
        match self {
            Way::Copies => "[router]\nname = \"epidemic\"\n\n[control]\nname = \"marginal-utility\"\n\n",
            Way::Custody => "[custody]\n\n[compressed_reports]\n\n",
            _ => "",
        }
    }
    /// Lines of the node under attack: who else is a neighbour of it.
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

/// Lines of a layer that is secured, for a node of this number.
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
