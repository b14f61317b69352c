"""pod_servers.py - a kubelet's and a container runtime's socket for tests: HTTP/2 by python3-h2,
messages of protobuf written by hand, and all that such a server may do wrong. No test itself.

Numbers of fields are those of kubernetes/kubelet (pkg/apis/podresources/v1/api.proto) and
kubernetes/cri-api (pkg/apis/runtime/v1/api.proto): agent_pods_test.py holds them against these."""

import os
import socket
import struct
import threading
import time

from harness import expect, skip

try:
    import h2.config
    import h2.connection
    import h2.events
except ImportError:
    h2 = None

KUBELET = "/v1.PodResourcesLister/List"
RUNTIME = "/runtime.v1.RuntimeService/ListContainers"
# ListContainersRequest: filter 1: state 2: state 1: CONTAINER_RUNNING
QUESTIONS = {KUBELET: b"", RUNTIME: b"\x0a\x04\x12\x02\x08\x01"}


def varint(n):
    out = b""
    while n > 0x7f:
        out += bytes([n & 0x7f | 0x80])
        n >>= 7
    return out + bytes([n])


def field(number, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def devices(resource, ids):
    """A ContainerDevices, with the topology that nobody reads."""
    return field(1, resource) + b"".join(field(2, i) for i in ids) + field(3, field(1, b"\x08\x01"))


def pod(name, namespace, container, *held):
    """A PodResources."""
    inner = field(1, container) + b"".join(field(2, d) for d in held)
    return field(1, name) + field(2, namespace) + field(3, inner)


def kubelet_answer(*pods):
    return b"".join(field(1, p) for p in pods)


def container(number, name, namespace, uid, container_name, more=()):
    """A Container as containerd tells it."""
    labels = {"io.kubernetes.pod.name": name, "io.kubernetes.pod.namespace": namespace,
              "io.kubernetes.pod.uid": uid, "io.kubernetes.container.name": container_name, **dict(more)}
    return (field(1, number) + field(2, "f" * 64) + field(3, field(1, container_name)) +
            field(5, "sha256:" + "e" * 64) + b"\x30\x01" +
            b"".join(field(8, field(1, k) + field(2, v)) for k, v in labels.items()) +
            field(9, field(1, "io.kubernetes.container.hash") + field(2, "7f1a2b3c")))


def runtime_answer(*containers):
    return b"".join(field(1, c) for c in containers)


class Server:
    """At a path; what it does is a method's name, and may be changed while it runs."""

    def __init__(self, t, path, method, message=b"", does="answer"):
        if not h2:
            skip("python3-h2 is not installed")
        self.path, self.method, self.message, self.does = path, method, message, does
        self.asked, self.wrong = 0, []
        self.open = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path + ".new")
        self.listener.listen(4)
        os.rename(path + ".new", path)
        t.at_end.append(self.close)
        if does != "nothing":
            threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()
        for s in self.open:
            s.close()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            self.open.append(s)
            self.asked += 1
            try:
                getattr(self, self.does)(s)
                s.close()
            except OSError:
                pass

    # what it does

    def answer(self, s, status="0", packed=0, message=None):
        c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        c.initiate_connection()
        s.sendall(c.data_to_send())
        asked, left = b"", None
        while left is None or left:
            data = s.recv(65536)
            if not data:
                return
            for e in c.receive_data(data):
                if isinstance(e, h2.events.RequestReceived):
                    self.look_at(dict(e.headers))
                elif isinstance(e, h2.events.DataReceived):
                    asked += e.data
                elif isinstance(e, h2.events.StreamEnded):
                    left = self.begin(c, e.stream_id, asked, status, packed, message)
            left = self.go_on(s, c, left, status)
            s.sendall(c.data_to_send())
        while s.recv(65536):  # the client hangs up
            pass

    def look_at(self, headers):
        headers = {(k.decode() if isinstance(k, bytes) else k): (v.decode() if isinstance(v, bytes) else v)
                   for k, v in headers.items()}
        for key, value in {":method": "POST", ":path": self.method, "te": "trailers",
                           "content-type": "application/grpc"}.items():
            if headers.get(key) != value:
                self.wrong.append((key, headers.get(key)))

    def begin(self, c, stream, asked, status, packed, message):
        expected = QUESTIONS[self.method]
        if asked != struct.pack(">BI", 0, len(expected)) + expected:
            self.wrong.append(asked)
        if status != "0":  # headers and trailers in one
            c.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc"),
                                    ("grpc-status", status), ("grpc-message", "not now")],
                           end_stream=True)
            return b""
        c.send_headers(stream, [(":status", "200"), ("content-type", "application/grpc")])
        self.stream = stream
        message = self.message if message is None else message
        return struct.pack(">BI", packed, len(message)) + message

    def go_on(self, s, c, left, status):
        if left is None or status != "0":
            return left
        while left:
            n = min(len(left), c.local_flow_control_window(self.stream), c.max_outbound_frame_size)
            if n == 0:
                return left
            c.send_data(self.stream, left[:n])
            left = left[n:]
        c.send_headers(self.stream, [("grpc-status", "0")], end_stream=True)
        return left

    def refuse(self, s):
        self.answer(s, status="13")

    def has_no_such_service(self, s):
        self.answer(s, status="12")

    def lie(self, s):
        """Something that is no message."""
        self.answer(s, message=b"\x0a\xff\xff\xff\xff\x0f" + b"\xaa" * 100)

    def pack(self, s):
        self.answer(s, packed=1)

    def say_much(self, s):
        self.answer(s, message=kubelet_answer(b"\0" * (9 << 20)))

    def crawl(self, s):
        """A byte at a time, without an end."""
        c = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        c.initiate_connection()
        data = c.data_to_send() + b"\0\0\x08\x06\0\0\0\0\0" + b"ping....." * 100
        for i in range(len(data)):
            s.send(data[i:i + 1])
            time.sleep(0.1)

    def junk(self, s):
        s.sendall(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n" + bytes(range(256)) * 40)
        while s.recv(65536):
            pass

    def hang_up(self, s):
        s.recv(10)

    def check(self):
        expect(self.asked and not self.wrong, "asked %d times, wrong: %r" % (self.asked, self.wrong))
