#!/usr/bin/env python3
"""agent_listen_test.py - where `eacgm agent` listens and to whom it answers: TLS, tokens, and what
hostile clients get."""

import collections
import http.client
import os
import random
import re
import socket
import ssl
import struct
import sys
import time
import urllib.error
import urllib.request

from agents import Agent, certificate, posted_by_nobody, start_in
from harness import BUILD, EACGM, PUSH, ROOT, expect, main, probes, skip, target, test

sys.path.insert(0, os.path.join(ROOT, "tests/browser"))
import chromium  # noqa: E402
from fake_agent import page_of  # noqa: E402

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


def routes():
    """All paths that the agent's table of routes has; what is below one is named."""
    with open(os.path.join(ROOT, "src/cli/agent_answers.c"), encoding="utf-8") as f:
        found = re.findall(r'^\t\{"(/[^"]*)",', f.read(), re.M)
    return [path + ("1" if path.endswith("/") and path != "/" else "") for path in found]


def asked_raw(a, method, path, accept):
    """(status, text) of a question without a token, its path as it stands."""
    c = http.client.HTTPSConnection("127.0.0.1", a.port, timeout=20,
                                    context=ssl.create_default_context(cafile=a.ca))
    c.request(method, path, headers={"Accept": accept} if accept else {})
    r = c.getresponse()
    told = r.status, r.read().decode()
    c.close()
    return told


@test("without the token the page's bundle comes, and nothing else of any path", 90)
def _(t):
    folder = t.path("freezes")
    a = everywhere(t, "--budget", "100%", "--layers", "user", *probes(PUSH), "--freeze", folder,
                   "--freeze-after", "100ms", "--detect", "--store", t.path("agent.db"))
    expect(a.status("/freeze", method="POST", data=b"") == 202, "freeze")
    t.wait_for(lambda: "froze " in a.said(), "a file")
    stem = "/freezes/" + os.listdir(folder)[0][:-len(".eacgm")]
    paths = routes() + [stem + ".eacgm", stem + ".html", stem + ".perfetto-trace.gz",
                        "/api/v1/jobs/1/flame", "/no"]
    expect(len(paths) > 20 and "/" in paths and "/api/v1/events" in paths, paths)
    paths += ["//", "/.", "/./", "/%2f", "/%2e", "/..", "/index.html", "/.." + stem + ".html",
              "/%2e%2e/metrics", "/;/metrics", "*", "/?", "/?/metrics", "/#/metrics"]
    page = page_of(BUILD)
    for path in paths:
        free = page and path in ("/", "/?", "/?/metrics", "/#/metrics")
        for accept in (None, "*/*", "application/json", "text/html,*/*;q=0.8"):
            status, text = asked_raw(a, "GET", path, accept)
            if free and accept and "text/html" in accept:
                expect(status == 200 and text == page, (path, status, text[:99]))
            else:
                expect(status == 401 and text == "Unauthorized\n", (path, accept, status, text))
        expect(asked_raw(a, "POST", path, "text/html")[0] == 401, path)
    if page:
        expect(asked_raw(a, "HEAD", "/", "text/html") == (200, ""), "HEAD")
        told = without_token(a, "/", headers={"Accept": "text/html"})[1]["Content-Security-Policy"]
        expect(told == a.get("/", Accept="text/html")[1]["Content-Security-Policy"] and
               "connect-src 'self'" in told and "unsafe" not in told, told)
    a.end()


