#!/usr/bin/env python3
"""A node of bundle protocol version 7 (RFC 9171) over TCPCLv4 (RFC 9174), as small as one can be: it keeps bundles in
memory, forwards them by a static table, answers pings at service 7, and serves applications over HTTP as dtn7-rs does.
It reads bundles with any checksums, verifies none, and makes CRC-32C."""

import argparse
import collections
import http.server
import itertools
import queue
import socket
import struct
import threading
import time
import urllib.parse

SEGMENT, ACK, REFUSE, KEEPALIVE, TERM, REJECT, INIT = range(1, 8)
END, START = 1, 2
KEEPALIVE_S = 30
MOST = 256 << 20  # bytes of a bundle, a segment or a request


def head(kind, number):
    for code, form in ((24, "B"), (25, "H"), (26, "I"), (27, "Q")):
        if number < 24 or number < 256 ** struct.calcsize(form):
            return bytes([kind << 5 | number]) if number < 24 else struct.pack(">B" + form, kind << 5 | code, number)


def encode(value):
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(encode, value))
    return head(2, len(value)) + value if isinstance(value, bytes) else head(0, value)


def decode(data, at):
    kind, number, at = data[at] >> 5, data[at] & 31, at + 1
    if 24 <= number <= 27:
        size = 1 << number - 24
        number, at = int.from_bytes(data[at:at + size], "big"), at + size
    if kind in (2, 3):
        return data[at:at + number], at + number
    items = []
    for _ in range(number if kind == 4 else 0):
        item, at = decode(data, at)
        items.append(item)
    return items if kind == 4 else number, at


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 255]
    return crc ^ 0xffffffff


TABLE = list(range(256))
for _ in range(8):
    TABLE = [crc >> 1 ^ (0x82F63B78 if crc & 1 else 0) for crc in TABLE]


def sealed(block):
    """Encodes a block with its CRC, the last item, which counts as zero (RFC 9171 section 4.2.1)."""
    data = encode(block + [bytes(4)])
    return data[:-4] + struct.pack(">I", crc32c(data))


def blocks(bundle):
    """The blocks of a bundle, each decoded and as it is."""
    if bundle[0] != 0x9f:
        raise ValueError("no bundle of version 7")
    at, found = 1, []
    while bundle[at] != 0xff:
        block, end = decode(bundle, at)
        found.append((block, bundle[at:end]))
        at = end
    return found


def next_hop(found):
    """A bundle for the next hop: without the previous node (type 6), one hop older (type 10)."""
    parts = [found[0][1]]
    for block, raw in found[1:]:
        if block[0] == 10:
            limit, hops = decode(block[4], 0)[0]
            raw = sealed([*block[:3], 2, encode([limit, hops + 1])])
        parts += [raw] if block[0] != 6 else []
    return b"\x9f" + b"".join(parts) + b"\xff"


