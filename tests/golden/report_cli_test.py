#!/usr/bin/env python3
"""report_cli_test.py - `eacgm report` from the outside: what its head says of the cost of recording.

The sample is a simulated job (make_job.c), whose recording says what it took."""
import json

from cli import eacgm, job, main, test


@test
def the_cost_is_what_the_job_could_have_used(folder):
    path = job(folder / "job.eacgm", 1, 5)
    told = json.loads(eacgm("report", "--json", path).stdout)["recording"]["overhead"]
    assert abs(told["cpu_ratio"] - 0.12) < 1e-9, told
    assert told["held_s"] == 2 and told["collector_cpu_s"] == 1 and told["start_cpu_s"] == 0.5, told


@test
def the_head_says_what_it_cost_and_why(folder):
    text = eacgm("report", job(folder / "job.eacgm", 1, 5)).stdout
    assert "cost       12.00 % of the job's CPU time; held for 2.000 s in sum; " \
        "eacgm itself 1.00 s of CPU time, its start 0.50 s\n" in text, text[:900]


if __name__ == "__main__":
    main()
