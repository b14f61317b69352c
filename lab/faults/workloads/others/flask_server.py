#!/usr/bin/env python3
"""flask_server.py - a Flask server that classifies pictures, by its own app.py: DenseNet with random
weights for those that it would fetch. A process of ours sends pictures of 200 to 700 pixels in
bursts of 1 to 12, with nothing to do between them for up to 1.5 s. The log has a row for each
request, from when it is accepted to its answer, with its bytes."""

import http.client
import os
import random
import socket
import time

import jpegs
import outside

BOUNDARY = "picture"


def bodies(chance):
    """Requests as a form's: smooth pictures, as JPEG."""
    for _ in range(24):
        yield b"".join((b"--%b\r\n" % BOUNDARY.encode(),
                        b'Content-Disposition: form-data; name="file"; filename="a.jpg"\r\n'
                        b"Content-Type: image/jpeg\r\n\r\n", jpegs.picture(chance, chance.randint(200, 700)),
                        b"\r\n--%b--\r\n" % BOUNDARY.encode()))


def ask(port, body):
    connection = http.client.HTTPConnection("127.0.0.1", port)
    try:
        connection.request("POST", "/predict", body, {
            "Content-Type": "multipart/form-data; boundary=" + BOUNDARY})
        return connection.getresponse().read()
    finally:
        connection.close()


def client(port, seed):
    """Sends requests until the server goes away; waits for it first."""
    chance = random.Random(seed)
    requests, end = list(bodies(chance)), time.monotonic() + 180
    while True:
        try:
            for _ in range(chance.randint(1, 12)):
                ask(port, chance.choice(requests))
                end = 0
        except (OSError, http.client.HTTPException):
            if time.monotonic() > end:
                return
        time.sleep(min(1.5, chance.expovariate(1 / 0.3)))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def main():
    program = outside.Program(__doc__, "flask-api")
    port = free_port()
    if os.fork() == 0:  # its child is nobody's: who sends requests is no part of the job
        if os.fork() == 0:
            client(port, program.seed)
        os._exit(0)
    os.wait()
    import flask
    import torchvision
    from werkzeug.serving import BaseWSGIServer
    densenet, run = torchvision.models.densenet121, flask.Flask.run

    def untrained(pretrained):
        program.model = densenet()
        return program.model
    torchvision.models.densenet121 = untrained
    flask.Flask.run = lambda app: run(app, port=port, threaded=False)
    size = [0]
    program.after_wait(BaseWSGIServer, "get_request")
    program.after(flask.Flask, "wsgi_app",
                  lambda app, environ, *_: size.__setitem__(0, int(environ["CONTENT_LENGTH"])))
    program.after(BaseWSGIServer, "process_request", "request", work=lambda *_: size[0])
    program.enter()
    program.run("app.py")


if __name__ == "__main__":
    main()
