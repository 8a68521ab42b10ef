"""Succeeds once all links of a DTNME node are open, since it never sends what it got before: ready.py CONSOLE_PORT FILE.
The file has a line for each; links that neighbours opened have names of their own."""

import socket
import sys

PROMPT = b"dtn% "


def ask(console, command):
    console.sendall(command.encode() + b"\n")
    answer = b""
    while not answer.endswith(PROMPT):
        piece = console.recv(65536)
        if not piece:
            sys.exit("the console ended")
        answer += piece
    return answer[:-len(PROMPT)].decode().split()


port, file = sys.argv[1:]
with open(file) as links:
    wanted = sum(1 for line in links if line.strip())
with socket.create_connection(("127.0.0.1", int(port)), timeout=5) as console:
    ask(console, "")
    words = ask(console, "link names")
    names = words[words.index("links:") + 1:] if "links:" in words else []
    states = [ask(console, f"link state {name}") for name in names]
opened = sum("OPEN" in state for state in states)
if opened < wanted:
    sys.exit(f"{opened} of {wanted} links are open")
