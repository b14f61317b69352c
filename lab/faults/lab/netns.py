"""netns.py - two network namespaces joined by a veth pair whose rate is limited, and packets that
get lost, by netlink and bpf(2) alone: hosts have no ip, no tc and no netem.

The namespaces have no name: they are held by file descriptors and are gone with the last process
in them, the veth pair with them. So nothing is left, however the runner ends."""

import ctypes
import errno
import os
import socket
import struct

CLONE_NEWNET, CLONE_NEWNS = 0x40000000, 0x00020000
MS_REC, MS_PRIVATE, MNT_DETACH = 0x4000, 0x40000, 2
LIBC = ctypes.CDLL(None, use_errno=True)

# linux/rtnetlink.h, linux/if_link.h, linux/veth.h, linux/pkt_sched.h
RTM_NEWLINK, RTM_NEWADDR, RTM_NEWQDISC = 16, 20, 36
NLM_REQUEST, NLM_ACK, NLM_REPLACE, NLM_EXCL, NLM_CREATE = 1, 4, 0x100, 0x200, 0x400
NLMSG_ERROR = 2
IFLA_IFNAME, IFLA_LINKINFO, IFLA_NET_NS_FD = 3, 18, 28
IFLA_INFO_KIND, IFLA_INFO_DATA, VETH_INFO_PEER = 1, 2, 1
IFA_ADDRESS, IFA_LOCAL = 1, 2
TCA_KIND, TCA_OPTIONS = 1, 2
TCA_TBF_PARMS, TCA_TBF_RATE64, TCA_TBF_BURST = 1, 4, 6
TC_H_ROOT, TC_HANDLE = 0xFFFFFFFF, 0x00010000
LINKLAYER_ETHERNET = 1
IFF_UP = 1

# linux/bpf.h
SYS_BPF = 321  # x86-64
BPF_PROG_LOAD, BPF_LINK_CREATE = 5, 28
BPF_PROG_TYPE_SCHED_CLS, BPF_TCX_INGRESS = 3, 46
TCX_NEXT, TCX_DROP = -1, 2


def _checked(rc, what):
    if rc < 0:
        code = ctypes.get_errno()
        raise OSError(code, "%s: %s" % (what, os.strerror(code)))
    return rc


def enter(fd):
    """The calling thread's network namespace from now on; safe between fork and exec."""
    _checked(LIBC.setns(fd, CLONE_NEWNET), "setns")


class Inside:
    """with Inside(fd): the thread is in that namespace."""

    def __init__(self, fd):
        self.fd = fd

    def __enter__(self):
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        enter(self.fd)

    def __exit__(self, *_):
        enter(self.home)
        os.close(self.home)


def new_space():
    """A file descriptor of a new namespace."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _checked(LIBC.unshare(CLONE_NEWNET), "unshare")
        fd = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        enter(home)
        return fd
    finally:
        os.close(home)


def own_space(file, text):
    """The process is in a network namespace of its own from now on, and that text is written into
    that file of the namespace's /sys; the mount is seen by nobody else and gone at once."""
    _checked(LIBC.unshare(CLONE_NEWNET | CLONE_NEWNS), "unshare")
    _checked(LIBC.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "mount")
    _checked(LIBC.mount(b"sysfs", b"/sys", b"sysfs", 0, None), "mount of /sys")
    try:
        with open("/sys" + file, "w") as f:
            f.write(text)
    finally:
        LIBC.umount2(b"/sys", MNT_DETACH)


