"""Serves the applications of an HDTN node over AAP2: app.py NODE_NUMBER PORT SOCKET VERSION.

HDTN has no interface for applications: they are nodes that connect to it. This one connects over TCPCLv4 in the name of
HDTN's own number, over which HDTN then sends all bundles for its number, and makes bundles of the given version. Their
payloads have no CRC; those of HDTN's own programs have CRC-32C, for which DTNME deletes them."""

import binascii
import collections
import io
import os
import socket
import struct
import sys
import threading
import time

SEGMENT, ACK, REFUSE, KEEPALIVE, TERM, REJECT, INIT = range(1, 8)  # messages of TCPCLv4
END, START = 1, 2
WELCOME, CONFIG, ADU = 1, 2, 3  # messages of AAP2
SUCCESS, ALIVE, ERROR = 1, 2, 8  # its responses
DTN_EPOCH = 946_684_800  # 2000-01-01 in Unix time, s
LIFETIME_MS = 86_400_000
REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


# Version 7 of the Bundle Protocol: CBOR.


def head(kind, number):
    if number < 24:
        return bytes([kind << 5 | number])
    power = next(power for power in range(4) if number >> (8 << power) == 0)
    return bytes([kind << 5 | 24 + power]) + number.to_bytes(1 << power, "big")


def encode(value):
    if isinstance(value, (list, tuple)):
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


def crc16(data):
    """CRC-16 of X.25, which is the one of binascii with all bits reversed."""
    crc = binascii.crc_hqx(data.translate(REVERSED), 0xFFFF)
    return int(f"{crc:016b}"[::-1], 2) ^ 0xFFFF


def made_v7(source, destination, created, sequence, lifetime_ms, payload):
    eids = [[2, eid] for eid in (destination, source, (0, 0))]
    primary = encode([7, 4, 1, *eids, [created, sequence], lifetime_ms, bytes(2)])
    return b"\x9f" + primary[:-2] + struct.pack(">H", crc16(primary)) + encode([1, 1, 0, 0, payload]) + b"\xff"


def read_v7(bundle):
    primary, at = decode(bundle, 1)
    while bundle[at] != 0xFF:
        block, at = decode(bundle, at)
        if block[0] == 1:
            return tuple(primary[4][1]), tuple(primary[3][1]), block[4]
    raise ValueError("a bundle without a payload")


# Version 6: numbers of seven bits a byte.


def sdnv(number):
    out = [number & 127]
    while number := number >> 7:
        out.append(number & 127 | 128)
    return bytes(reversed(out))


def read_sdnv(data, at):
    number = 0
    while True:
        number, at = number << 7 | data[at] & 127, at + 1
        if data[at - 1] < 128:
            return number, at


