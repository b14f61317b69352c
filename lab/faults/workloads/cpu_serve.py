#!/usr/bin/env python3
"""cpu_serve.py - answers requests over a socket with the GPT of cpu_gpt.py. A second process sends
them in bursts: a request has 4 to 40 words, bursts are of 1 to 30 requests, and between them there
is nothing to do for up to a second. The log has a row for each request, from its arrival at an idle
server, or the end of the one before, to its answer."""

import os
import random
import socket
import struct
import time

import torch

import cpu_gpt
import stepper

TELL = struct.Struct("<I")


def client(sock, seed):
    """Sends requests until the server goes away."""
    chance = random.Random(seed)
    try:
        while True:
            for _ in range(chance.randint(1, 30)):
                sock.sendall(TELL.pack(chance.randint(4, 40)))
                if sock.recv(TELL.size) == b"":
                    return
            time.sleep(min(1.0, chance.expovariate(1 / 0.15)))
    except OSError:
        pass


def main():
    args = stepper.parser(__doc__).parse_args()
    ours, theirs = socket.socketpair()
    if os.fork() == 0:  # its child is nobody's: who sends requests is no part of the job
        if os.fork() == 0:
            ours.close()
            client(theirs, args.seed)
        os._exit(0)
    os.wait()
    theirs.close()
    torch.set_num_threads(args.threads)
    job = stepper.Job(args)
    torch.manual_seed(args.seed)
    model = cpu_gpt.language_model().eval()
    job.begin(model, "cpu")
    with torch.no_grad():
        while job.goes_on():
            request = ours.recv(TELL.size)
            job.waited()
            words, = TELL.unpack(request)
            texts = 2 if job.half else 4
            x = torch.randint(0, cpu_gpt.WORDS, (texts, words))
            model(x)[:, -1].argmax(-1).tolist()
            ours.sendall(TELL.pack(words))
            job.ended("request", work=texts * words)
    ours.close()


if __name__ == "__main__":
    main()
