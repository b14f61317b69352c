"""net_contention.py - foreign connections share the link between the ranks."""

from .base import Foreign


class NetContention(Foreign):
    name = "net_contention"
    what = "foreign connections on the link between the ranks"
    layers = ("nccl", "host")
    traits = ("net",)
    values, unit = (2, 6, 16), "connections"
    confusable = ("net_bandwidth", "net_loss")

    def __init__(self):
        super().__init__()
        self.sink = None

    def host_lacks(self, host, workload):
        return host.no_net

    def prepare(self, run, value):
        link = run.link
        self.sink = run.stress(["receive", "--address", link.addresses[1]], link.spaces[1])
        self.sink.go()
        self.started = run.stress(["send", "--address", link.addresses[1], "--count",
                                   str(round(value))], link.spaces[0])

    def end(self, run):
        super().end(run)
        if self.sink:
            run.end_process(self.sink.process)
        self.sink = None


FAULT = NetContention()
