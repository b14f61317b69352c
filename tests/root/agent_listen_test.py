#!/usr/bin/env python3
"""agent_listen_test.py - where `eacgm agent` listens and to whom it answers: TLS, tokens, and what
hostile clients get."""

import socket
import ssl
import time
import urllib.error
import urllib.request

from agents import Agent, certificate, posted_by_nobody
from harness import EACGM, PUSH, expect, main, probes, test

TOKEN = "0123456789abcdef-._~+/="
PATHS = ("/", "/metrics", "/healthz", "/no", "/../etc/passwd", "/metrics%00x")


def token_file(t, text=TOKEN + "\n"):
    path = t.path("token")
    with open(path, "w") as f:
        f.write(text)
    return path


def everywhere(t, *options):
    """An agent that listens on all addresses."""
    cert, key = certificate(t, "localhost")
    return Agent(t, "--listen", "0.0.0.0:0", "--tls-cert", cert, "--tls-key", key, "--token-file",
                 token_file(t), *options, ca=cert, token=TOKEN)


def without_token(a, path, header=None, **how):
    q = urllib.request.Request(a.url(path), **how)
    if header is not None:
        q.add_header("Authorization", header)
    context = ssl.create_default_context(cafile=a.ca) if a.ca else None
    try:
        with urllib.request.urlopen(q, timeout=20, context=context) as r:
            return r.status, r.headers
    except urllib.error.HTTPError as e:
        return e.code, e.headers


@test("what is refused: one line, and nothing is started")
def _(t):
    cert, key = certificate(t, "localhost")
    other = certificate(t, "other")
    token = token_file(t)
    tls = ("--tls-cert", cert, "--tls-key", key)
    for options, status, why in (
            (("--listen", "0.0.0.0:0"), 2, "no loopback"),
            (("--listen", "[::]:0", *tls), 2, "no loopback"),
            (("--listen", "0.0.0.0:0", "--token-file", token), 2, "no loopback"),
            (("--listen", "0.0.0.0:0", *tls[:2], "--token-file", token), 2, "given together"),
            (("--listen", "127.0.0.1.example:0", *tls, "--token-file", token), 2, "is no address"),
            (("--listen", "127.0.0.1:0", "--tls-key", key), 2, "given together"),
            (("--listen", "127.0.0.1:0", *tls, "--token-file", "/no"), 1, "/no: No such file"),
            (("--listen", "127.0.0.1:0", "--token-file", token_file(t, "short")), 1, "is no token"),
            (("--listen", "127.0.0.1:0", "--tls-cert", "/no", "--tls-key", key), 1, "/no: "),
            (("--listen", "127.0.0.1:0", "--tls-cert", token, "--tls-key", key), 1, token),
            (("--listen", "127.0.0.1:0", "--tls-cert", cert, "--tls-key", other[1]), 1, other[1])):
        r = t.run([EACGM, "agent", *options])
        expect(r.status == status and why in r.err and len(r.err.splitlines()) == 1, r)
    path = t.path("agent.yaml")
    with open(path, "w") as f:
        f.write("budget: 1%\nlisten: 0.0.0.0:9477\n")
    r = t.run([EACGM, "agent", "-c", path])
    expect(r.status == 2 and "agent.yaml:2:9: listen: '0.0.0.0' is no loopback" in r.err and
           len(r.err.splitlines()) == 1, r)


@test("all addresses, by TLS: with the token all is as ever, without it nothing is", 90)
def _(t):
    folder = t.path("freezes")
    a = everywhere(t, "--budget", "100%", "--layers", "user", *probes(PUSH), "--freeze", folder,
                   "--freeze-after", "100ms")
    expect("serves https://0.0.0.0:%d/metrics, to who says the token" % a.port in a.said(), a.said())
    expect("eacgm_build_info" in a.samples() and a.get("/healthz")[0] == "ok\n", "answers")
    for path in PATHS:
        for header in (None, "", "Bearer", "Bearer ", "Bearer x", "Basic " + TOKEN,
                       "Bearer " + TOKEN[:-1], "Bearer " + TOKEN + "x", "Bearer " + "x" * 4000, TOKEN):
            status, headers = without_token(a, path, header)
            expect(status == 401 and headers["WWW-Authenticate"] == "Bearer", (path, header, status))
    expect(without_token(a, "/freeze", "Bearer x", method="POST", data=b"")[0] == 401, "freeze")
    time.sleep(0.3)
    expect("froze" not in a.said(), a.said())
    expect(a.status("/freeze", method="POST", data=b"") == 202, "freeze, by who may")
    t.wait_for(lambda: "froze " in a.said(), "it")
    expect([a.status(path) for path in PATHS] == [200, 200, 200, 404, 404, 400], "paths")
    # what is no TLS, and TLS that is too old
    with socket.create_connection(("127.0.0.1", a.port), 5) as s:
        s.settimeout(20)
        s.sendall(b"GET /metrics HTTP/1.1\r\nAuthorization: Bearer %s\r\n\r\n" % TOKEN.encode())
        try:
            got = b"".join(iter(lambda: s.recv(65536), b""))
        except OSError:
            got = b""
        expect(b"eacgm_" not in got and b"HTTP/1.1 2" not in got, got)
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    old.maximum_version = ssl.TLSVersion.TLSv1_1
    try:
        with socket.create_connection(("127.0.0.1", a.port), 5) as s:
            old.wrap_socket(s)
        expect(False, "TLS 1.1")
    except (ssl.SSLError, OSError):
        pass
    a.end()


