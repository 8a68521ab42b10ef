//! HDTN: the one-process node, over STCP and TCPCLv4, configured as its own scripts do. HDTN refuses unknown JSON keys,
//! so each layer gets its own keys only.

use super::only;
use farlink_apps::bench::{BenchOptions, Middle, Ports};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Longest bundle accepted, bytes.
const BUNDLE_MAX: u64 = 20_000_000;
/// Most bytes that wait for the sink; HDTN requires at least twice [`BUNDLE_MAX`].
const PIPELINE: u64 = 200_000_000;

/// Path of the program `hdtn-one-process`.
pub struct Hdtn(pub PathBuf);

impl Middle for Hdtn {
    fn name(&self) -> String {
        "hdtn".into()
    }
    fn prepare(&mut self, options: &BenchOptions, ports: &Ports, folder: &Path) -> anyhow::Result<Command> {
        only(options, &["stcp", "tcpclv4"])?;
        let free = || Ok::<u16, std::io::Error>(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
        let config = config(options.layer, ports, (free()?, free()?));
        std::fs::write(folder.join("hdtn.json"), format!("{config:#}\n"))?;
        // Ten days: longer than any benchmark.
        let contact = |number: u64, dest: u64| {
            json!({ "contact": number, "source": 3, "dest": dest, "startTime": 0, "endTime": 864_000,
                    "rateBitsPerSec": 0, "owlt": 1 })
        };
        std::fs::write(folder.join("contacts.json"), json!({ "contacts": [contact(0, 2)] }).to_string())?;
        let mut command = Command::new(&self.0);
        command.current_dir(folder);
        command.args(["--hdtn-config-file=hdtn.json", "--contact-plan-file=contacts.json"]);
        Ok(command)
    }
}

fn config(layer: &str, ports: &Ports, zmq: (u16, u16)) -> Value {
    let (word, session) = match layer {
        "stcp" => ("stcp", json!({})),
        _ => (
            "tcpcl_v4",
            json!({ "tcpclV4MyMaxRxSegmentSizeBytes": 200_000, "tryUseTls": false, "tlsIsRequired": false }),
        ),
    };
    let mut induct = json!({
        "name": "in", "convergenceLayer": word, "boundPort": ports.middle, "numRxCircularBufferElements": 200,
        "keepAliveIntervalSeconds": 15
    });
    let mut outduct = json!({
        "name": "out", "convergenceLayer": word, "nextHopNodeId": 2, "remoteHostname": "127.0.0.1",
        "remotePort": ports.sink, "maxNumberOfBundlesInPipeline": 1_000, "maxSumOfBundleBytesInPipeline": PIPELINE,
        "keepAliveIntervalSeconds": 15
    });
    // HDTN refuses keys of another layer: these are TCPCLv4's.
    if word == "tcpcl_v4" {
        for (key, value) in session.as_object().into_iter().flatten() {
            induct[key] = value.clone();
            outduct[key] = value.clone();
        }
        induct["numRxCircularBufferBytesPerElement"] = 20_000.into();
        induct["certificatePemFile"] = "".into();
        induct["privateKeyPemFile"] = "".into();
        induct["diffieHellmanParametersPemFile"] = "".into();
        outduct["tcpclAllowOpportunisticReceiveBundles"] = true.into();
        outduct["useTlsVersion1_3"] = false.into();
        outduct["doX509CertificateVerification"] = false.into();
        outduct["verifySubjectAltNameInX509Certificate"] = false.into();
        outduct["certificationAuthorityPemFileForVerification"] = "".into();
    }
    json!({
        "hdtnConfigName": "between", "userInterfaceOn": false, "mySchemeName": "unused_scheme_name", "myNodeId": 3,
        "myBpEchoServiceId": 2047, "myCustodialSsp": "unused_custodial_ssp", "myCustodialServiceId": 0,
        "myRouterServiceId": 100, "isAcsAware": true, "acsMaxFillsPerAcsPacket": 100,
        "acsSendPeriodMilliseconds": 1_000, "retransmitBundleAfterNoCustodySignalMilliseconds": 10_000,
        "maxBundleSizeBytes": BUNDLE_MAX, "maxIngressBundleWaitOnEgressMilliseconds": 2_000,
        "bufferRxToStorageOnLinkUpSaturation": false, "maxLtpReceiveUdpPacketSizeBytes": 65_536,
        "neighborDepletedStorageDelaySeconds": 0, "fragmentBundlesLargerThanBytes": 0,
        "enforceBundlePriority": false, "zmqBoundRouterPubSubPortPath": zmq.0, "zmqBoundTelemApiPortPath": zmq.1,
        "inductsConfig": { "inductConfigName": "in", "inductVector": [induct] },
        "outductsConfig": { "outductConfigName": "out", "outductVector": [outduct] },
        "storageConfig": {
            "storageImplementation": "asio_single_threaded", "tryToRestoreFromDisk": false,
            "autoDeleteFilesOnExit": true, "totalStorageCapacityBytes": 8_000_000_000_u64,
            "storageDeletionPolicy": "never",
            "storageDiskConfigVector": [{ "name": "d1", "storeFilePath": "./store1.bin" }]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_listens_and_connects_to_sink() {
        let ports = Ports { generator: 1, sink: 2, middle: 3 };
        for layer in ["stcp", "tcpclv4"] {
            let config = config(layer, &ports, (4, 5));
            let (induct, outduct) =
                (&config["inductsConfig"]["inductVector"][0], &config["outductsConfig"]["outductVector"][0]);
            assert_eq!((induct["boundPort"].as_u64(), outduct["remotePort"].as_u64()), (Some(3), Some(2)));
            let most = config["maxBundleSizeBytes"].as_u64().unwrap();
            assert!(outduct["maxSumOfBundleBytesInPipeline"].as_u64().unwrap() >= 2 * most);
        }
    }
}
