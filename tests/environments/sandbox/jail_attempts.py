# ruff: noqa: PTH101, PTH102, PTH104, PTH108, PTH120, PTH123, PTH208, PTH211
"""A hostile program, run in a jail by the tests: tries everything and prints what came of each attempt as JSON.

Arguments: a process of the host, a file outside, a listed file, a folder outside.
"""

import ctypes
import fcntl
import json
import os
import platform
import resource
import signal
import socket
import subprocess
import sys

HOST, OUTSIDE, LISTED, FOLDER = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
ARM = platform.machine() == "aarch64"
libc = ctypes.CDLL(None, use_errno=True)


def call(x86_64, aarch64, *arguments):
    if libc.syscall(aarch64 if ARM else x86_64, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


def pair(kind):
    one, _ = socket.socketpair(socket.AF_UNIX, kind)
    one.sendto(b"x", "/dev/log")


def write(path, mode="a"):
    with open(path, mode) as file:
        file.write("x")


def through_a_link():
    os.link(LISTED, "hard")
    write("hard")


def through_a_symlink(path):
    os.symlink(path, "soft")
    read("soft")


def read(path):
    with open(path, "rb") as file:
        return file.read(1)


def move_out():
    write("inside")
    os.rename("inside", FOLDER + "/moved")


ATTEMPTS = {
    "read a file": lambda: read(OUTSIDE),
    "read the users": lambda: read("/etc/passwd"),
    "read its own environment as a file": lambda: read("/proc/self/environ"),
    "read the host's environment": lambda: read(f"/proc/{HOST}/environ"),
    "read the host's memory": lambda: read(f"/proc/{HOST}/mem"),
    "list the root": lambda: os.listdir("/"),
    "list the processes": lambda: os.listdir("/proc"),
    "list a folder": lambda: os.listdir(FOLDER),
    "read through a symbolic link": lambda: through_a_symlink(OUTSIDE),
    "write a file": lambda: write(OUTSIDE),
    "make a file": lambda: write(FOLDER + "/made"),
    "make a file in /tmp": lambda: write("/tmp/spade_jail_mark"),
    "make a file in shared memory": lambda: write("/dev/shm/spade_jail_mark"),
    "make a folder": lambda: os.mkdir(FOLDER + "/made"),
    "write a listed file": lambda: write(LISTED),
    "cut a listed file short": lambda: os.truncate(LISTED, 0),
    "cut a listed file short by opening it": lambda: os.open(LISTED, os.O_RDONLY | os.O_TRUNC),
    "remove a listed file": lambda: os.unlink(LISTED),
    "write a listed file through a link": through_a_link,
    "move a file out": move_out,
    "change a file's mode": lambda: os.chmod(OUTSIDE, 0o777),
    "change a listed file's mode": lambda: os.chmod(LISTED, 0o777),
    "change a file's times": lambda: os.utime(os.path.dirname(LISTED)),
    "change a file's owner": lambda: os.chown(OUTSIDE, 65534, 65534),
    "make an internet socket": lambda: socket.socket(socket.AF_INET),
    "make an internet datagram socket": lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
    "make a local socket": lambda: socket.socket(socket.AF_UNIX),
    "make a kernel socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "send a datagram from a pair": lambda: pair(socket.SOCK_DGRAM),
    "send elsewhere from a connected pair": lambda: pair(socket.SOCK_STREAM),
    "signal the host": lambda: os.kill(HOST, 0),
    "signal its parent": lambda: os.kill(os.getppid(), 0),
    "be signalled for the host": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, HOST),
    "limit the host": lambda: resource.prlimit(HOST, resource.RLIMIT_NOFILE, (9, 9)),
    "read the host's limits": lambda: resource.prlimit(HOST, resource.RLIMIT_NOFILE),
    "slow the host": lambda: os.setpriority(os.PRIO_PROCESS, HOST, 19),
    "place the host": lambda: os.sched_setaffinity(HOST, {0}),
    "trace the host": lambda: call(101, 117, 16, HOST, 0, 0),
    "read from the host": lambda: call(310, 270, HOST, 0, 0, 0, 0, 0),
    "leave its session": os.setsid,
    "leave its group": lambda: os.setpgid(0, 0),
    "make a user namespace": lambda: call(272, 97, 0x10000000),
    "clone into a namespace": lambda: call(56, 220, 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0),
    "make shared memory": lambda: call(29, 194, 0, 4096, 0o1600),
    "make a message queue": lambda: call(68, 186, 0, 0o1600),
    "make a file in memory": lambda: os.memfd_create("x"),
    "make a ring": lambda: call(425, 425, 1, 0),
    "load a program into the kernel": lambda: call(321, 280, 0, 0, 0),
    "keep a key": lambda: call(250, 219, 0, 0, 0, 0, 0),
    "mount": lambda: call(165, 40, 0, 0, 0, 0, 0),
    "change the root": lambda: os.chroot("."),
    "become root": lambda: os.setresuid(0, 0, 0),
    "become another user": lambda: os.setresuid(1, 1, 1),
    "become root by a program": lambda: subprocess.run(
        ["/bin/su", "-c", "true"], check=True, stdin=0, capture_output=True
    ),
    "raise its limits": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (10**6, 10**6)),
    "set the clock": lambda: call(227, 112, 0, 0),
    "make a device": lambda: os.mknod("device", 0o20600, os.makedev(1, 5)),
    "make a call of tomorrow": lambda: call(470, 470, 0),
}


def attempted(attempt):
    try:
        attempt()
    except subprocess.CalledProcessError:
        return "refused by the program"
    except (OSError, ValueError, AttributeError) as error:
        return f"refused ({type(error).__name__})"
    return "done"


def valid(descriptor):
    try:
        fcntl.fcntl(descriptor, fcntl.F_GETFD)
    except OSError:
        return False
    return True


found = {name: attempted(attempt) for name, attempt in ATTEMPTS.items()}
facts = {"environment": dict(os.environ), "user": os.getuid(), "descriptors": [n for n in range(64) if valid(n)]}
print(json.dumps({"attempts": found, "facts": facts}))