def cpu_mask(cpu):
    """As the kernel's files have it: words of 32 bits, in hexadecimal, the first last."""
    words = ["%08x" % (1 << cpu % 32)] + ["00000000"] * (cpu // 32)
    return ",".join(words)


# ---- netlink ----

def _attribute(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + b"\0" * (-len(data) % 4)


def _ask(kind, flags, body):
    """One request and its answer, in the namespace that the thread is in."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as s:
        s.bind((0, 0))
        s.send(struct.pack("=IHHII", 16 + len(body), kind, NLM_REQUEST | NLM_ACK | flags, 1, 0) +
               body)
        answer = s.recv(65536)
    if struct.unpack_from("=H", answer, 4)[0] != NLMSG_ERROR:
        raise OSError(errno.EPROTO, "netlink gave no answer")
    code = -struct.unpack_from("=i", answer, 16)[0]
    if code:
        raise OSError(code, "netlink request %d: %s" % (kind, os.strerror(code)))


def _link(index=0, flags=0, change=0):
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


def add_pair(name, peer, peer_space):
    """A veth pair: one end here, the other in that namespace."""
    other = (_link() + _attribute(IFLA_IFNAME, peer.encode() + b"\0") +
             _attribute(IFLA_NET_NS_FD, struct.pack("=I", peer_space)))
    info = (_attribute(IFLA_INFO_KIND, b"veth\0") +
            _attribute(IFLA_INFO_DATA, _attribute(VETH_INFO_PEER, other)))
    _ask(RTM_NEWLINK, NLM_CREATE | NLM_EXCL, _link() + _attribute(
        IFLA_IFNAME, name.encode() + b"\0") + _attribute(IFLA_LINKINFO, info))


def set_up(name):
    _ask(RTM_NEWLINK, 0, _link(socket.if_nametoindex(name), IFF_UP, IFF_UP))


def add_address(name, address, bits):
    raw = socket.inet_aton(address)
    _ask(RTM_NEWADDR, NLM_CREATE | NLM_EXCL, struct.pack(
        "=BBBBi", socket.AF_INET, bits, 0, 0, socket.if_nametoindex(name)) +
        _attribute(IFA_LOCAL, raw) + _attribute(IFA_ADDRESS, raw))


def limit_rate(name, rate_bits):
    """A token bucket (TBF) as the root queue of a link, in place of the one before. Its queue holds
    20 ms at that rate, its bucket 2 ms, but no less than some packets."""
    rate = rate_bits // 8
    burst = max(16 << 10, rate // 500)
    queue = max(128 << 10, rate // 50)
    spec = struct.pack("=BBHhHI", 0, LINKLAYER_ETHERNET, 0, 0, 0, min(rate, 0xFFFFFFFF))
    parms = spec + bytes(12) + struct.pack("=III", queue, 0, 0)
    options = _attribute(TCA_TBF_PARMS, parms) + _attribute(
        TCA_TBF_BURST, struct.pack("=I", burst))
    if rate > 0xFFFFFFFF:
        options += _attribute(TCA_TBF_RATE64, struct.pack("=Q", rate))
    body = struct.pack("=BxxxiIII", socket.AF_UNSPEC, socket.if_nametoindex(name), TC_HANDLE,
                       TC_H_ROOT, 0)
    _ask(RTM_NEWQDISC, NLM_CREATE | NLM_REPLACE,
         body + _attribute(TCA_KIND, b"tbf\0") + _attribute(TCA_OPTIONS, options))


# ---- loss ----

def _bpf(command, attributes):
    raw = ctypes.create_string_buffer(attributes + bytes(max(0, 128 - len(attributes))))
    return _checked(LIBC.syscall(SYS_BPF, command, raw, 128), "bpf")


def _drop_program(share):
    """get_prandom_u32() below share of its range: dropped."""
    def op(code, registers=0, imm=0, off=0):
        return struct.pack("=BBhI", code, registers, off, imm & 0xFFFFFFFF)
    code = b"".join([
        op(0x85, imm=7),  # call get_prandom_u32
        op(0xA6, imm=min(0xFFFFFFFF, int(share * 2**32)), off=2),  # if w0 < imm: over two
        op(0xB7, imm=TCX_NEXT), op(0x95),  # r0 = TCX_NEXT; exit
        op(0xB7, imm=TCX_DROP), op(0x95)])
    instructions, licence = ctypes.create_string_buffer(code), ctypes.create_string_buffer(b"GPL")
    return _bpf(BPF_PROG_LOAD, struct.pack(
        "=IIQQ", BPF_PROG_TYPE_SCHED_CLS, len(code) // 8, ctypes.addressof(instructions),
        ctypes.addressof(licence)))


def drop_packets(name, share):
    """Drops that share of what comes in on a link, until the file descriptor is closed."""
    program = _drop_program(share)
    try:
        return _bpf(BPF_LINK_CREATE, struct.pack(
            "=IIII", program, socket.if_nametoindex(name), BPF_TCX_INGRESS, 0))
    finally:
        os.close(program)


class Link:
    """Two namespaces, 10.77.0.1 and 10.77.0.2, with a link of a given rate between them."""

    NAME = "fault0"
    addresses = ("10.77.0.1", "10.77.0.2")

    def __init__(self, rate_bits):
        self.rate_bits, self.droppers = rate_bits, []
        self.spaces = [new_space(), new_space()]
        with Inside(self.spaces[0]):
            add_pair(self.NAME, self.NAME, self.spaces[1])
        for space, address in zip(self.spaces, self.addresses):
            with Inside(space):
                set_up("lo")
                add_address(self.NAME, address, 24)
                set_up(self.NAME)
        self.limit(rate_bits)

    def limit(self, rate_bits):
        for space in self.spaces:
            with Inside(space):
                limit_rate(self.NAME, rate_bits)

    def drop(self, share, both_ways=False):
        """Of what comes to the second space, or to either; 0: no more."""
        for fd in self.droppers:
            os.close(fd)
        self.droppers = []
        for space in self.spaces[0 if both_ways else 1:] if share else []:
            with Inside(space):
                self.droppers.append(drop_packets(self.NAME, share))

    def close(self):
        self.drop(0)
        for fd in self.spaces:
            os.close(fd)
        self.spaces = []


def why_not():
    """(why there can be no link, why nothing can be dropped), None where it can: tried."""
    try:
        link = Link(10**9)
    except OSError as e:
        return "no namespaces with veth and TBF: %s" % e, "no link"
    try:
        link.drop(0.5)
        return None, None
    except OSError as e:
        return None, "no BPF program on a link (tcx, Linux 6.6): %s" % e
    finally:
        link.close()
