"""An agent that knows what a test tells it: the page and answers below /api/v1/, on a port of its own.

`answers` has a value, JSON as bytes, a status with either, or a function of the query, for each
path below /api/v1/; `state` what events tell. `files` has a type and bytes, or a function of a
status with both, for other paths. `asked` lists the paths that were asked for. `token` is what it
asks for, but of who asks for the page; `refused` counts those who did not say it.
"""
import contextlib
import http.server
import json
import pathlib
import threading
import urllib.parse

NOW = 10 ** 13  # of the fake clock, ns


def page_of(build):
    """The page as an agent serves it, or None where it was not built."""
    made = list(pathlib.Path(build).glob("src/web/*/page.html"))
    return made[0].read_text().replace("connect-src 'none'", "connect-src 'self'") if made else None


class FakeAgent:
    def __init__(self, page):
        self.page, self.answers, self.files, self.asked, self.answered = page, {}, {}, [], []
        self.token, self.refused = None, 0
        self.pieces = lambda event: [event]  # in which an event is sent
        self.state = {"now_ns": NOW, "jobs": 0, "incidents": 0, "anomalies": 0, "lasting": 0,
                      "steps": 0, "own_cpu_cores": 0.01, "cost_ratio": 0.003, "lost": 0}
        self.ended = threading.Event()
        agent = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                agent.answer(self)

            def log_message(self, *_):
                pass
        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128  # a browser opens several at a time

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()

    def answer(self, question):
        url = urllib.parse.urlsplit(question.path)
        self.asked.append(question.path)
        admitted = not self.token or url.path == "/" or \
            question.headers["Authorization"] == f"Bearer {self.token}"
        if admitted and url.path == "/api/v1/events":
            self.stream(question)
            return
        try:
            if admitted:
                self.tell(question, url)
            else:
                self.refused += 1
                self.send(question, 401, "text/plain; charset=utf-8", b"Unauthorized\n")
        finally:
            self.answered.append(question.path)

    def tell(self, question, url):
        name = url.path.removeprefix("/api/v1/")
        if url.path == "/":
            self.send(question, 200, "text/html; charset=utf-8", self.page.encode())
        elif url.path in self.files:
            told = self.files[url.path]
            self.send(question, *(told() if callable(told) else (200, *told)))
        elif name == "state":
            self.send(question, 200, "application/json", json.dumps(self.state).encode())
        elif name in self.answers:
            value = self.answers[name]
            if callable(value):
                value = value(dict(urllib.parse.parse_qsl(url.query)))
            status, value = value if isinstance(value, tuple) else (200, value)
            data = value if isinstance(value, bytes) else json.dumps(value).encode()
            self.send(question, status, "application/json", data)
        else:
            self.send(question, 404, "application/json", b'{"error":"there is none"}')

    @staticmethod
    def send(question, status, kind, body):
        question.send_response(status)
        question.send_header("Content-Type", kind)
        question.send_header("Content-Length", str(len(body)))
        question.end_headers()
        with contextlib.suppress(OSError):  # who asked may be gone
            question.wfile.write(body)

    def owes(self):
        """How many questions have no answer yet; events are no answer."""
        def counted(paths):
            return sum(not path.startswith("/api/v1/events") for path in list(paths))
        return counted(self.asked) - counted(self.answered)

    def stream(self, question):
        question.send_response(200)
        question.send_header("Content-Type", "text/event-stream")
        question.send_header("Connection", "close")
        question.end_headers()
        try:
            while not self.ended.wait(0.2):
                event = b"event: state\ndata: %s\n\n" % json.dumps(self.state).encode()
                for piece in self.pieces(event):
                    question.wfile.write(piece)
                    question.wfile.flush()
        except OSError:
            pass
