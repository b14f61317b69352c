"""net_loss.py - packets between the ranks are dropped at random, by a BPF program at the receiving
end of the link. Shows in retransmissions."""

from .base import Fault


class NetLoss(Fault):
    name = "net_loss"
    what = "packets between the ranks are dropped at random"
    layers = ("nccl", "host")
    traits = ("net",)
    values, unit = (0.005, 0.02, 0.05), "share of packets"
    confusable = ("net_bandwidth", "net_contention")

    def host_lacks(self, host, workload):
        return host.no_net or host.no_drop

    def begin(self, run, value):
        run.link.drop(value)

    def end(self, run):
        run.link.drop(0)

    def culprit(self, run):
        return {"kind": "device", "device": run.link.NAME}


FAULT = NetLoss()