@test("by TLS with a token, in a browser: the field, what jobs do, a frozen trace's page", 150)
def _(t):
    if not chromium.find():
        skip("there is no Chromium (package chromium)")
    if not page_of(BUILD):
        skip("this eacgm was built without the page")
    a = everywhere(t, "--budget", "100%", "--layers", "user", *probes(PUSH), "--freeze",
                   t.path("freezes"), "--freeze-after", "100ms")
    job = start_in(t, a.group, target("calls"), "until", t.path("never"), "1", "100")
    t.wait_for(lambda: "calls" in a.get("/api/v1/jobs")[0], "the job")
    expect(a.status("/freeze", method="POST", data=b"") == 202, "freeze")
    t.wait_for(lambda: "froze " in a.said(), "a file")
    with chromium.Chromium(flags=("--ignore-certificate-errors",)) as browser:
        browser.open(a.url("/"))

        def text(selector="main"):
            return browser.run("document.querySelector('%s')?.innerText ?? ''" % selector)
        t.wait_for(lambda: browser.run("document.activeElement.id") == "token", text("body"))
        browser.type("x" + TOKEN)
        browser.key("Enter")
        t.wait_for(lambda: "does not take this token" in text("[role=alert]"), lambda: text("body"))
        browser.type(TOKEN)
        browser.key("Enter")
        t.wait_for(lambda: "calls (%d)" % job.pid in text(), lambda: text("body"), 30)
        t.wait_for(lambda: "1 job process" in text("header"), lambda: text("body"), 30)
        t.kill(job)
        job.wait()
        t.wait_for(lambda: "0 job processes" in text("header"), lambda: text("body"), 30)
        browser.key("8")
        t.wait_for(lambda: browser.run("!!document.querySelector('a.freeze-page')"), text)
        browser.run("document.querySelector('a.freeze-page').click()")
        t.wait_for(lambda: "the link opens it" in text(), text, 90)
        browser.run("document.querySelector('a.freeze-page').target = ''")
        browser.run("document.querySelector('a.freeze-page').click()")
        t.wait_for(lambda: "Overview" in text("nav"), lambda: text("body"), 30)
        expect(browser.run("location.protocol") == "blob:" and "1 process" in text(), text())
        expect(all("status of 401" in p for p in browser.problems), browser.problems)
        expect(not any(TOKEN in url for url in browser.requests), browser.requests)
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
    no = 403, "only root and the agent's own user may: for others set a token (eacgm agent --token-file FILE)\n"
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


# ---- questions that nobody would ask ----

TARGETS = [path.encode() for path in (
    *PATHS, "/api/v1/jobs", "/api/v1/jobs/1", "/api/v1/series", "/api/v1/series/host?from=1&to=2",
    "/api/v1/history?from=0&to=99999999999999999999", "/api/v1/history/calls?from=-1",
    "/api/v1/self", "/api/v1/state", "/api/v1/events", "/api/v1/freezes", "/api/v1/incidents",
    "/freezes/../../../etc/passwd", "/freezes/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "/freezes/freeze-20200101T000000Z-1.eacgm", "//etc/passwd", "/./metrics", "/metrics/", "/%",
    "/%zz", "/%00", "/\xff\xfe", "*", "http://127.0.0.1/metrics", "http://[::1/metrics",
    "/" + "../" * 300 + "etc/passwd", "/" + "a" * 9000, "/?" + "&" * 5000)]
METHODS = [b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"TRACE", b"CONNECT", b"PATCH",
           b"get", b"", b"G\0T", b"PRI", b"X" * 300]
VERSIONS = [b"HTTP/1.1", b"HTTP/1.0", b"HTTP/2.0", b"HTTP/9.9", b"HTTP/1.99999999999", b"HTTP/",
            b"", b"HTTP/1.1 HTTP/1.1", b"HTTP/-1.-1"]
NUMBERS = [b"0", b"1", b"-1", b"65536", b"65537", b"4294967296", b"9223372036854775807",
           b"18446744073709551615", b"99999999999999999999999", b"0x10", b"1e9", b" ", b"", b"+5"]
HEADERS = [b"Host: 127.0.0.1", b"Host: elsewhere.example", b"Host:", b"Host: [::1", b"Accept: */*",
           b"Accept: text/html", b"Accept: " + b"q=1;" * 1500, b"Connection: close",
           b"Connection: keep-alive", b"Connection: upgrade", b"Expect: 100-continue", b"Expect: x",
           b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Authorization: ",
           b"Range: bytes=0-" + b"9" * 40, b"no colon", b": no name", b" folded", b"\tfolded",
           b"N\0UL: x", b"X: N\0UL", b"X: " + b"y" * 8200, b"\xff\xfe: \xff", b"X:y\rZ: a"]
ENDS = [b"\r\n"] * 6 + [b"\n", b"\r", b"\0", b"\r\r\n", b""]


def chunks(r):
    """A chunked body, most of them none."""
    parts = []
    for _ in range(r.randrange(4)):
        data = bytes(r.randrange(256) for _ in range(r.randrange(20)))
        size = r.choice([b"%x" % len(data)] * 4 + NUMBERS + [b"f" * 16, b"7fffffffffffffff", b"zz",
                                                          b"5;x=y", b"5 ", b"00000000000000005"])
        parts.append(size + r.choice(ENDS) + data + r.choice(ENDS))
    return b"".join(parts) + r.choice([b"0\r\n\r\n", b"0\r\n", b"", b"0\r\nX: y\r\n\r\n"])


