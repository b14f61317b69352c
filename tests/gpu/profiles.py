"""profiles.py - the checks of run.py that are about stacks: whole stacks on a real training,
GPU time and GPU memory by stack. Knows eacgm by its command line only."""

import json

from compare import SHOWN

WHOLE = 0.99       # of CPU samples
GPU_TIME = 0.02    # of what CUPTI says
ENGINE = "torch::autograd::Engine::thread_main"
BACKWARD = "backward: "


def folded(t, run, recording, kind, *options):
    """{stack as a tuple of frames, root first: weight}"""
    out, _ = run([t.args.eacgm, "flame", recording, "--kind", kind, "-f", "folded", "-o", "-",
                  *options], 120)
    stacks = {}
    for line in out.splitlines():
        stack, weight = line.rsplit(" ", 1)
        stacks[tuple(stack.split(";"))] = int(weight)
    return stacks


def through(stacks, function):
    """Weight of the stacks that have a Python function of this name."""
    return sum(weight for stack, weight in stacks.items()
               if any(frame.startswith(function + " (") for frame in stack))


def whole_stacks(t, run):
    """Python, native and kernel frames of a training, from the root on."""
    recording = t.record(["--profile", "cpu,offcpu"], t.job("gpt2", "--steps", 600), 120)
    profile = t.report(recording)["profile"]
    cut = ["%d of %d CPU samples are not whole: %s" % (
        sum(profile["end_reasons"].values()), profile["samples"], profile["end_reasons"])]
    t.results.holds("at least 99 % of the stacks are whole",
                    cut if profile["whole_ratio"] < WHOLE else [])
    stacks = folded(t, run, recording, "cpu")
    lost = ["no stack of Training.step in %d" % len(stacks)]
    t.results.holds("the training step is on the stacks",
                    [] if through(stacks, "Training.step") else lost)
    t.results.note(profile={k: profile[k] for k in ("samples", "whole_ratio", "end_reasons")},
                   waits=profile.get("offcpu"))


def memory(t, run):
    """What tensors hold, by the function that made them, to the byte."""
    made_path = t.path("made.json")
    recording = t.record(["--profile", "gpu-inuse"], t.job("tensors", "--json", made_path), 120)
    with open(made_path) as f:
        made = json.load(f)
    start_ns = t.report(recording)["recording"]["start_monotonic_ns"]
    moment = ("--at", "%.9f" % ((made["at_ns"] - start_ns) / 1e9))
    end = folded(t, run, recording, "gpu-inuse", "--level", "torch", *moment)
    problems = ["%s holds %d bytes, its stacks %d" % (name, held, through(end, name))
                for name, held in made["held_bytes"].items() if through(end, name) != held]
    t.results.holds("bytes by function equal what the script holds", problems)
    total = sum(end.values())
    t.results.holds("all stacks together equal PyTorch's requested bytes", [] if
                    total == made["requested_bytes"] else
                    ["%d bytes, requested_bytes %d" % (total, made["requested_bytes"])])
    peak = sum(folded(t, run, recording, "gpu-inuse", "--level", "torch", "--at", "peak").values())
    t.results.holds("the peak equals PyTorch's", [] if peak == made["peak_requested_bytes"] else
                    ["%d bytes, peak %d" % (peak, made["peak_requested_bytes"])])
    driver = sum(folded(t, run, recording, "gpu-inuse", "--level", "driver",
                        *moment).values())
    t.results.holds("the driver's level covers what PyTorch reserved",
                    [] if made["reserved_bytes"] <= driver else
                    ["%d bytes, reserved %d" % (driver, made["reserved_bytes"])])
    t.results.note(made=made, seen={"torch": total, "peak": peak, "driver": driver},
                   unexplained={str(k): v for k, v in sorted(
                       end.items(), key=lambda i: -i[1])[:SHOWN]})


def gpu_time(t, run):
    """The GPU flame graph's total against CUPTI's, of a run of its own with the same seed."""
    steps, made_path, cupti_path = ("--steps", 60), t.path("made.json"), t.path("cupti.json")
    recording = t.record(["--profile", "gpu,gpu-alloc", "--gpu-timeline"],
                         t.job("gpt2", *steps, "--json", made_path), 180)
    run(t.job("gpt2", *steps, "--profile", cupti_path), 180)
    with open(made_path) as f, open(cupti_path) as g:
        made, cupti = json.load(f), json.load(g)
    r = t.report(recording)["recording"]
    window = [(ns - r["start_monotonic_ns"]) / 1e9 for ns in made["window"]]
    stacks = folded(t, run, recording, "gpu", "--from", window[0], "--to", window[1])
    total, said = sum(stacks.values()), cupti["kernel_ns"] + cupti["copy_ns"]
    t.results.note(total_ns=total, cupti_ns=said, ratio=total / said, stacks=len(stacks),
                   lost=r.get("lost_by_cause"))
    t.results.holds("its total is the GPU's busy time", [] if
                    abs(total - said) <= GPU_TIME * said else
                    ["%d ns of GPU work, CUPTI says %d" % (total, said)])
    backward = sum(w for s, w in stacks.items() if ENGINE in s)
    under = through(stacks, "Training.step") + backward
    t.results.holds("nearly all of it is under the training step or autograd's thread",
                    [] if under > 0.97 * total else ["%d of %d ns" % (under, total)])
    backward_time(t, run, recording, stacks, window)


def backward_time(t, run, recording, stacks, window):
    """What backward passes started stands under the lines of their forward operators."""
    own = folded(t, run, recording, "gpu", "--backward", "own", "--from", window[0], "--to",
                 window[1])
    t.results.holds("the total is the same with backward passes under their own stacks", [] if
                    sum(own.values()) == sum(stacks.values()) else
                    ["%d ns, %d under their own" % (sum(stacks.values()), sum(own.values()))])
    below = {s: w for s, w in stacks.items() if any(f.startswith(BACKWARD) for f in s)}
    t.results.holds("nodes of backward passes stand under the training step", [] if
                    below and through(below, "Training.step") == sum(below.values()) else
                    ["%d of %d ns" % (through(below, "Training.step"), sum(below.values()))])
    engine = sum(w for s, w in own.items() if ENGINE in s)
    linked = t.report(recording)["gpu_operators"]
    share = linked["backward_linked_ns"] / linked["backward_ns"]
    t.results.note(backward_ns=engine, under_forward_ns=sum(below.values()), linked_ratio=share)
    t.results.holds("of those with an operator 9 in 10", [] if
                    sum(below.values()) > 0.9 * share * engine else
                    ["%d of %d ns, %.3f have an operator" % (sum(below.values()), engine, share)])
