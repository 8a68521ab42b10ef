//! Configuration of an ION node and ours for each layer, as the how-to guide shows it.

/// A shared layer, under ION's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duct {
    Ltp,
    Stcp,
    Tcp,
    Udp,
}

impl Duct {
    pub const ALL: [Duct; 4] = [Duct::Ltp, Duct::Stcp, Duct::Tcp, Duct::Udp];

    /// Name of the protocol in ION's configuration.
    pub fn word(self) -> &'static str {
        match self {
            Duct::Ltp => "ltp",
            Duct::Stcp => "stcp",
            Duct::Tcp => "tcp",
            Duct::Udp => "udp",
        }
    }
    /// Name of our layer for the table.
    pub fn layer(self) -> &'static str {
        match self {
            Duct::Ltp => "LTP",
            Duct::Stcp => "STCP",
            Duct::Tcp => "TCPCLv3",
            Duct::Udp => "UDPCL",
        }
    }
    /// Configuration of our layer and of the link to ION.
    pub fn ours(self, here: &str, there: &str) -> String {
        let (kind, more) = match self {
            Duct::Ltp => ("ltp", "one_way_delay = \"250 ms\"\nrate = \"20 Mbit/s\"\nsessions = 80\n"),
            Duct::Stcp => ("stcp", ""),
            Duct::Tcp => ("tcpclv3", ""),
            Duct::Udp => ("udpcl", "datagram = \"65507 B\"\nrate = \"4 Mbit/s\"\n"),
        };
        let again = match self {
            Duct::Stcp | Duct::Tcp => "reconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n",
            Duct::Ltp | Duct::Udp => "",
        };
        // Over TCPCLv3 ION connects, and one session serves both directions.
        let address = if self == Duct::Tcp { String::new() } else { format!("address = \"{there}\"\n") };
        format!(
            "[layer.{word}]\nkind = \"{kind}\"\nlisten = [\"{here}\"]\n\n\
             [link.ion]\nlayer = \"{word}\"\npeer = \"ipn:2.0\"\n{address}{more}{again}",
            word = self.word()
        )
    }
    /// Induct, outduct and plan in ION's configuration.
    fn ducts(self, here: &str, there: &str) -> (String, String) {
        let word = self.word();
        let (induct, outduct) = match self {
            Duct::Ltp => ("2".into(), "1".to_string()),
            _ => (there.to_string(), here.to_string()),
        };
        // Sessions of ION's `tcpcli` serve both directions, so its outduct starts no program.
        let sends = match self {
            Duct::Tcp => "''".into(),
            // A build of version 6 expects a round-trip time here; version 7 ignores it.
            Duct::Udp => "'udpclo 1'".into(),
            Duct::Ltp | Duct::Stcp => format!("{word}clo"),
        };
        let bp = format!(
            "a protocol {word} 1400 100\na induct {word} {induct} {word}cli\na outduct {word} {outduct} {sends}\n"
        );
        (bp, format!("a plan 1 {word}/{outduct}\n"))
    }
}

/// Contents of `node.ionconfig`. The heap holds waiting bundles; its default is a tenth of this.
pub const CONFIG: &str = "configFlags 1\nheapWords 25000000\nwmSize 50000000\nsdrWmSize 10000000\n";

/// Contents of `node.rc`: node 2 at `there`, with node 1 at `here`.
pub fn node(duct: Duct, here: &str, there: &str) -> String {
    // Rates that udpcli and udplsi read without loss, and more for streams; bytes per second.
    let rate = if matches!(duct, Duct::Ltp | Duct::Udp) { 2_500_000 } else { 12_500_000 };
    let (bp, plan) = duct.ducts(here, there);
    let ltp = if duct == Duct::Ltp {
        format!(
            "## begin ltpadmin\n1 100\na span 1 100 100 1360 100000 1 'udplso {here}'\nm maxber .00001\n\
             s 'udplsi {there}'\n## end ltpadmin\n\n"
        )
    } else {
        String::new()
    };
    format!(
        "## begin ionadmin\n1 2 node.ionconfig\ns\na contact +0 +86400 2 1 {rate}\na contact +0 +86400 1 2 {rate}\n\
         a range +0 +86400 1 2 1\nm production {rate}\nm consumption {rate}\n## end ionadmin\n\n{ltp}\
         ## begin bpadmin\n1\na scheme ipn 'ipnfw' 'ipnadminep'\na endpoint ipn:2.0 q\na endpoint ipn:2.1 q\n\
         a endpoint ipn:2.42 q\na endpoint ipn:2.43 q\na endpoint ipn:2.65 q\n{bp}s\n## end bpadmin\n\n\
         ## begin ipnadmin\n{plan}## end ipnadmin\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guide_shows_tried_settings() {
        let guide = crate::tools::root().join("docs/how-to/interoperate.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        let shown = node(Duct::Ltp, "10.0.0.1:1113", "10.0.0.2:1113");
        assert!(guide.contains(&shown), "the guide does not show:\n{shown}");
        assert!(guide.contains(CONFIG), "the guide does not show:\n{CONFIG}");
        for duct in [Duct::Stcp, Duct::Tcp, Duct::Udp] {
            let (bp, plan) = duct.ducts("10.0.0.1:4556", "10.0.0.2:4556");
            assert!(guide.contains(&bp) && guide.contains(plan.trim_end()), "the guide does not show:\n{bp}{plan}");
        }
    }

    #[test]
    fn duct_names_match() {
        for duct in Duct::ALL {
            let (ours, theirs) = (duct.ours("127.0.0.1:1", "127.0.0.1:2"), node(duct, "127.0.0.1:1", "127.0.0.1:2"));
            assert!(ours.contains("listen = [\"127.0.0.1:1\"]") && theirs.contains("127.0.0.1:2"), "{ours}{theirs}");
            assert!(theirs.contains("127.0.0.1:1") && theirs.contains(&format!("a plan 1 {}/", duct.word())));
        }
    }
}