def bent(r, data):
    """Some bytes other ones, gone, twice, or not sent at all."""
    data = bytearray(data)
    for _ in range(r.choice([0, 0, 1, 2, 8])):
        at = r.randrange(len(data) + 1)
        end = min(at + r.choice([1, 2, 5, 40]), len(data))
        data[at:end] = r.choice([b"", bytes(data[at:end]) * 2, bytes([r.randrange(256)]), b"\0",
                                 b"\r\n", b"\r\n\r\n", b"%", b" "])
    return bytes(data[:r.randrange(len(data) + 1)] if r.random() < 0.2 else data)


def question(r):
    """Half of them are well-formed, but for what they ask for."""
    tame = r.random() < 0.5
    ends = ENDS[:1] if tame else ENDS
    headers = [r.choice(HEADERS[:1] if tame else HEADERS) for _ in range(r.choice([0, 1, 2, 5, 300]))]
    body = r.choice([b"", b"x", b"{}", b"\0" * 100, b"x" * 70000, chunks(r), chunks(r)])
    if r.random() < 0.3:
        length = b"%d" % len(body) if tame else r.choice(NUMBERS)
        headers.append(b"Content-Length: " + length)
    elif r.random() < 0.3:
        headers.append(b"Transfer-Encoding: chunked")
    elif tame:
        body = b""
    line = b" ".join([r.choice(METHODS[:3] * 4 + METHODS), r.choice(TARGETS),
                      VERSIONS[0] if tame else r.choice(VERSIONS)])
    whole = b"".join(h + r.choice(ends) for h in [line, *headers]) + r.choice(ends) + body
    return whole if tame and r.random() < 0.5 else bent(r, whole)


def answer_to(port, data, r):
    """Its first bytes; of most he reads all, of others nothing, or hangs up in the midst."""
    with socket.create_connection(("127.0.0.1", port), 20) as s:
        s.settimeout(0.05)  # who waits for more of a question says nothing so far
        if r.random() < 0.1:  # reset, not closed
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        got = b""
        try:
            s.sendall(data)
            if r.random() < 0.2:
                return got
            if r.random() < 0.5:
                s.shutdown(socket.SHUT_WR)
            while len(got) < 1 << 18 and (part := s.recv(65536)):
                got += part
        except OSError:
            pass
        return got


def ask_at_random(a, seed, n):
    """Returns how many were answered, by status."""
    r = random.Random(seed)
    statuses = collections.Counter()
    for i in range(n):
        data = b"".join(question(r) for _ in range(r.choice([1, 1, 1, 3])))
        got = answer_to(a.port, data, r)
        what = "question %d of seed %d: %r: %r" % (i, seed, data[:300], got[:300])
        answered = re.match(rb"HTTP/\S+ ([1-5]\d\d) ", got)  # of a version that was made up
        expect(not got or answered, what)
        expect(b"root:" not in got, what)
        statuses[answered.group(1).decode() if answered else "none"] += 1
    return statuses


def held_by(a):
    """Its open files and its threads; its memory in kB."""
    with open("/proc/%d/status" % a.p.pid) as f:
        of = dict(line.split(":", 1) for line in f)
    return (len(os.listdir("/proc/%d/fd" % a.p.pid)), int(of["Threads"]),
            int(of["VmRSS"].split()[0]))


@test("questions made at random: no more than an answer, and nothing of them stays", 150)
def _(t):
    a = Agent(t, "--store", t.path("a.db"))
    ask_at_random(a, 1, 500)  # what it needs once
    t.wait_for(lambda: a.status("/metrics") == 200, "an answer")
    files, threads, before = held_by(a)
    statuses = ask_at_random(a, 2, 3000)
    print("# answers: %s" % ", ".join("%s %d" % x for x in sorted(statuses.items())))
    expect(min(statuses[s] for s in ("200", "400", "404", "405")) > 10, statuses)
    expect(a.p.poll() is None and a.status("/metrics") == 200 and a.samples(), a.said())

    def is_as_before():
        now = held_by(a)
        return now[0] <= files and now[1] <= threads and now[2] < before + 4096
    t.wait_for(is_as_before, lambda: "%r, before %r" % (held_by(a), (files, threads, before)), 90)
    print("# memory: %d kB, before %d kB" % (held_by(a)[2], before))
    a.end()


if __name__ == "__main__":
    main()