class Session:
    """A TCPCLv4 session; the thread that made it reads, another writes."""

    def __init__(self, node, sock, active):
        self.node, self.sock, self.stream, self.out = node, sock, sock.makefile("rb"), queue.SimpleQueue()
        self.ids, self.answered, self.open, own = itertools.count(), threading.Semaphore(0), True, node.id.encode()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, node.args.nagle == "off")
        threading.Thread(target=self.writer, daemon=True).start()
        # Without keepalives dtn7-rs ends a session at once.
        init = struct.pack(">BHQQH", INIT, KEEPALIVE_S, MOST, MOST, len(own)) + own + bytes(4)
        self.write(b"dtn!\4\0" if active else b"")
        if self.read("6s")[0][:5] != b"dtn!\4":
            raise OSError("not TCPCLv4")
        self.write(init if active else b"dtn!\4\0" + init)
        _, _, self.segment, _, length = self.read("BHQQH")
        self.peer = int(self.read(f"{length}s")[0].decode().removeprefix("ipn:").split(".")[0])
        self.read(f"{self.read('I')[0]}s")

    def read(self, form):
        data = self.stream.read(struct.calcsize(">" + form))
        if len(data) < struct.calcsize(">" + form):
            raise OSError("the session ended")
        return struct.unpack(">" + form, data)

    def write(self, data, waits=False):
        """Queues data; if it waits, then for 10 ms at most, to leave in one write with what comes next."""
        self.out.put((data, waits))

    def writer(self):
        try:
            while item := self.out.get():
                data, waits = item
                while waits:
                    try:
                        more, waits = self.out.get(timeout=0.01) or (b"", self.out.put(None))
                    except queue.Empty:
                        break
                    data += more
                self.sock.sendall(data)
        except OSError:
            self.sock.close()

    def send(self, data):
        """Sends a bundle and waits until it is acknowledged; returns whether it was."""
        number, size = next(self.ids), min(self.segment, MOST)
        self.sending = number, len(data)
        for at in range(0, len(data), size):
            part, flags = data[at:at + size], (START if at == 0 else 0) | (END if at + size >= len(data) else 0)
            front = struct.pack(">BBQ", SEGMENT, flags, number) + bytes(4 if at == 0 else 0)
            self.write(front + struct.pack(">Q", len(part)) + part)
        self.answered.acquire()
        return self.open

    def run(self):
        data = bytearray()
        try:
            while (kind := self.read("B")[0]) != TERM:
                if kind == SEGMENT:
                    flags, number = self.read("BQ")
                    if flags & START:
                        data.clear()
                        self.read(f"{self.read('I')[0]}s")
                    data += self.read(f"{min(self.read('Q')[0], MOST)}s")[0]
                    if flags & END:
                        self.node.take(bytes(data))
                    # With Nagle's algorithm, what follows an acknowledgment that leaves alone is held until the
                    # other end acknowledges it, which TCP delays by 40 ms.
                    waits = self.node.args.nagle == "on" and number % 3 != 0
                    self.write(struct.pack(">BBQQ", ACK, flags, number, len(data)), waits)
                elif kind in (ACK, REFUSE):
                    _, number, *length = self.read("BQQ" if kind == ACK else "BQ")
                    # By the length: dtn7-rs leaves the flags out.
                    if kind == REFUSE or (number, *length) == self.sending:
                        self.answered.release()
                elif kind == REJECT:
                    self.read("BB")
                elif kind != KEEPALIVE:
                    raise OSError(f"a message of the unknown kind {kind}")
            self.write(struct.pack(">BBB", TERM, 1, 0))
        finally:
            self.open = False
            self.answered.release()
            self.out.put(None)
            self.sock.close()


