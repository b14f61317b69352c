#!/usr/bin/env python3
"""agent_prometheus_test.py - a Prometheus scrapes `eacgm agent` beside two GPUs of the fake NVML, and is
asked what NVIDIA's dashboard of dcgm-exporter asks. Grafana itself is not run: its variables are put
into the queries as it does. Needs Prometheus (Debian's package: prometheus)."""

import socket

import prometheus
from agents import Agent, start_in
from gpu import fake_nvml
from harness import PUSH, expect, main, probes, skip, target, test

GPUS = """count 2
gpu 0 temperature 55
gpu 0 power_mw 100000
gpu 0 sm_clock 1500
gpu 0 gpm_graphics 40
gpu 0 gpm_tensor 25
gpu 0 used 1073741824
gpu 1 temperature 60
gpu 1 power_mw 250500
gpu 1 sm_clock 1980
gpu 1 gpm_graphics 75
gpu 1 gpm_tensor 50
gpu 1 used 2147483648
"""

# Of grafana/dcgm-exporter-dashboard.json (github.com/NVIDIA/dcgm-exporter): what its panels ask, and
# by which labels their lines are told apart. %s: its variables Hostname and gpu, both "All".
GPU = ("Hostname", "gpu")
PANELS = (
    ("max(DCGM_FI_DEV_GPU_TEMP%s) by (Hostname, gpu, uuid)", GPU, {"0": 55, "1": 60}),
    ("avg(DCGM_FI_DEV_GPU_TEMP%s)", (), {None: 57.5}),
    ("max(DCGM_FI_DEV_POWER_USAGE%s) by (Hostname, gpu, uuid)", GPU, {"0": 100, "1": 250.5}),
    ("sum(max(DCGM_FI_DEV_POWER_USAGE%s) by (gpu))", (), {None: 350.5}),
    ("max(DCGM_FI_DEV_SM_CLOCK%s * 1000000) by (Hostname, UUID, gpu)", ("Hostname", "UUID", "gpu"),
     {"0": 1500e6, "1": 1980e6}),
    ("max(DCGM_FI_PROF_GR_ENGINE_ACTIVE%s) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)", GPU,
     {"0": 0.4, "1": 0.75}),
    ("max(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE%s) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)", GPU,
     {"0": 0.25, "1": 0.5}),
    ("max(DCGM_FI_DEV_FB_USED%s) by (Hostname, gpu, GPU_I_ID, GPU_I_PROFILE)", GPU,
     {"0": 1024, "1": 2048}),
)


def start(t, a):
    """A Prometheus that has scraped the agent."""
    if not prometheus.find():
        skip("there is no Prometheus (package prometheus)")
    p = prometheus.Prometheus(t.start, t.dir, a.port)
    t.wait_for(p.is_ready, p.said)
    t.wait_for(lambda: p.rows("up"), p.said)
    return p


def values_of(p, label, series):
    """As Grafana fills a variable from label_values(series, label)."""
    return p.ask("label/%s/values" % label, **{"match[]": series})


@test("a Prometheus scrapes it: up, with all that it serves, by the types that it tells")
def _(t):
    a = Agent(t, "--budget", "100%", "--layers", "user,gpu", *probes(PUSH), env=fake_nvml(t, GPUS))
    p = start(t, a)
    job = start_in(t, a.group, target("calls"), "threads", "300", "2")
    job.wait(20)
    calls = 'eacgm_calls_total{function="target_push",pid="%d"}' % job.pid
    t.wait_for(lambda: [v for _, v in p.rows(calls)] == [600],
               lambda: "600 calls: %r of %r" % (p.rows(calls), p.ask("targets")))
    expect([(row["job"], v) for row, v in p.rows("up")] == [("eacgm", 1)], p.rows("up"))
    told = p.ask("targets")["activeTargets"]
    expect(len(told) == 1 and told[0]["health"] == "up" and not told[0]["lastError"], told)
    t.wait_for(lambda: set(a.samples()) <= set(p.ask("label/__name__/values")),
               lambda: set(a.samples()) - set(p.ask("label/__name__/values")))
    kinds = p.ask("metadata")
    for name, kind in (("eacgm_process_info", "gauge"), ("DCGM_FI_DEV_GPU_TEMP", "gauge"),
                       ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter")):
        expect([x["type"] for x in kinds[name]] == [kind], kinds[name])
    expect(sum(v for _, v in p.rows("scrape_samples_scraped")) ==
           sum(v for _, v in p.rows("scrape_samples_post_metric_relabeling")) > 100, "samples")
    # it warns of samples that are there twice, or out of order
    expect("level=warn" not in p.said() and "level=error" not in p.said(), p.said())
    a.end()


@test("what the panels of dcgm-exporter's dashboard ask gives values")
def _(t):
    a = Agent(t, "--layers", "user,gpu", env=fake_nvml(t, GPUS))
    p = start(t, a)
    host = socket.gethostname()
    t.wait_for(lambda: values_of(p, "gpu", 'DCGM_FI_DEV_FB_FREE{Hostname=~"%s"}' % host) ==
               ["0", "1"], p.said)
    hosts = values_of(p, "Hostname", "DCGM_FI_DEV_FB_FREE")
    expect(hosts == [host], hosts)
    where = '{Hostname=~"%s", gpu=~"(0|1)"}' % host
    for query, labels, values in PANELS:
        def rows():
            return p.rows(query % where)
        t.wait_for(lambda: {row.get("gpu"): v for row, v in rows()} == values,
                   lambda: "%s: %r, not %r" % (query, values, rows()))
        for row, _ in rows():
            expect(set(row) == set(labels) and all(row.values()), (query, row))
    a.end()


if __name__ == "__main__":
    main()
