#!/usr/bin/env python3
"""agent_pods_test.py - names of pods, containers and batch jobs in what `eacgm agent` serves: from a
kubelet and a container runtime that answer, and from all that do not as they should."""

import json
import os

import protos
from agents import Agent, start_in
from cgroups import make_cgroup
from gpu import fake_nvml
from harness import EACGM, PUSH, expect, main, probes, target, test
from pod_servers import (KUBELET, QUESTIONS, RUNTIME, Server, container, devices, kubelet_answer,
                         pod, runtime_answer)

UID = "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
TRACED = ("--budget", "100%", "--layers", "user,gpu", *probes(PUSH))


def sockets(kubelet="off", runtime="off"):
    return ("--kubelet-socket", getattr(kubelet, "path", kubelet),
            "--runtime-socket", getattr(runtime, "path", runtime))


def container_group(t, group, number, uid=UID):
    """A control group as kubelet and containerd make them with systemd's driver."""
    path = group
    for part in ("kubepods-burstable-pod%s.slice" % uid.replace("-", "_"),
                 "cri-containerd-%s.scope" % number):
        path = os.path.join(path, part)
        if not os.path.isdir(path):
            os.mkdir(path)
            t.at_end.append(lambda path=path: os.rmdir(path))
    return path


def job_in(t, a, number, uid=UID, **env):
    return start_in(t, container_group(t, a.group, number, uid), target("calls"), "until",
                    t.path("never"), "1", "100", **env)


def labels_of(a, job):
    rows = [labels for labels, _ in a.samples().get("eacgm_process_info", [])
            if labels["pid"] == str(job.pid)]
    return rows[0] if rows else {}


def names_of(a, job):
    return tuple(labels_of(a, job).get(k) for k in ("pod", "namespace", "container_name"))


def holders(a, series):
    """{(gpu, GPU instance): [(pod, namespace, container, hpc_job)]}; the fake NVML's begin with 7."""
    found = {}
    for labels, _ in a.samples().get(series, []):
        found.setdefault((labels["gpu"], labels.get("GPU_I_ID")), []).append(
            tuple(labels.get(k) for k in ("pod", "namespace", "container", "hpc_job")))
    return found


@test("the fake sockets ask and say what the kubelet's and the runtime's own definitions have")
def _(t):
    for which, of, method in ((protos.POD_RESOURCES, "v1.ListPodResourcesRequest", KUBELET),
                              (protos.CRI, "runtime.v1.ListContainersRequest", RUNTIME)):
        asked = protos.decode(which, of, QUESTIONS[method])
        expect(asked == ({} if method == KUBELET else
                         {"filter": {"state": {"state": 1}, "label_selector": {}}}), asked)
    said = protos.decode(protos.POD_RESOURCES, "v1.ListPodResourcesResponse", kubelet_answer(
        pod("train-0", "ml", "trainer", devices("nvidia.com/gpu", ["GPU-0", "GPU-1"]))))
    row = said["pod_resources"][0]
    expect((row["name"], row["namespace"], row["containers"][0]["name"]) ==
           ("train-0", "ml", "trainer"), row)
    held = row["containers"][0]["devices"][0]
    expect((held["resource_name"], held["device_ids"]) == ("nvidia.com/gpu", ["GPU-0", "GPU-1"]), held)
    said = protos.decode(protos.CRI, "runtime.v1.ListContainersResponse", runtime_answer(
        container("1a" * 32, "train-0", "ml", UID, "trainer")))
    row = said["containers"][0]
    expect((row["id"], row["metadata"]["name"], row["state"]) == ("1a" * 32, "trainer", 1) and
           row["labels"]["io.kubernetes.pod.uid"] == UID, row)