def made_v6(source, destination, created, sequence, lifetime_ms, payload):
    flags = 1 << 7 | 1 << 4 | 1 << 2  # normal, to one endpoint, no fragments
    eids = (*destination, *source, 0, 0, 0, 0)
    inner = b"".join(map(sdnv, (*eids, created // 1000, sequence, lifetime_ms // 1000, 0)))
    return b"\x06" + sdnv(flags) + sdnv(len(inner)) + inner + b"\x01\x08" + sdnv(len(payload)) + payload


def read_v6(bundle):
    _, at = read_sdnv(bundle, 1)
    length, at = read_sdnv(bundle, at)
    eids, after = [], at + length
    for _ in range(4):
        number, at = read_sdnv(bundle, at)
        eids.append(number)
    at = after
    while True:
        kind, (flags, at) = bundle[at], read_sdnv(bundle, at + 1)
        if flags & 0x40:
            raise ValueError("a block with references to endpoints")
        length, at = read_sdnv(bundle, at)
        if kind == 1:
            return (eids[2], eids[3]), (eids[0], eids[1]), bundle[at:at + length]
        at += length


class Inbox:
    """Bundles for one service, in order; each stays until an application has answered for it."""

    def __init__(self):
        self.waiting, self.came, self.served = collections.deque(), threading.Semaphore(0), threading.Lock()

    def put(self, item):
        self.waiting.append(item)
        self.came.release()

    def give(self, deliver):
        """Passes the bundles to `deliver` until it fails."""
        with self.served:
            while True:
                self.came.acquire()
                try:
                    deliver(*self.waiting[0])
                except OSError:
                    self.came.release()
                    raise
                self.waiting.popleft()


inboxes = collections.defaultdict(Inbox)


class Node:
    """Session with HDTN."""

    def __init__(self, number, port):
        stream = socket.create_connection(("127.0.0.1", port))
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream, self.input = stream, stream.makefile("rb", buffering=1 << 20)
        self.writing, self.transfers, self.answers = threading.Lock(), 0, {}
        name = f"ipn:{number}.0".encode()
        stream.sendall(b"dtn!\x04\x00")
        self.exactly(6)
        stream.sendall(struct.pack(">BHQQH", INIT, 15, 1 << 30, 1 << 30, len(name)) + name + bytes(4))
        _, self.keepalive, self.largest, _, length = self.take(">BHQQH")
        self.exactly(length)
        self.exactly(*self.take(">I"))

    def exactly(self, length):
        data = self.input.read(length)
        if len(data) < length:
            raise ConnectionError("HDTN ended the session")
        return data

    def take(self, form):
        return struct.unpack(form, self.exactly(struct.calcsize(form)))

    def write(self, data):
        with self.writing:
            self.stream.sendall(data)

    def send(self, bundle):
        """Sends a bundle; returns whether HDTN has taken it."""
        answer = threading.Event()
        pieces = [bundle[at:at + self.largest] for at in range(0, len(bundle), self.largest)]
        with self.writing:
            self.transfers += 1
            number, self.answers[self.transfers] = self.transfers, answer
            for index, piece in enumerate(pieces):
                flags = (START if index == 0 else 0) | (END if piece is pieces[-1] else 0)
                begun = struct.pack(">BBQ", SEGMENT, flags, number) + (bytes(4) if flags & START else b"")
                self.stream.sendall(begun + struct.pack(">Q", len(piece)))
                self.stream.sendall(piece)
        answer.wait()
        return self.answers.pop(number) is not None

    def keep_alive(self):
        while True:
            time.sleep(self.keepalive or 3600)
            self.write(bytes([KEEPALIVE]))

    def run(self):
        bundle = bytearray()
        while True:
            kind, = self.take(">B")
            if kind == SEGMENT:
                flags, number = self.take(">BQ")
                if flags & START:
                    self.exactly(*self.take(">I"))
                    bundle = bytearray()
                bundle += self.exactly(*self.take(">Q"))
                if flags & END:
                    read = read_v7 if bundle[0] == 0x9F else read_v6
                    source, (_, service), payload = read(bytes(bundle))
                    inboxes[service].put((source, payload))
                self.write(struct.pack(">BBQQ", ACK, flags, number, len(bundle)))
            elif kind == ACK:
                flags, number, _ = self.take(">BQQ")
                if flags & END:
                    self.answers[number].set()
            elif kind == REFUSE:
                _, number = self.take(">BQ")
                answer, self.answers[number] = self.answers[number], None
                answer.set()
            elif kind == TERM:
                raise ConnectionError(f"HDTN ends the session: reason {self.take('>BB')[1]}")
            elif kind != KEEPALIVE:
                raise ConnectionError(f"message {kind} of TCPCLv4")


# AAP2: messages of protobuf, each after its length.


def varint(number):
    out = []
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def read_varint(read):
    number = shift = 0
    while True:
        byte = read(1)
        if not byte:
            raise ConnectionError("the application ended")
        number |= (byte[0] & 127) << shift
        shift += 7
        if byte[0] < 128:
            return number


def fields(data):
    """Fields of a message by their numbers."""
    found, rest = {}, io.BytesIO(data)
    while rest.tell() < len(data):
        number, kind = divmod(read_varint(rest.read), 8)
        found[number] = rest.read(read_varint(rest.read)) if kind == 2 else read_varint(rest.read)
    return found


def message(stream):
    return fields(stream.read(read_varint(stream.read)))


def framed(body):
    return varint(len(body)) + body


def eid_of(text):
    node, service = text.decode().removeprefix("ipn:").split(".")
    return int(node), int(service)


class Agent:
    """Makes bundles of applications, and serves the applications."""

    def __init__(self, node, number, version):
        self.node, self.name = node, f"ipn:{number}.0".encode()
        self.make = {"6": made_v6, "7": made_v7}[version]
        self.numbering, self.last, self.sequence = threading.Lock(), 0, 0

    def bundle(self, source, adu, payload):
        with self.numbering:
            now = int((time.time() - DTN_EPOCH) * 1000)
            if self.make is made_v6:
                now -= now % 1000
            self.sequence = self.sequence + 1 if now <= self.last else 0
            self.last = max(now, self.last)
            created = self.last, self.sequence
        return self.make(source, eid_of(adu[2]), *created, adu.get(1000, LIFETIME_MS), payload)

    def serve(self, application):
        stream = application.makefile("rwb")
        try:
            stream.write(b"\x2f" + framed(field(WELCOME, field(1, self.name))))
            stream.flush()
            config = fields(message(stream)[CONFIG])
            endpoint = eid_of(config[4])
            self.answer(stream, SUCCESS)
            if config.get(1):
                inboxes[endpoint[1]].give(lambda source, payload: self.deliver(stream, source, payload))
            while True:
                adu = message(stream)
                if ADU not in adu:
                    self.answer(stream, ALIVE)
                    continue
                adu = fields(adu[ADU])
                payload = stream.read(adu.get(5, 0))
                self.answer(stream, SUCCESS if self.node.send(self.bundle(endpoint, adu, payload)) else ERROR)
        except OSError:
            application.close()

    def deliver(self, stream, source, payload):
        adu = field(1, "ipn:{}.{}".format(*source).encode()) + field(5, len(payload))
        stream.write(framed(field(ADU, adu)) + payload)
        stream.flush()
        message(stream)

    def answer(self, stream, status):
        stream.write(framed(field(1, status)))
        stream.flush()


def start(what, *arguments):
    threading.Thread(target=what, args=arguments, daemon=True).start()


def main():
    number, port, path, version = sys.argv[1:]
    node = Node(number, int(port))
    agent = Agent(node, number, version)
    if os.path.exists(path):
        os.remove(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)

    def accept():
        while True:
            start(agent.serve, listener.accept()[0])

    start(accept)
    start(node.keep_alive)
    try:
        node.run()
    except ConnectionError as why:
        sys.exit(str(why))


main()
