"""net_bandwidth.py - the link between the ranks becomes slower: another rate of its token bucket."""

from .base import Fault


class NetBandwidth(Fault):
    name = "net_bandwidth"
    what = "the link between the ranks has a lower rate"
    layers = ("nccl", "host")
    traits = ("net",)
    values, unit = (0.6, 0.35, 0.15), "share of the link's rate"
    confusable = ("net_contention", "net_loss")

    def host_lacks(self, host, workload):
        return host.no_net

    def begin(self, run, value):
        run.link.limit(int(run.link.rate_bits * value))

    def end(self, run):
        run.link.limit(run.link.rate_bits)

    def culprit(self, run):
        return {"kind": "device", "device": run.link.NAME}


FAULT = NetBandwidth()
