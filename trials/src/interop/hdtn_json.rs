//! JSON configuration of HDTN's programs for each layer, as the how-to guide shows it. The programs refuse unknown
//! keys.

use serde_json::{Value, json};

/// Largest bundle that HDTN accepts.
pub const BUNDLE_MAX: u64 = 60_000_000;
/// Pipeline bytes of an outduct, which must have room for two of the largest bundles.
const PIPELINE: u64 = 200_000_000;
/// Bundles that may wait for a stream between HDTN's programs; `bpreceivepacket` drops any more.
const NEAR: u64 = 10_000;
/// Keepalive interval of streams, s.
const KEEPALIVE: u64 = 15;
/// Largest LTP datagram that HDTN accepts, bytes.
const LTP_DATAGRAM: u64 = 2_000;
// Datagrams that may wait in memory, each in a buffer of full size.
const LTP_DATAGRAMS: u64 = 10_000;
const UDP_DATAGRAMS: u64 = 500;
/// Sending rate over datagrams, bit/s.
const RATE: u64 = 20_000_000;

/// A shared layer, under HDTN's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Duct {
    Ltp,
    Stcp,
    Tcpclv4,
    Tcpclv3,
    Udp,
}

impl Duct {
    pub const ALL: [Duct; 5] = [Duct::Ltp, Duct::Stcp, Duct::Tcpclv4, Duct::Tcpclv3, Duct::Udp];

    /// Name in HDTN's configuration.
    pub fn word(self) -> &'static str {
        match self {
            Duct::Ltp => "ltp_over_udp",
            Duct::Stcp => "stcp",
            Duct::Tcpclv4 => "tcpcl_v4",
            Duct::Tcpclv3 => "tcpcl_v3",
            Duct::Udp => "udp",
        }
    }
    /// Name of our layer for the table.
    pub fn layer(self) -> &'static str {
        match self {
            Duct::Ltp => "LTP",
            Duct::Stcp => "STCP",
            Duct::Tcpclv4 => "TCPCLv4",
            Duct::Tcpclv3 => "TCPCLv3",
            Duct::Udp => "UDPCL",
        }
    }
    /// Whether HDTN opens the session, which then serves both directions.
    fn it_connects(self) -> bool {
        matches!(self, Duct::Tcpclv4 | Duct::Tcpclv3)
    }
    /// Configuration of our layer and of the link to HDTN.
    pub fn ours(self, here: u16, there: u16) -> String {
        let (kind, more) = match self {
            Duct::Ltp => ("ltp", "one_way_delay = \"250 ms\"\nrate = \"20 Mbit/s\"\n"),
            Duct::Stcp => ("stcp", "reconnect_min = \"20 ms\"\nreconnect_max = \"200 ms\"\n"),
            Duct::Tcpclv4 => ("tcpclv4", ""),
            Duct::Tcpclv3 => ("tcpclv3", ""),
            Duct::Udp => ("udpcl", "datagram = \"65507 B\"\nrate = \"4 Mbit/s\"\n"),
        };
        // Without an address our node waits for HDTN to connect.
        let address = if self.it_connects() { String::new() } else { format!("address = \"127.0.0.1:{there}\"\n") };
        format!(
            "[layer.{kind}]\nkind = \"{kind}\"\nlisten = [\"127.0.0.1:{here}\"]\n\n\
             [link.hdtn]\nlayer = \"{kind}\"\npeer = \"ipn:10.0\"\n{address}{more}"
        )
    }
    /// Induct for bundles from us; `None` where HDTN connects.
    pub fn induct(self, (host, here): (&str, u16), there: u16) -> Option<Value> {
        let more = match self {
            Duct::Ltp => json!({
                "thisLtpEngineId": 10, "remoteLtpEngineId": 1, "clientServiceId": 1,
                "ltpRemoteUdpHostname": host, "ltpRemoteUdpPort": here,
                "ltpReportSegmentMtu": 1360, "oneWayLightTimeMs": 250, "oneWayMarginTimeMs": 200,
                "preallocatedRedDataBytes": 200_000, "ltpMaxRetriesPerSerialNumber": 20,
                "ltpRandomNumberSizeBits": 32,
                "ltpRxDataSegmentSessionNumberRecreationPreventerHistorySize": 1_000,
                "ltpMaxExpectedSimultaneousSessions": 500, "ltpMaxUdpPacketsToSendPerSystemCall": 1,
                "delaySendingOfReportSegmentsTimeMsOrZeroToDisable": 20, "keepActiveSessionDataOnDisk": false,
                "activeSessionDataOnDiskNewFileDurationMs": 2_000, "activeSessionDataOnDiskDirectory": "./"
            }),
            Duct::Stcp => json!({ "keepAliveIntervalSeconds": KEEPALIVE }),
            Duct::Udp => json!({ "numRxCircularBufferBytesPerElement": 65_535 }),
            Duct::Tcpclv4 | Duct::Tcpclv3 => return None,
        };
        let waiting = if self == Duct::Ltp { LTP_DATAGRAMS } else { UDP_DATAGRAMS };
        let first = json!({
            "name": "from farlink", "convergenceLayer": self.word(), "boundPort": there,
            "numRxCircularBufferElements": waiting
        });
        Some(joined(first, more))
    }
    /// Outduct for bundles to us. Over LTP, HDTN sends from the port of its induct.
    pub fn outduct(self, (host, here): (&str, u16), there: u16) -> Value {
        let more = match self {
            Duct::Ltp => json!({
                "thisLtpEngineId": 10, "remoteLtpEngineId": 1, "clientServiceId": 1, "ltpDataSegmentMtu": 1360,
                "oneWayLightTimeMs": 250, "oneWayMarginTimeMs": 200,
                "numRxCircularBufferElements": LTP_DATAGRAMS,
                "ltpMaxRetriesPerSerialNumber": 20, "ltpCheckpointEveryNthDataSegment": 0,
                "ltpRandomNumberSizeBits": 32, "ltpSenderBoundPort": there,
                "ltpMaxUdpPacketsToSendPerSystemCall": 1, "ltpSenderPingSecondsOrZeroToDisable": 15,
                "delaySendingOfDataSegmentsTimeMsOrZeroToDisable": 20, "keepActiveSessionDataOnDisk": false,
                "activeSessionDataOnDiskNewFileDurationMs": 2_000, "activeSessionDataOnDiskDirectory": "./"
            }),
            Duct::Stcp => json!({ "keepAliveIntervalSeconds": KEEPALIVE }),
            Duct::Tcpclv4 => json!({
                "keepAliveIntervalSeconds": KEEPALIVE, "tcpclAllowOpportunisticReceiveBundles": true,
                "tcpclV4MyMaxRxSegmentSizeBytes": 200_000, "tryUseTls": false, "tlsIsRequired": false,
                "useTlsVersion1_3": false, "doX509CertificateVerification": false,
                "verifySubjectAltNameInX509Certificate": false,
                "certificationAuthorityPemFileForVerification": ""
            }),
            Duct::Tcpclv3 => json!({
                "keepAliveIntervalSeconds": KEEPALIVE, "tcpclAllowOpportunisticReceiveBundles": true,
                "tcpclV3MyMaxTxSegmentSizeBytes": 200_000
            }),
            Duct::Udp => json!({}),
        };
        let first = json!({
            "name": "to farlink", "convergenceLayer": self.word(), "nextHopNodeId": 1, "remoteHostname": host,
            "remotePort": here, "maxNumberOfBundlesInPipeline": 50, "maxSumOfBundleBytesInPipeline": PIPELINE
        });
        joined(first, more)
    }
    /// Rate of the contact, bit/s; 0 is unlimited.
    fn rate(self) -> u64 {
        if matches!(self, Duct::Ltp | Duct::Udp) { RATE } else { 0 }
    }
}

