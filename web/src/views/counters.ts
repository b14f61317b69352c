// counters.ts - counters of GPUs, the host, its devices and processes over time.
import { chart } from "../chart";
import type { Counters, Json, Series } from "../data";
import { h, note, section, type Child } from "../dom";
import { bytes, count, ns, percent, value } from "../format";
import { table } from "../table";
import type { Span } from "./steps";

const WORDS: Record<string, string> = { gpu: "GPUs", host: "Host", self: "eACGM itself", interface: "Network", disk: "Disks",
  filesystem: "File systems", cgroup: "Control groups", process: "Processes", other: "Others" };
const ORDER = Object.keys(WORDS);
const LINES = 6; // of one chart

export function timesOf(c: Counters): number[] {
  return Array.from({ length: c.points }, (_, i) => (i + 0.5) * c.bucket_s);
}

export function meanOf(values: (number | null)[]): number | null {
  const there = values.filter((v): v is number => v !== null);
  return there.length ? there.reduce((a, b) => a + b, 0) / there.length : null;
}

/** The value that it has all the time; undefined: it changes. */
function constant(s: Series): number | undefined {
  const there = [...s.mean, ...(s.max ?? [])].filter((v): v is number => v !== null);
  return there.every((v) => v === there[0]) ? there[0] : undefined;
}

/** What never changes needs no chart: "pcie_generation 5, swap_in_pages_per_s 0/s". */
function constantsNote(all: [string, Series[]][]): HTMLElement {
  return note("the same all the time: ", all.map(([name, list]) =>
    `${name} ${[...new Set(list.map((s) => value(constant(s), s.unit)))].slice(0, LINES).join(" / ")}`).join(", "));
}

function figure(name: string, all: Series[], x: number[], spans: Span[]): HTMLElement {
  const unit = all[0].unit, shown = all.slice(0, LINES);
  const lines = shown.map((s) => ({ label: all.length > 1 ? s.entity : "mean", values: s.mean as (number | null)[] }));
  const only = shown[0], highest = Math.max(...shown.flatMap((s) => (s.max ?? s.mean).filter((v): v is number => v !== null)));
  const drawn: Parameters<typeof chart>[2] = all.length === 1 && only.max
    ? [...lines, { label: "highest", values: only.max, faint: true }] : lines;
  const said = all.length === 1 ? `mean ${value(meanOf(only.mean), unit)}, highest ${value(highest, unit)}`
    : `${count(all.length)} of them${all.length > LINES ? `, ${LINES} drawn` : ""}`;
  return chart({ title: all.length > 1 ? name : `${only.entity} ${name}`, said, format: (v) => value(v, unit), height: 150,
                 marks: spans, zero: unit !== "°C" && unit !== "MHz" }, x, drawn).element;
}

function group(kind: string, series: Series[], x: number[], spans: Span[]): HTMLElement {
  const byName = new Map<string, Series[]>();
  series.sort((a, b) => a.entity.localeCompare(b.entity, "en", { numeric: true }));
  for (const s of series) byName.set(s.name, [...(byName.get(s.name) ?? []), s]);
  const open = kind === "gpu" || kind === "host";
  const inside = h("div", { class: "grid" });
  let filled = false;
  const fill = () => {
    if (filled) return;
    filled = true;
    const still = [...byName].filter(([, all]) => all.every((s) => constant(s) !== undefined));
    for (const [name, all] of byName)
      if (!still.some(([other]) => other === name)) inside.append(figure(name, all, x, spans));
    if (still.length) inside.append(constantsNote(still));
  };
  if (open) fill();
  return h("details", { open, on: { toggle: fill } },
    h("summary", null, `${WORDS[kind] ?? kind} (${count(byName.size)})`), inside);
}

function devices(report: Json): Child {
  const list: Json[] = report.gpu_timeline?.devices ?? [];
  return list.length ? section("GPU time", table(list, [
    { head: "process", value: (d) => d.pid },
    { head: "GPU", value: (d) => d.device },
    { head: "of", value: (d) => d.span_ns, text: (d) => ns(d.span_ns) },
    { head: "busy", value: (d) => d.busy_ratio, text: (d) => percent(d.busy_ratio) },
    { head: "kernels", value: (d) => d.kernels_ns, text: (d) => ns(d.kernels_ns) },
    { head: "copies", value: (d) => d.copies_ns, text: (d) => ns(d.copies_ns) },
    { head: "idle, by reason", left: true, value: (d) => (d.gaps ?? []).map((g: Json) => `${g.reason} ${ns(g.total_ns)}`).join(", ") },
  ], { name: "time of GPUs" })) : null;
}

function kernels(report: Json): Child {
  const list: Json[] = report.kernels ?? [];
  return list.length ? section("Kernels", table(list, [
    { head: "kernel", left: true, value: (k) => k.short_name },
    { head: "launches", value: (k) => k.launches + (k.graph_kernels ?? 0), text: (k) => count(k.launches + (k.graph_kernels ?? 0)) },
    { head: "GPU time", value: (k) => k.device_ns, text: (k) => ns(k.device_ns) },
    { head: "longest", value: (k) => k.device_max_ns, text: (k) => ns(k.device_max_ns) },
    { head: "launch call", value: (k) => k.mean_ns, text: (k) => ns(k.mean_ns) },
  ], { name: "kernels", filter: "filter", step: 20 })) : null;
}

function memory(report: Json): Child {
  const list: Json[] = report.memory ?? [];
  return list.length ? section("GPU memory of processes", table(list, [
    { head: "process", value: (m) => m.pid }, { head: "GPU", value: (m) => m.device },
    { head: "peak", value: (m) => m.peak_bytes, text: (m) => bytes(m.peak_bytes) },
    { head: "at the end", value: (m) => m.live_bytes, text: (m) => bytes(m.live_bytes) },
    { head: "allocations", value: (m) => m.allocs, text: (m) => count(m.allocs) },
  ], { name: "memory of GPUs by process" })) : null;
}

export function counters(report: Json, c: Counters, spans: Span[]): Child[] {
  const x = timesOf(c), kinds = [...new Set(c.series.map((s) => s.kind))];
  kinds.sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  const tables = [devices(report), kernels(report), memory(report)];
  if (!c.series.length && !tables.some(Boolean)) return [note("The recording has no counters and no GPUs.")];
  return [
    !report.gpus?.length && note("No GPU was seen in this recording."),
    ...kinds.map((kind) => group(kind, c.series.filter((s) => s.kind === kind), x, spans)),
    ...tables,
  ];
}
