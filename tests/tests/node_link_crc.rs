//! CRCs that the links of a real node give to its bundles, read from the wire; a reload changes them without touching
//! the links.

use crate::node_support::{Node, port};
use farlink_aap2::proto::{AapStatus, BundleAdu};
use farlink_apps::http;
use farlink_base::{Accel, CrcType, Payload};
use farlink_bundle::{Bundle, Profile, decode};
use std::net::UdpSocket;
use std::path::Path;
use std::time::Duration;

/// Node file with UDP links to nodes 2 and 3, and these CRCs on them.
fn write(file: &Path, shards: u8, here: [u16; 2], neighbours: &[UdpSocket; 2], crcs: [&str; 2]) {
    let mut text = format!(
        "node_ids = \"ipn:1.0\"\nshards = {shards}\n[store]\nkind = \"memory\"\n[app]\nsocket = \"1.sock\"\n\
         [routes]\n\"ipn:2.*\" = \"ipn:2.0\"\n\"ipn:3.*\" = \"ipn:3.0\"\n"
    );
    for (number, ((neighbour, port), crc)) in (2..).zip(neighbours.iter().zip(here).zip(crcs)) {
        let address = neighbour.local_addr().unwrap();
        text += &format!(
            "[layer.l{number}]\nkind = \"udpcl\"\nlisten = \"127.0.0.1:{port}\"\n[link.to{number}]\n\
             layer = \"l{number}\"\npeer = \"ipn:{number}.0\"\naddress = \"{address}\"\ncrc = \"{crc}\"\n"
        );
    }
    std::fs::write(file, text).unwrap();
}
/// The next bundle of an application that comes to a neighbour.
fn next(neighbour: &UdpSocket) -> Bundle {
    let mut room = [0; 2000];
    loop {
        let len = neighbour.recv(&mut room).expect("a bundle comes");
        // Keepalives and hellos come, too.
        let bundle = decode(&Payload::from(room[..len].to_vec()), Profile::Strict, &Accel::default());
        if let Some(bundle) = bundle.ok().filter(|bundle| !bundle.is_administrative()) {
            return bundle;
        }
    }
}
/// CRC types of the hop-count and the payload block of a new bundle to each neighbour.
fn sent(node: &Node, neighbours: &[UdpSocket; 2]) -> [[CrcType; 2]; 2] {
    let mut sender = node.client("99", 0);
    [2, 3].map(|number| {
        let adu = BundleAdu { dst_eid: format!("ipn:{number}.64"), ..Default::default() };
        sender.send(adu, b"payload").unwrap();
        assert_eq!(sender.response().unwrap().response_status(), AapStatus::Success);
        let bundle = next(&neighbours[number - 2]);
        assert!(bundle.primary.crc == CrcType::Crc32c && bundle.hop_count().is_some());
        [bundle.extensions[0].crc, bundle.payload_crc]
    })
}

#[test]
fn reload_changes_crc_of_links() {
    for shards in [1, 2] {
        let folder = tempfile::tempdir().unwrap();
        let neighbours = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        neighbours.iter().for_each(|socket| socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap());
        let (file, here) = (folder.path().join("1.toml"), [port(), port()]);
        write(&file, shards, here, &neighbours, ["none", "node"]);
        let node = Node::start(&file, folder.path().join("1.sock"));
        assert_eq!(sent(&node, &neighbours), [[CrcType::None; 2], [CrcType::Crc32c; 2]], "{shards} shards");
        write(&file, shards, here, &neighbours, ["crc16", "none"]);
        let control = folder.path().join("1.control.sock").display().to_string();
        let (code, said) = http::request("POST", &control, "/reload", "").unwrap();
        assert!(code == 200 && said.contains("\"needs_restart\":[]"), "{said}");
        assert_eq!(sent(&node, &neighbours), [[CrcType::Crc16; 2], [CrcType::None; 2]], "{shards} shards");
        assert!(!node.log().contains("removed"), "the links stay");
    }
}
