"""Runs bprecvfile in a folder of its own, since every one of them calls its files testfile1, testfile2 and so on, and
prints the path of each file that is complete: receive.py FOLDER ENDPOINT."""

import ctypes
import os
import select
import signal
import struct
import subprocess
import sys

IN_CLOSE_WRITE = 8
EVENT = struct.Struct("iIII")  # watch, mask, cookie, length of the name

folder, endpoint = sys.argv[1:]
os.makedirs(folder, exist_ok=True)
libc = ctypes.CDLL(None, use_errno=True)
files = libc.inotify_init1(os.O_CLOEXEC)
if files < 0 or libc.inotify_add_watch(files, os.fsencode(folder), IN_CLOSE_WRITE) < 0:
    sys.exit(f"inotify: {os.strerror(ctypes.get_errno())}")
receiver = subprocess.Popen(["bprecvfile", endpoint], cwd=folder, stdout=subprocess.DEVNULL)
for number in [signal.SIGINT, signal.SIGTERM]:
    # It closes its endpoint when it is interrupted.
    signal.signal(number, lambda *_: receiver.send_signal(signal.SIGINT))
ended = os.pidfd_open(receiver.pid)
while files in select.select([files, ended], [], [])[0]:
    events = os.read(files, 65536)
    while events:
        length = EVENT.unpack_from(events)[3]
        name, events = events[EVENT.size : EVENT.size + length], events[EVENT.size + length :]
        print(os.path.join(folder, os.fsdecode(name.rstrip(b"\0"))), flush=True)
sys.exit(f"bprecvfile ended: status {receiver.wait()}")
