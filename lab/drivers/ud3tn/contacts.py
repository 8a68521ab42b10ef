"""Gives a node of µD3TN its contacts, for a day: contacts.py SOCKET NODE_ID FILE. Speaks its application agent protocol
(AAP, https://gitlab.com/d3tn/ud3tn/-/blob/master/doc/ud3tn_aap.md). Each line of the file is a contact without its
times, and its rate in bytes/s after the last colon."""

import socket
import struct
import sys
import time

ACK, REGISTER, SENDBUNDLE, SENDCONFIRM, WELCOME = 0x10, 0x12, 0x13, 0x15, 0x17
DTN_EPOCH = 946_684_800  # 2000-01-01 in Unix time, s
DAY = 86_400


def text(words):
    return struct.pack(">H", len(words)) + words.encode()


def answer(stream, wanted):
    kind = stream.read(1)
    if kind != bytes([wanted]):
        sys.exit(f"the node answers {kind.hex()} instead of {wanted:x}")
    if wanted == WELCOME:
        stream.read(struct.unpack(">H", stream.read(2))[0])
    if wanted == SENDCONFIRM:
        stream.read(8)


path, node, contacts = sys.argv[1:]
agent = node.rsplit(".", 1)[0] + ".9000" if node.startswith("ipn:") else node + "config"
with socket.socket(socket.AF_UNIX) as made, open(contacts) as file:
    made.settimeout(20)
    made.connect(path)
    stream = made.makefile("rwb")
    answer(stream, WELCOME)
    stream.write(bytes([REGISTER]) + text("9001" if node.startswith("ipn:") else "contacts"))
    stream.flush()
    answer(stream, ACK)
    now = int(time.time()) - DTN_EPOCH
    for line in filter(str.strip, file):
        contact, rate = line.strip().rsplit(":", 1)
        command = f"{contact}:[{{{now - 1},{now + DAY},{rate}}}];".encode()
        stream.write(bytes([SENDBUNDLE]) + text(agent) + struct.pack(">Q", len(command)) + command)
        stream.flush()
        answer(stream, SENDCONFIRM)