@test("on loopback a token is asked for where there is one, TLS or not")
def _(t):
    cert, key = certificate(t, "localhost")
    a = Agent(t, "--token-file", token_file(t), token=TOKEN)
    expect(a.status("/metrics") == 200 and without_token(a, "/metrics")[0] == 401 and
           without_token(a, "/freeze", method="POST", data=b"")[0] == 401, "with a token")
    a.end()
    a = Agent(t, "--tls-cert", cert, "--tls-key", key, ca=cert, group=a.group)
    expect(a.status("/metrics") == 200 and
           a.status("/freeze", method="POST", data=b"") == 404, "TLS alone")
    a.end()


@test("without a token root alone may freeze, and no page of a browser", 90)
def _(t):
    cert, key = certificate(t, "localhost")
    no = 403, "only root may: for others set a token (eacgm agent --token-file FILE)\n"
    options = ("--budget", "100%", "--layers", "user", *probes(PUSH), "--freeze", t.path("freezes"),
               "--freeze-after", "100ms")
    a = Agent(t, *options)
    got = posted_by_nobody(a, b"", b"{}")
    expect(got == [no, no], got)
    for origin in ("http://evil.example", "null", a.url("")):  # ours too: our page does not ask
        expect(a.status("/freeze", method="POST", data=b"", headers={"Origin": origin}) == 405,
               origin)
    said = a.samples()
    expect(said["eacgm_freezes_total"][0][1] == 0 and "froze" not in a.said(), a.said())
    expect(a.status("/freeze", method="POST", data=b"") == 202, "root")
    t.wait_for(lambda: "froze " in a.said(), "it")
    a.end()
    a = Agent(t, *options, "--tls-cert", cert, "--tls-key", key, ca=cert, group=a.group)
    got = posted_by_nobody(a, b"")
    expect(got == [no], got)
    expect(a.status("/freeze", method="POST", data=b"") == 202, "root, by TLS")
    a.end()
    a = Agent(t, *options, "--token-file", token_file(t), group=a.group, token=TOKEN)
    got = posted_by_nobody(a, b"")
    expect(got == [(202, "will be written\n")], got)
    a.end()


def cut(s, seconds):
    """Whether the other side ends it in time."""
    end = time.monotonic() + seconds
    s.settimeout(1)
    while time.monotonic() < end:
        try:
            if not s.recv(4096):
                return True
        except socket.timeout:
            try:
                s.sendall(b"x")
            except OSError:
                return True
        except OSError:
            return True
    return False


@test("who asks nothing loses his place, byte by byte too, before TLS and after", 120)
def _(t):
    a = everywhere(t)
    address = ("127.0.0.1", a.port)
    context = ssl.create_default_context(cafile=a.ca)
    silent = socket.create_connection(address, 5)
    slow = context.wrap_socket(socket.create_connection(address, 5), server_hostname="127.0.0.1")
    slow.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    half = socket.create_connection(address, 5)
    half.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01")  # a hello that does not end
    for s in (slow, silent, half):
        expect(cut(s, 40), "it still has its place")
    # as many as it has room for, of which none shakes hands
    held = [socket.create_connection(address, 20) for _ in range(160)]
    t.wait_for(lambda: a.status("/healthz") == 200, "an answer beside them", 60)
    for s in held:
        s.close()
    expect(a.status("/metrics") == 200, "it goes on")
    a.end()


@test("malformed and oversized questions, by TLS: no more than an answer", 90)
def _(t):
    a = everywhere(t)
    context = ssl.create_default_context(cafile=a.ca)
    say = b"Authorization: Bearer " + TOKEN.encode() + b"\r\n"
    for junk in (b"\0" * 4000, b"GET / HTTP/9.9\r\n\r\n", b"GET " + b"a" * 20000 + b" HTTP/1.1\r\n",
                 b"GET /metrics HTTP/1.1\r\n" + b"x: y\r\n" * 20000 + b"\r\n",
                 b"POST /freeze HTTP/1.1\r\n" + say + b"Content-Length: 99999999999\r\n\r\n",
                 b"POST /freeze HTTP/1.1\r\n" + say + b"Content-Length: -1\r\n\r\n",
                 b"POST /freeze HTTP/1.1\r\n" + say + b"Transfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
                 b"GET /metrics HTTP/1.1\r\nAuthorization: " + b"Bearer x" * 900 + b"\r\n\r\n",
                 b"GET http://[::1 HTTP/1.1\r\n" + say + b"\r\n",
                 b"GET /metrics HTTP/1.1\r\n" + say + say.replace(b"Bearer", b"Basic") + b"\r\n"):
        with socket.create_connection(("127.0.0.1", a.port), 5) as plain:
            s = context.wrap_socket(plain, server_hostname="127.0.0.1")
            s.settimeout(5)
            got = b""
            try:
                s.sendall(junk)
                while part := s.recv(65536):
                    got += part
            except OSError:
                pass
            expect(b"root:" not in got, got[:200])
    for path in ("/../../etc/passwd", "/metrics/..%2f..%2fetc/passwd", "/%2e%2e/x", "//metrics"):
        expect(a.status(path) in (400, 404), path)
    expect(a.status("/metrics") == 200 and a.status("/metrics", method="POST", data=b"x") == 405,
           "it goes on")
    a.end()


if __name__ == "__main__":
    main()