@test("whose processes and GPUs are, by the kubelet and the container runtime")
def _(t):
    first, second = "1a" * 32, "2b" * 32
    runtime = Server(t, t.path("cri.sock"), RUNTIME, runtime_answer(
        container(first, "train-0", "ml", UID, "trainer"),
        container("not-hex", "other", "ml", UID, "x")))
    kubelet = Server(t, t.path("kubelet.sock"), KUBELET, kubelet_answer(
        pod("train-0", "ml", "trainer", devices("nvidia.com/gpu", ["GPU-0000"]),
            devices("example.com/nic", ["GPU-0001"])),
        pod("slice-0", "ml", "infer", devices("nvidia.com/mig-1g.18gb", ["MIG-0001-1::2"])),
        pod("gke-0", "ml", "infer", devices("nvidia.com/gpu", ["nvidia1/gi7/vgpu0"])),
        pod("no-gpu", "ml", "idle")))
    a = Agent(t, *TRACED, *sockets(kubelet, runtime), env=fake_nvml(t, "count 2\nmig 1 2\n"))
    job = job_in(t, a, first, POD_NAME="it-says-so-itself")
    t.wait_for(lambda: names_of(a, job) == ("train-0", "ml", "trainer"),
               "its names: %r" % labels_of(a, job))
    labels = labels_of(a, job)
    expect(labels["container"] == first and labels["pod_uid"] == UID, labels)
    t.wait_for(lambda: holders(a, "DCGM_FI_DEV_FB_USED") == {
        ("0", None): [("train-0", "ml", "trainer", None)], ("1", None): [(None,) * 4],
        ("1", "7"): [("gke-0", "ml", "infer", None)], ("1", "8"): [("slice-0", "ml", "infer", None)]},
        "who has which GPU: %r" % holders(a, "DCGM_FI_DEV_FB_USED"))
    told = json.loads(a.get("/api/v1/jobs/%d" % job.pid)[0])
    expect((told["pod"], told["namespace"], told["container_name"]) == ("train-0", "ml", "trainer"), told)

    # a container that is not known yet has it asked again at once
    runtime.message += runtime_answer(container(second, "train-1", "ml", "9" + UID[1:], "trainer"))
    later = job_in(t, a, second, "9" + UID[1:])
    t.wait_for(lambda: names_of(a, later) == ("train-1", "ml", "trainer"), "the names of the second")
    # one that the runtime does not know, of a pod that it knows
    inner = job_in(t, a, "3c" * 32)
    t.wait_for(lambda: names_of(a, inner) == ("train-0", "ml", None), "the names of the pod")
    runtime.check()
    kubelet.check()
    expect("no names of pods" not in a.said(), a.said())
    a.end()


def is_told_once(a, server, why):
    lines = [line for line in a.said().splitlines() if server.path in line]
    return len(lines) == 1 and "no names of pods: " + why in lines[0]


@test("servers that crawl, lie, refuse, hang up: a line each, and nobody waits", 120)
def _(t):
    number = "1a" * 32
    for kubelet_does, kubelet_why, runtime_does, runtime_why in (
            ("lie", "answers something else than was asked", "crawl", "no answer within 5000 ms"),
            ("refuse", "refuses: status 13: not now", "junk", "speaks no gRPC"),
            ("say_much", "answers more than", "hang_up", "hangs up"),
            ("pack", "answers something else than one", "has_no_such_service", "refuses: status 12")):
        kubelet = Server(t, t.path("k-" + kubelet_does), KUBELET, does=kubelet_does)
        runtime = Server(t, t.path("r-" + runtime_does), RUNTIME, does=runtime_does)
        a = Agent(t, *TRACED, *sockets(kubelet, runtime), group=make_cgroup(t, runtime_does))
        job = job_in(t, a, number)
        t.wait_for(lambda: labels_of(a, job).get("container") == number, "the job")
        t.wait_for(lambda: is_told_once(a, kubelet, kubelet_why), "a line: " + kubelet_does)
        t.wait_for(lambda: is_told_once(a, runtime, runtime_why), "a line: " + runtime_does)
        expect(names_of(a, job) == (None,) * 3, labels_of(a, job))
        t.kill(job)
        job.wait()
        a.end()


