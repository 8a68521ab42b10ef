#!/usr/bin/env python3
"""A node on pyD3TN's encoders and decoder, over MTCP or TCPCLv3, driven over standard input and output.

Frames, both ways: a letter, a length (4 bytes, big-endian) and so many bytes. It hears `S` (an endpoint, a
zero byte, a payload: send it), and says `K` (it is there), `A` (sent), `E` (not sent, and why), `D` (a payload
that came), `R` (a report of a delivery came). `trials/src/interop/pyd3tn.rs` starts it.
"""

import argparse
import socket
import struct
import sys
import threading
import time

from pyd3tn import bundle6, bundle7
from pyd3tn.helpers import sock_recv_raw
from pyd3tn.mtcp import MTCPConnection, MTCPSocket
from pyd3tn.sdnv import sdnv_decode
from pyd3tn.tcpcl import TCPCLConnection, decode_tcpcl_contact_header, serialize_tcpcl_contact_header

OUT = threading.Lock()


def say(letter, body=b""):
    with OUT:
        sys.stdout.buffer.write(letter + struct.pack("!I", len(body)) + body)
        sys.stdout.buffer.flush()


class Session(TCPCLConnection):
    """pyD3TN's takes all that came for the contact header; this one reads only the header."""

    def connect(self):
        self.sock.connect((self.host, self.port))
        self.sock.sendall(serialize_tcpcl_contact_header(self.eid))
        header = sock_recv_raw(self.sock, 9)
        while header[-1] & 0x80:
            header += sock_recv_raw(self.sock, 1)
        length, _ = sdnv_decode(header[8:])
        return decode_tcpcl_contact_header(header + sock_recv_raw(self.sock, length))


class Link:
    """The stream to the neighbour, opened anew when it broke."""

    def __init__(self, arguments):
        self.arguments, self.open, self.lock = arguments, None, threading.Lock()

    def connect(self):
        node, port = self.arguments.node, self.arguments.connect
        if self.arguments.layer == "mtcp":
            self.open = MTCPConnection("127.0.0.1", port)
            self.open.connect()
        else:
            self.open = Session(node, "127.0.0.1", port)
            self.open.connect()
            # Bundles come the same way.
            threading.Thread(target=read, args=(self.open, self.arguments, self), daemon=True).start()

    def send(self, bundle=None):
        with self.lock:
            for attempt in range(100):
                try:
                    if self.open is None:
                        self.connect()
                    return bundle and self.open.send_bundle(bundle)
                except OSError:
                    self.open = None
                    if attempt == 99:
                        raise
                    time.sleep(0.1)


def made7(at, source, destination, payload):
    """Bundles of every kind of checksum, with and without extension blocks."""
    kinds = [bundle7.CRCType.CRC32, bundle7.CRCType.CRC16]
    more = {}
    if at % 2:
        more["hop_limit"] = 30
    if at % 3 == 0:
        more["bundle_age"] = at
    if at % 5 == 0:
        more["previous_node_eid"] = source.rsplit(".", 1)[0] + ".0"
    flags = bundle7.BundleProcFlag.REPORT_DELIVERY
    if at % 7 == 0:
        flags |= bundle7.BundleProcFlag.REPORT_STATUS_TIME
    return bundle7.serialize_bundle7(
        source, destination, payload, report_to_eid=source, flags=flags,
        crc_type_primary=kinds[at % 2],
        crc_type_canonical=(kinds + [bundle7.CRCType.NONE])[at % 3], **more)


def check7(bundle):
    """Every checksum, as pyD3TN computes it from what it read."""
    for block in bundle:
        if block.crc_type == bundle7.CRCType.NONE:
            assert block.block_type != bundle7.BlockType.PRIMARY, "a primary block without a checksum"
        else:
            assert block.calculate_crc() == block.crc_provided, f"checksum of {block!r}"


