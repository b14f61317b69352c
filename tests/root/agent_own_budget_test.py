#!/usr/bin/env python3
"""agent_own_budget_test.py - `eacgm agent --own-budget`: beside launches of kernels (the tests'
fake libcuda, bench/launch_load) functions go to bursts for what the agent itself takes, and for
nothing else; it says so everywhere, and they come back when there is no such bound any more. Says
nothing of how much it takes: bench/own_budget.py does."""

import json
import os
import re

from agents import Agent, start_in
from cgroups import make_cgroup
from harness import BUILD, expect, main, skip, test

LOAD = os.path.join(os.path.abspath(BUILD), "bench", "launch_load")
DOWN = (r"budget: .*on in bursts from now on .*, as eacgm itself took [0-9.]+ % of a core "
        r"\(own budget: 0\.5 %\): cu")
UP = r"budget: .*on all the time again .*: cu"


def write(path, text):
    with open(path, "w") as f:
        f.write(text)
    return path


def in_bursts(a):
    return {labels["budget"]: v for labels, v in a.samples().get("eacgm_functions_in_bursts", [])}


def own(a):
    return json.loads(a.get("/api/v1/self")[0])


def beside_launches(t, config):
    """An agent with a file of options, and a job that launches as a training of small kernels."""
    if not os.path.exists(LOAD):
        skip("no bench/launch_load in the build")
    group = make_cgroup(t, "agent")
    path = write(t.path("agent.yaml"), config)
    a = Agent(t, "-c", path, group=group)
    return a, path, start_in(t, group, LOAD, "600", "80000", "3", "300")


def hang_up(t, a, path, config, says):
    write(path, config)
    a.p.send_signal(1)
    t.wait_for(lambda: says in a.said(), a.said)


@test("functions go to bursts for the agent's own time alone, and come back without the bound", 240)
def _(t):
    a, path, job = beside_launches(t, "layers: [cuda]\nbudget: 100%\nown_budget: 0.5%\n")
    t.wait_for(lambda: re.search(DOWN, a.said()), a.said, 120)
    t.wait_for(lambda: in_bursts(a).get("own", 0) >= 1,
               lambda: "%r: %s" % (in_bursts(a), a.said()), 30)
    expect(in_bursts(a)["jobs"] == 0 and "recording cost" not in a.said(), a.said())
    t.wait_for(lambda: own(a)["own_budget"]["call_s"], "what a call takes")
    told = own(a)
    down = {row["function"]: row for row in told["turned_down"] if row["in_bursts"]}
    expect("cuLaunchKernel" in down and {row["budget"] for row in down.values()} == {"own"}, told)
    expect(told["own_budget"]["limit_cores"] == 0.005, told)
    samples = a.samples()
    expect(samples["eacgm_own_budget_cores"] == [({}, 0.005)] and
           samples["eacgm_own_fixed_cores"], samples)
    hang_up(t, a, path, "layers: [cuda]\nbudget: 100%\nown_budget: 100%\n",
            "takes over --own-budget")
    t.wait_for(lambda: re.search(UP, a.said()), a.said, 120)
    t.wait_for(lambda: in_bursts(a) == {"jobs": 0, "own": 0}, lambda: "%r" % in_bursts(a), 30)
    expect(own(a)["own_budget"] is None, own(a))
    t.kill(job)
    a.end()


@test("beside a detector there is a bound where one is told, and nowhere else", 240)
def _(t):
    a, path, job = beside_launches(t, "layers: [cuda]\ndetect: true\nown_budget: 0.5%\n")
    t.wait_for(lambda: re.search(DOWN, a.said()), a.said, 120)
    expect("recording cost" not in a.said(), a.said())
    hang_up(t, a, path, "layers: [cuda]\ndetect: true\n",
            "ends, to be started again with another --own-budget")
    expect(a.p.wait(60) == 0, a.said())
    b = Agent(t, "-c", path, group=a.group)
    expect(own(b)["own_budget"] is None, own(b))
    t.kill(job)
    b.end()


main()
