"""baselines.py - what simpler methods would name as the cause of the same incidents, from the windows
of `eacgm detect --rows`: so that only naming is compared, not finding. They see what a diagnosis saw
up to when it was told, and nothing of the labels. Thresholds are those of no run.

`correlation` is the score of "Host-Side Telemetry for Performance Diagnosis in Cloud and HPC GPU
Infrastructure": the counter that goes most with how slow the job was. `time and pid` is the rule of
tools that chain what stood out at the same time in the same process, the system's first. `NVML` and
`waits` look at the GPU's counters, or at what threads waited for, alone."""

import math
import statistics

SECOND = 10**9
BEFORE_NS = 30 * SECOND  # of windows to compare with
LEAST = 4  # windows
STANDS_OUT = 4.0  # robust standard deviations
LEAST_CORRELATION = 0.5

# Counter: (cause, the direction in which it speaks for it), the system's before the process's.
SYSTEM = {"other_sm_ratio": ("gpu_contention", 1), "clocks_held": ("clock", 1),
          "sm_clock_mhz": ("clock", -1), "preempted_ratio": ("cpu_contention", 1),
          "preemptions_per_s": ("cpu_contention", 1), "wait_disk_ratio": ("disk_contention", 1),
          "net_retransmits_per_s": ("net_loss", 1), "wait_network_ratio": ("net_bandwidth", 1)}
PROCESS = {"wait_gil_ratio": ("python_gil", 1), "wait_futex_ratio": ("python_gil", 1),
           "wait_other_ratio": ("cpu_throttle", 1), "cpu_ratio": ("slow_code", 1),
           "pcie_rx_bytes_per_s": ("pcie", -1), "pcie_tx_bytes_per_s": ("pcie", -1),
           "gpm_sm_ratio": ("gpu_slow", 1), "sm_ratio": ("gpu_slow", 1),
           "rss_bytes": ("memory_reclaim", 1)}
CAUSES = {**SYSTEM, **PROCESS}
NVML = ("other_sm_ratio", "clocks_held", "sm_clock_mhz", "pcie_rx_bytes_per_s",
        "pcie_tx_bytes_per_s", "gpm_sm_ratio", "sm_ratio")
WAITS = ("preempted_ratio", "wait_disk_ratio", "wait_network_ratio", "wait_gil_ratio",
         "wait_futex_ratio", "wait_other_ratio")


def second_of(row):
    return row["start_ns"] // SECOND


class Windows:
    """Of one job: counters and how slow it was, by second."""

    def __init__(self, rows, pids=None):
        self.counters, self.slowness = {}, {}
        for r in rows:
            if pids is not None and r.get("pid") not in pids and r["layer"] != "hardware":
                continue
            if r["layer"] in ("host", "hardware"):
                for name, value in r["features"].items():
                    if name in CAUSES and value is not None:
                        self.counters.setdefault(name, {})[second_of(r)] = value
            elif r.get("pace"):
                self.slowness[second_of(r)] = -math.log(r["pace"])

    def around(self, values, incident):
        """(before, within): of the seconds up to when it was told."""
        onset, told = incident["onset_ns"], incident["told_ns"]
        before = [v for s, v in values.items()
                  if onset - BEFORE_NS <= s * SECOND and (s + 1) * SECOND <= onset]
        within = [v for s, v in values.items() if (s + 1) * SECOND > onset and s * SECOND < told]
        return before, within

    def stands_out(self, name, incident):
        """Robust standard deviations, positive in the direction that speaks for its cause."""
        before, within = self.around(self.counters.get(name, {}), incident)
        if len(before) < LEAST or not within:
            return 0.0
        middle = statistics.median(before)
        spread = 1.4826 * statistics.median(abs(v - middle) for v in before)
        least = 1e-3 * max(1.0, abs(middle))  # a counter that never moved
        return CAUSES[name][1] * (statistics.fmean(within) - middle) / max(spread, least)

    def correlation(self, name, incident):
        """With how slow the job was, over the same seconds."""
        onset, told = incident["onset_ns"], incident["told_ns"]
        points = [(v, self.slowness[s]) for s, v in self.counters.get(name, {}).items()
                  if s in self.slowness and onset - BEFORE_NS <= s * SECOND < told]
        if len(points) < 2 * LEAST:
            return 0.0
        return CAUSES[name][1] * pearson(points)


def pearson(points):
    mx, my = (statistics.fmean(p[i] for p in points) for i in (0, 1))
    xx, yy = (sum((p[i] - m) ** 2 for p in points) for i, m in ((0, mx), (1, my)))
    xy = sum((x - mx) * (y - my) for x, y in points)
    return xy / math.sqrt(xx * yy) if xx and yy else 0.0


def strongest(names, value, least):
    """The cause of the counter that has the most, or None."""
    name = max(names, key=value, default=None)
    return CAUSES[name][0] if name and value(name) >= least else None


def correlation(windows, incident):
    return strongest(CAUSES, lambda n: windows.correlation(n, incident), LEAST_CORRELATION)


def time_and_pid(windows, incident):
    """The first of the system's that stands out, else of the process's; what the job's own calls
    say comes last, and names no cause here."""
    for names in (SYSTEM, PROCESS):
        for name in names:
            if windows.stands_out(name, incident) >= STANDS_OUT:
                return CAUSES[name][0]
    return None


def nvml(windows, incident):
    return strongest(NVML, lambda n: windows.stands_out(n, incident), STANDS_OUT)


def waits(windows, incident):
    return strongest(WAITS, lambda n: windows.stands_out(n, incident), STANDS_OUT)


BASELINES = {"correlation": correlation, "time and pid": time_and_pid, "NVML": nvml,
             "waits": waits}


def renamed(said, rows, baseline):
    """What was said, with the baseline's causes in place of those told; no culprit, no confidence,
    no blame."""
    windows = {}
    kept = []
    for i in said["incidents"]:
        pid = (i.get("victim") or {}).get("pid")
        if pid not in windows:
            windows[pid] = Windows(rows, None if pid is None else {pid})
        kept.append({"onset_ns": i["onset_ns"], "end_ns": i["end_ns"], "told_ns": i["told_ns"],
                     "cause": BASELINES[baseline](windows[pid], i)})
    return {"incidents": kept, "steps": []}