fn joined(mut first: Value, more: Value) -> Value {
    // Both are objects by construction.
    if let (Some(first), Value::Object(more)) = (first.as_object_mut(), more) {
        first.extend(more);
    }
    first
}

/// Induct of a stream (STCP) between HDTN's programs.
pub fn stcp_induct(port: u16) -> Value {
    json!({ "inductConfigName": "near", "inductVector": [{
        "name": "near", "convergenceLayer": "stcp", "boundPort": port, "numRxCircularBufferElements": 200,
        "keepAliveIntervalSeconds": KEEPALIVE
    }] })
}

/// Outduct of a stream (STCP) between HDTN's programs, for bundles to `node`.
pub fn stcp_outduct(node: u64, port: u16) -> Value {
    json!({ "outductConfigName": "near", "outductVector": [{
        "name": "near", "convergenceLayer": "stcp", "nextHopNodeId": node, "remoteHostname": "127.0.0.1",
        "remotePort": port, "maxNumberOfBundlesInPipeline": NEAR, "maxSumOfBundleBytesInPipeline": PIPELINE,
        "keepAliveIntervalSeconds": KEEPALIVE
    }] })
}

/// Configuration of HDTN's node `ipn:10.0`. Ports: `here` of our node, `there` of HDTN, `streams` to and from HDTN's
/// applications (node 2), `zmq` of HDTN's own components.
pub fn node(duct: Duct, (here, there): (u16, u16), streams: (u16, u16), zmq: (u16, u16)) -> Value {
    let here = ("127.0.0.1", here);
    let (mut inducts, mut outducts) = (stcp_induct(streams.0), stcp_outduct(2, streams.1));
    if let Some(inducts) = inducts["inductVector"].as_array_mut() {
        // A session that HDTN opens serves both directions, so it needs no induct.
        inducts.extend(duct.induct(here, there));
    }
    if let Some(outducts) = outducts["outductVector"].as_array_mut() {
        outducts.push(duct.outduct(here, there));
    }
    json!({
        "hdtnConfigName": "hdtn", "userInterfaceOn": false, "mySchemeName": "unused_scheme_name",
        "myNodeId": 10, "myBpEchoServiceId": 2047, "myCustodialSsp": "unused_custodial_ssp",
        "myCustodialServiceId": 0, "myRouterServiceId": 100, "isAcsAware": true, "acsMaxFillsPerAcsPacket": 100,
        "acsSendPeriodMilliseconds": 1_000, "retransmitBundleAfterNoCustodySignalMilliseconds": 10_000,
        "maxBundleSizeBytes": BUNDLE_MAX, "maxIngressBundleWaitOnEgressMilliseconds": 2_000,
        "bufferRxToStorageOnLinkUpSaturation": false, "maxLtpReceiveUdpPacketSizeBytes": LTP_DATAGRAM,
        "neighborDepletedStorageDelaySeconds": 0, "fragmentBundlesLargerThanBytes": 0,
        "enforceBundlePriority": false, "zmqBoundRouterPubSubPortPath": zmq.0, "zmqBoundTelemApiPortPath": zmq.1,
        "inductsConfig": inducts, "outductsConfig": outducts,
        "storageConfig": {
            "storageImplementation": "asio_single_threaded", "tryToRestoreFromDisk": true,
            // Bundles survive a restart: trials kill the node.
            "autoDeleteFilesOnExit": false, "totalStorageCapacityBytes": 2_000_000_000_u64,
            "storageDeletionPolicy": "never",
            "storageDiskConfigVector": [{ "name": "d1", "storeFilePath": "./store1.bin" }]
        }
    })
}