class Node:
    def __init__(self, args):
        self.args, self.id, self.sequence = args, f"ipn:{args.node}.0", itertools.count()
        self.routes = {int(node): int(via) for node, via in (route.split("=") for route in args.route)}
        self.boxes, self.sessions, self.changed = collections.defaultdict(collections.deque), {}, threading.Condition()

    def send(self, service, to, payload, lifetime):
        made = [int(time.time() * 1000) - 946684800000, next(self.sequence)]
        primary = sealed([7, 4, 2, [2, to], [2, [self.args.node, service]], [1, 0], made, lifetime])
        if self.args.payload_crc == "none":
            return self.take(b"\x9f" + primary + encode([1, 1, 0, 0, payload]) + b"\xff")
        self.take(b"\x9f" + primary + sealed([1, 1, 0, 2, payload]) + b"\xff")

    def take(self, data):
        """Delivers a bundle here, answers it, or queues it for its next hop."""
        try:
            found = blocks(data)
            flags, (_, (node, service)), source = found[0][0][1], found[0][0][3], found[0][0][4]
        except (ValueError, IndexError, TypeError) as why:
            return print("dropped:", repr(why), flush=True)
        here = node == self.args.node
        if here and (flags & 1 or service == 7):
            # Fragments are not put together.
            return None if flags & 1 else self.send(7, source[1], found[-1][0][4], 3_600_000)
        box = ("service", service) if here else ("node", self.routes.get(node, self.routes.get(0, node)))
        with self.changed:
            self.boxes[box].append(data if here else next_hop(found))
            self.changed.notify_all()

    def wait(self, box, seconds):
        """The oldest bundle of a box, which stays there."""
        with self.changed:
            self.changed.wait_for(lambda: self.boxes[box], seconds)
            return self.boxes[box][0] if self.boxes[box] else None

    def forward(self, session):
        """Sends what waits for a neighbour over its latest session; what was not acknowledged stays."""
        while session.open and self.sessions[session.peer] is session:
            data = self.wait(("node", session.peer), 1)
            if not data:
                session.write(bytes([KEEPALIVE]))
            elif session.send(data):
                self.boxes["node", session.peer].popleft()

    def session(self, sock, active):
        try:
            session = Session(self, sock, active)
            self.sessions[session.peer] = session
            threading.Thread(target=self.forward, args=(session,), daemon=True).start()
            session.run()
        except (OSError, ValueError) as why:
            print("session:", why, flush=True)

    def connect(self, address):
        while True:
            try:
                self.session(socket.create_connection(address), True)
            except OSError:
                pass
            time.sleep(0.1)

    def listen(self, address):
        server = socket.create_server(address)
        while True:
            threading.Thread(target=self.session, args=(server.accept()[0], False), daemon=True).start()


class Server(http.server.ThreadingHTTPServer):
    request_queue_size, daemon_threads = 128, True


class Web(http.server.BaseHTTPRequestHandler):
    protocol_version, disable_nagle_algorithm, node = "HTTP/1.1", True, None

    def answer(self, body, status=200):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        if path == "/endpoint":
            box = ("service", int(query.split(".")[-1]))
            # Waits a little, so that a bundle need not wait for the next question.
            self.answer(self.node.boxes[box].popleft() if self.node.wait(box, 0.05) else b"Nothing to receive")
        else:  # /register, /status/nodeid
            self.answer(self.node.id.encode())

    def do_POST(self):
        payload = self.rfile.read(min(int(self.headers["content-length"]), MOST))
        query = dict(urllib.parse.parse_qsl(self.path.partition("?")[2]))
        try:
            to = [int(number) for number in query["dst"].removeprefix("ipn:").split(".")]
            self.node.send(0, to, payload, int(query.get("lifetime", "3600000ms").removesuffix("ms")))
            self.answer(b"Sent")
        except (KeyError, ValueError) as why:
            self.answer(repr(why).encode(), 400)

    def log_message(self, *_):
        pass


def main():
    def place(text):
        return text.rpartition(":")[0], int(text.rpartition(":")[2])

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--node", type=int, required=True, help="number of this node")
    parser.add_argument("--listen", type=place, action="append", default=[], metavar="HOST:PORT", help="of TCPCLv4")
    parser.add_argument("--connect", type=place, action="append", default=[], metavar="HOST:PORT", help="a neighbour")
    parser.add_argument("--route", action="append", default=[], metavar="NODE=VIA", help="node 0 stands for all others")
    parser.add_argument("--web", type=place, required=True, metavar="HOST:PORT", help="of applications")
    parser.add_argument("--payload-crc", choices=["none", "crc32c"], default="none", help="of bundles made here")
    parser.add_argument("--nagle", choices=["on", "off"], default="off", help="leave Nagle's algorithm on, so that it "
                        "holds answers to one bundle in three: acknowledgments of the others wait for what follows")
    args = parser.parse_args()
    node = Web.node = Node(args)
    for target, addresses in ((node.listen, args.listen), (node.connect, args.connect)):
        for address in addresses:
            threading.Thread(target=target, args=(address,), daemon=True).start()
    Server(args.web, Web).serve_forever()


if __name__ == "__main__":
    main()
