#!/usr/bin/env python3
"""report_cli_test.py - `eacgm report` from the outside: what its head says of the cost of recording.

The sample is a simulated job (make_job.c), whose recording says what it took."""
import json

from cli import eacgm, job, main, test


@test
def the_cost_while_it_ran_and_what_it_was_held_are_apart(folder):
    path = job(folder / "job.eacgm", 1, 5)
    told = json.loads(eacgm("report", "--json", path).stdout)["recording"]["overhead"]
    assert abs(told["cpu_ratio"] - 0.5 / 10.5) < 1e-9, told
    assert told["running_cpu_s"] == 0.5 and told["ran_cpu_s"] == 10.5, told
    assert told["held_s"] == 2 and told["held_cpu_s"] == 0.5, told
    assert told["collector_cpu_s"] == 1 and told["displacing_cpu_s"] == 0.2, told
    assert told["start_cpu_s"] == 0.5, told


@test
def the_head_says_what_it_cost_and_why(folder):
    text = eacgm("report", job(folder / "job.eacgm", 1, 5)).stdout
    assert "cost       while it ran 4.8 % of the job's CPU time (0.50 of 10.50 s); " \
        "eacgm itself 1.00 s beside it\n" \
        "  start-up   once: the job was held for 2.00 s in sum; eacgm used 0.50 s of CPU time\n" \
        in text, text[:900]


if __name__ == "__main__":
    main()