/// Contacts of HDTN with our node and with HDTN's own applications, for ten days.
pub fn contacts(duct: Duct) -> Value {
    let contact = |number: u64, (source, dest): (u64, u64), rate: u64| {
        json!({
            "contact": number, "source": source, "dest": dest, "startTime": 0, "endTime": 864_000,
            "rateBitsPerSec": rate, "owlt": 1
        })
    };
    let rate = duct.rate();
    // HDTN sends to a node only during a contact with it.
    json!({ "contacts": [contact(0, (10, 1), rate), contact(1, (10, 2), 0)] })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The named list from the guide.
    fn shown(guide: &str, list: &str) -> Value {
        let begin = guide.find(&format!("\"{list}\"")).unwrap_or_else(|| panic!("the guide does not show {list}"));
        let (block, _) = guide[begin..].split_once("```").unwrap();
        let whole: Value = serde_json::from_str(&format!("{{{block}}}")).unwrap();
        whole[list].clone()
    }

    #[test]
    fn guide_shows_tried_settings() {
        let guide = crate::tools::root().join("docs/how-to/interoperate.md");
        let guide = std::fs::read_to_string(guide).unwrap();
        let here = ("10.0.0.1", 1113);
        assert_eq!(shown(&guide, "inductVector"), json!([Duct::Ltp.induct(here, 1113)]));
        assert_eq!(shown(&guide, "outductVector"), json!([Duct::Ltp.outduct(here, 1113)]));
    }

    #[test]
    fn pipeline_fits_two_longest_bundles() {
        let node = node(Duct::Tcpclv4, (1, 2), (3, 4), (5, 6));
        let longest = node["maxBundleSizeBytes"].as_u64().unwrap();
        for duct in node["outductsConfig"]["outductVector"].as_array().unwrap() {
            assert!(duct["maxSumOfBundleBytesInPipeline"].as_u64().unwrap() >= 2 * longest, "{duct}");
        }
    }

    #[test]
    fn induct_and_outduct_mirror_ours() {
        for duct in Duct::ALL {
            let (ours, theirs) = (duct.ours(1, 2), node(duct, (1, 2), (3, 4), (5, 6)).to_string());
            assert!(ours.contains("listen = [\"127.0.0.1:1\"]") && theirs.contains("\"remotePort\":1"), "{duct:?}");
            assert_eq!(ours.contains("address = \"127.0.0.1:2\""), theirs.contains("\"boundPort\":2"), "{duct:?}");
        }
    }

    #[test]
    fn every_destination_has_a_contact() {
        let theirs = node(Duct::Udp, (1, 2), (3, 4), (5, 6));
        let next: Vec<&Value> = theirs["outductsConfig"]["outductVector"].as_array().unwrap().iter().collect();
        let contacts = contacts(Duct::Udp);
        let listed = contacts["contacts"].as_array().unwrap();
        for duct in &next {
            assert!(listed.iter().any(|contact| contact["dest"] == duct["nextHopNodeId"] && contact["source"] == 10));
        }
        assert_eq!((next.len(), listed.len()), (2, 2));
    }
}