def report7(node, bundle):
    primary = bundle.primary_block
    record = bundle7.BundleStatusReport.from_bundle(
        bundle7.StatusCode.DELIVERED_BUNDLE, bundle7.ReasonCode.NO_INFO, bundle)
    flags = bundle7.BundleProcFlag.ADMINISTRATIVE_RECORD
    return bundle7.serialize_bundle7(node, primary.report_to, record.data, flags=flags)


def come7(data, node, link):
    bundle = bundle7.Bundle.parse(data)
    check7(bundle)
    primary, payload = bundle.primary_block, bundle.payload_block.data
    if primary.has_flag(bundle7.BundleProcFlag.ADMINISTRATIVE_RECORD):
        record = bundle7.Bundle.parse_administrative_record(payload)
        if record.get("record_type") == bundle7.RecordType.BUNDLE_STATUS_REPORT:
            if record["record_data"][0][2][0]:
                say(b"R")
        return
    say(b"D", payload)
    if primary.has_flag(bundle7.BundleProcFlag.REPORT_DELIVERY):
        link.send(report7(node, bundle))


def come6(data):
    """pyD3TN only writes version 6: its blocks are walked by its numbers (RFC 5050 4.5)."""
    assert data[0] == 6, "not of version 6"

    def number(at):
        value, length = sdnv_decode(data[at:at + 10])
        return value, at + length

    flags, at = number(1)
    length, at = number(at)
    at += length
    while at < len(data):
        kind = data[at]
        block_flags, at = number(at + 1)
        if block_flags & bundle6.BlockFlag.HAS_EID_REF_FIELD:
            count, at = number(at)
            for _ in range(2 * count):
                _, at = number(at)
        length, at = number(at)
        body, at = data[at:at + length], at + length
        assert len(body) == length, "cut short"
        if kind == bundle6.BlockType.PAYLOAD and not flags & bundle6.RFC5050Flag.ADMINISTRATIVE_RECORD:
            say(b"D", bytes(body))
        if block_flags & bundle6.BlockFlag.LAST_BLOCK:
            assert at == len(data), "something after the last block"
            return
    raise AssertionError("no last block")


def serve(listener, arguments, link):
    while True:
        stream = MTCPSocket(listener.accept()[0])
        threading.Thread(target=read, args=(stream, arguments, link), daemon=True).start()


def read(stream, arguments, link):
    while True:
        try:
            data = stream.recv_bundle()
        except Exception as why:  # whatever it makes of a stream that ended
            print("stream:", repr(why), file=sys.stderr, flush=True)
            return
        try:
            if arguments.version == 6:
                come6(data)
            else:
                come7(data, arguments.node, link)
        except Exception as why:
            print("bundle:", repr(why), data[:200].hex(), file=sys.stderr, flush=True)


def heard():
    head = sys.stdin.buffer.read(5)
    if len(head) < 5:
        return None
    return head[:1], sys.stdin.buffer.read(struct.unpack("!I", head[1:])[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--version", type=int, required=True)
    parser.add_argument("--node", required=True)
    parser.add_argument("--layer", choices=["mtcp", "tcpclv3"], required=True)
    parser.add_argument("--listen", type=int, required=True)
    parser.add_argument("--connect", type=int, required=True)
    arguments = parser.parse_args()
    source = arguments.node.rsplit(".", 1)[0] + ".42"
    link = Link(arguments)
    if arguments.layer == "mtcp":
        listener = socket.create_server(("127.0.0.1", arguments.listen))
        threading.Thread(target=serve, args=(listener, arguments, link), daemon=True).start()
    else:
        link.send()
    say(b"K")
    at = 0
    while (frame := heard()) is not None:
        destination, payload = frame[1].split(b"\0", 1)
        destination = destination.decode("ascii")
        try:
            if arguments.version == 6:
                bundle = bundle6.serialize_bundle6(source, destination, payload)
            else:
                bundle = made7(at, source, destination, payload)
            link.send(bundle)
            say(b"A")
        except Exception as why:
            say(b"E", repr(why).encode())
        at += 1


if __name__ == "__main__":
    main()