@test("one that does not accept: nobody waits; when another takes its place", 90)
def _(t):
    number = "1a" * 32
    dead = Server(t, t.path("cri.sock"), RUNTIME, does="nothing")
    a = Agent(t, *TRACED, *sockets(runtime=dead))
    job = job_in(t, a, number)
    t.wait_for(lambda: labels_of(a, job).get("container") == number, "the job")
    # while it is being asked
    expect("no names of pods" not in a.said() and names_of(a, job) == (None,) * 3, a.said())
    t.wait_for(lambda: is_told_once(a, dead, "no answer within"), "a line")
    Server(t, t.path("cri.sock"), RUNTIME,
           runtime_answer(container(number, "train-0", "ml", UID, "trainer")))
    t.wait_for(lambda: names_of(a, job) == ("train-0", "ml", "trainer"), "its names", 40)
    expect(a.said().count("cri.sock: names of pods again") == 1, a.said())
    a.end()


@test("1,000 pods")
def _(t):
    def number(i):
        return "%064x" % (i * 0x9e3779b97f4a7c15)
    more = {"example.com/label-%d" % i: "v" * 40 for i in range(10)}
    runtime = Server(t, t.path("cri.sock"), RUNTIME, runtime_answer(*(
        container(number(i), "pod-%d" % i, "ns-%d" % (i % 7), "%08x%s" % (i, UID[8:]), "main", more)
        for i in range(1000))))
    kubelet = Server(t, t.path("kubelet.sock"), KUBELET, kubelet_answer(*(
        pod("pod-%d" % i, "ns-%d" % (i % 7), "main", devices(
            "nvidia.com/gpu", ["GPU-%04x" % (i - 998)] if i >= 998 else [])) for i in range(1000))))
    a = Agent(t, *TRACED, *sockets(kubelet, runtime), env=fake_nvml(t, "count 2\n"))
    job = job_in(t, a, number(777), "%08x%s" % (777, UID[8:]))
    t.wait_for(lambda: names_of(a, job) == ("pod-777", "ns-0", "main"), "its names")
    t.wait_for(lambda: holders(a, "DCGM_FI_DEV_GPU_TEMP") == {
        ("0", None): [("pod-998", "ns-4", "main", None)],
        ("1", None): [("pod-999", "ns-5", "main", None)]}, "who has which GPU")
    a.end()


@test("jobs of GPUs from the folder of a cluster, as dcgm-exporter takes it")
def _(t):
    folder = t.path("jobs")
    a = Agent(t, *TRACED, *sockets(), "--hpc-job-mapping-dir", folder,
              env=fake_nvml(t, "count 3\nmig 2 2\n"))
    t.wait_for(lambda: a.said().count("no jobs of GPUs: " + folder) == 1, "no folder")
    os.mkdir(folder)
    for name, text in (("0", "4711\n\n4712\n4711\n"), ("1", ""), ("2.8", "inner"), ("x", "no\n"),
                       ("0.x", "no\n")):
        with open(os.path.join(folder, name), "w") as f:
            f.write(text)
    os.mkfifo(os.path.join(folder, "2"))

    def jobs():
        return {k: [row[3] for row in rows] for k, rows in holders(a, "DCGM_FI_DEV_FB_USED").items()}
    t.wait_for(lambda: jobs() == {("0", None): ["4711", "4712"], ("1", None): [None],
                                  ("2", None): [None], ("2", "7"): [None], ("2", "8"): ["inner"]},
               "jobs: %r" % jobs())
    expect(a.said().count("jobs of GPUs again") == 1, a.said())
    os.unlink(os.path.join(folder, "0"))
    t.wait_for(lambda: jobs().get(("0", None)) == [None], "the job's end")
    a.end()


@test("a socket by no absolute path is refused")
def _(t):
    for option in ("--kubelet-socket", "--runtime-socket"):
        r = t.run([EACGM, "agent", option, "kubelet.sock"])
        expect(r.status == 2 and "%s: 'kubelet.sock' is neither an absolute path nor 'off'" % option
               in r.err, r)


main()
