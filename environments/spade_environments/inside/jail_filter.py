"""The system-call filter of a jail: foreign programs may do what programs do, but for this list."""

from __future__ import annotations

import errno

from . import seccomp

__all__ = ["build"]

_REFUSED: dict[int, seccomp.Table] = {
    # No network. A pair of connected local sockets stays; it reaches nothing else.
    errno.EACCES: {
        "socket": (41, 198), "bind": (49, 200), "connect": (42, 203), "listen": (50, 201), "accept": (43, 202),
        "accept4": (288, 242),
    },
    # Neither inspectable nor needed: programs fall back from these.
    errno.ENOSYS: {
        "clone3": (435, 435),
        # Landlock does not keep these from telling what others do in a folder that is closed to the program.
        "inotify_init": (253, None), "inotify_init1": (294, 26), "inotify_add_watch": (254, 27),
    },
    errno.EPERM: {
        # Its processes stay in one group, so that one signal ends them all.
        "setsid": (112, 157), "setpgid": (109, 154),
        # What would outlive it, or grow past its limits.
        "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180), "mq_unlink": (241, 181),
        "memfd_create": (319, 279), "memfd_secret": (447, 447),
        # Other processes, by priority, placement or memory.
        "setpriority": (141, 140), "sched_setscheduler": (144, 119),
        "sched_setparam": (142, 118), "sched_setattr": (314, 274), "ioprio_set": (251, 30),
        "migrate_pages": (256, 238), "move_pages": (279, 239),
        # The machine.
        "name_to_handle_at": (303, 264), "quotactl": (179, 60), "quotactl_fd": (443, 443), "acct": (163, 89),
        "settimeofday": (164, 170), "clock_settime": (227, 112), "clock_adjtime": (305, 266), "adjtimex": (159, 171),
        "sethostname": (170, 161), "setdomainname": (171, 162), "ioperm": (173, None), "iopl": (172, None),
        "syslog": (103, 116), "vhangup": (153, 58), "lookup_dcookie": (212, 18), "mount_setattr": (442, 442),
        "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "uselib": (134, None), "modify_ldt": (154, None),
    },
}  # fmt: skip
_METADATA: seccomp.Table = {
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452), "chown": (92, None),
    "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utime": (132, None), "utimes": (235, None),
    "futimesat": (261, None), "utimensat": (280, 88), "setxattr": (188, 5), "lsetxattr": (189, 6),
    "fsetxattr": (190, 7), "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
}  # fmt: skip
# Landlock does not handle these: a process of the caller's own user could use them on the caller's files.
_SIGNALS: seccomp.Table = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
}  # fmt: skip
_CLONE, _SOCKETPAIR, _FCNTL = (56, 220), (53, 199), (72, 25)
_PRLIMIT, _AFFINITY = (302, 261), (203, 122)
# By a process id, which is 0 for the caller itself.
_NEW_NAMESPACES = 0x7E020000
_LOCAL, _STREAM, _PACKETS = 1, 1, 5
_MODES = (0, 0x800, 0x80000, 0x80800)
_F_SETOWN, _F_SETSIG, _F_SETOWN_EX = 8, 10, 15
_NEWEST = 463
"""The first call that these tables do not know, the same on every machine."""


def build(*, own_user: bool, scoped: bool) -> seccomp.Filter:
    """The filter for this machine.

    Args:
        own_user: whether the program runs as the caller's own user: it then may not change the mode, owner, times or
            attributes of any file.
        scoped: whether Landlock keeps signals inside; where it does not, the program can send none at all.

    Raises:
        KeyError: an architecture without a table.
    """
    column = seccomp.column()
    tables = [(table, number) for number, table in _REFUSED.items()]
    tables += [(seccomp.DANGEROUS, errno.EPERM)]
    tables += [(_METADATA, errno.EPERM)] if own_user else []
    tables += [(_SIGNALS, errno.EPERM)] if not scoped else []
    found = {pair[column]: seccomp.refused(number) for table, number in tables for pair in table.values()}
    verdicts = {number: verdict for number, verdict in found.items() if number is not None}
    verdicts |= {number: seccomp.refused(errno.ENOSYS) for number in range(_NEWEST, _NEWEST + 512)}
    return seccomp.compiled(verdicts | _by_argument(column), otherwise=seccomp.ALLOW)


def _by_argument(column: int) -> dict[int, seccomp.Verdict]:
    denied = seccomp.refused(errno.EPERM)
    kinds = [kind | mode for kind in (_STREAM, _PACKETS) for mode in _MODES]
    # A pair of datagram sockets could still send to a third.
    connected = seccomp.when_equal(1, kinds, seccomp.ALLOW, denied)
    return {
        _CLONE[column]: seccomp.when_flagged(0, _NEW_NAMESPACES, denied, seccomp.ALLOW),
        _SOCKETPAIR[column]: seccomp.when_equal(0, (_LOCAL,), connected, denied),
        _PRLIMIT[column]: seccomp.when_equal(0, (0,), seccomp.ALLOW, denied),
        _AFFINITY[column]: seccomp.when_equal(0, (0,), seccomp.ALLOW, denied),
        _FCNTL[column]: seccomp.when_equal(1, (_F_SETOWN, _F_SETSIG, _F_SETOWN_EX), denied, seccomp.ALLOW),
    }
