"""Announces neighbours to the dtn7-go of this host, once a second, as their own announcements would: from their
addresses, since dtn7-go connects to where an announcement came from. Each line of the file has the address of this
end of the link, and the neighbour's address, port and node ID."""

import socket
import struct
import sys
import time

PORT = 35039  # of dtn7-go's discovery
MTCP = 10


def announcement(port, node):
    name = node.removeprefix("dtn:").encode()
    size = bytes([0x60 | len(name)]) if len(name) < 24 else bytes([0x78, len(name)])
    return b"\x81\x83" + bytes([MTCP]) + b"\x82\x01" + size + name + b"\x19" + struct.pack(">H", port)


def bound(address):
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    # Permits a source address that is not of this host.
    made.setsockopt(socket.IPPROTO_IP, 19, 1)  # IP_TRANSPARENT
    made.bind((address, 0))
    return made


with open(sys.argv[1]) as file:
    lines = [line.split() for line in file if line.strip()]
neighbours = [(bound(peer), here, announcement(int(port), node)) for here, peer, port, node in lines]
while True:
    for sender, here, words in neighbours:
        sender.sendto(words, (here, PORT))
    time.sleep(1)
