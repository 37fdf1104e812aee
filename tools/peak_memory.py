#!/usr/bin/env python3
"""How much memory a command held at most, mapped files included.

  tools/peak_memory.py COMMAND ARGUMENT ...

Prints bytes; what the command prints is dropped unless it fails.
"""
import os
import subprocess
import sys


def run_and_tell(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.stderr.buffer.write(said)
        sys.exit(f"status {process.returncode}: {' '.join(command)}")
    print(usage.ru_maxrss * 1024)


def peak_bytes(command):
    """By way of a small process: Linux starts a child's peak at its parent's size, which may be that of torch."""
    done = subprocess.run([sys.executable, __file__, *map(str, command)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return int(done.stdout)


if __name__ == "__main__":
    run_and_tell(sys.argv[1:])
