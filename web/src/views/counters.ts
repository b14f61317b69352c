// counters.ts - counters of GPUs, the host, its devices and processes over time.
import { chart, type ChartOptions } from "../chart";
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

interface Figure { element: HTMLElement; update: (x: number[], all: Series[]) => void }

/** What all its charts have. */
export interface Drawn { spans: Span[]; options?: Partial<ChartOptions> }

function figure(name: string, all: Series[], x: number[], how: Drawn): Figure {
  const unit = all[0].unit, many = all.length > 1;
  const lines = (of: Series[]) => {
    const means = of.slice(0, LINES).map((s) => ({ label: many ? s.entity : "mean", values: s.mean }));
    return !many && of[0].max ? [...means, { label: "highest", values: of[0].max, faint: true }] : means;
  };
  const said = (of: Series[]) => {
    if (many) return `${count(of.length)} of them${of.length > LINES ? `, ${LINES} drawn` : ""}`;
    const there = (of[0].max ?? of[0].mean).filter((v): v is number => v !== null);
    return `mean ${value(meanOf(of[0].mean), unit)}, highest ${value(there.length ? Math.max(...there) : null, unit)}`;
  };
  const drawn = chart({ title: many ? name : `${all[0].entity} ${name}`, said: said(all), format: (v) => value(v, unit), height: 150,
                        marks: how.spans, zero: unit !== "°C" && unit !== "MHz", ...how.options }, x, lines(all));
  return { element: drawn.element, update: (newX, of) => drawn.update(newX, lines(of), said(of)) };
}

function byNames(series: Series[]): Map<string, Series[]> {
  const ret = new Map<string, Series[]>();
  const sorted = series.slice().sort((a, b) => a.entity.localeCompare(b.entity, "en", { numeric: true }));
  for (const s of sorted) ret.set(s.name, [...(ret.get(s.name) ?? []), s]);
  return ret;
}

/** all: also what does not change, which may yet. */
function group(kind: string, series: Series[], x: number[], how: Drawn, all: boolean): Figure {
  let now = byNames(series), nowX = x, filled = false;
  const open = kind === "gpu" || kind === "host" || how.options?.time, inside = h("div", { class: "grid" }), figures = new Map<string, Figure>();
  const fill = () => {
    if (filled) return;
    filled = true;
    const still = all ? [] : [...now].filter(([, list]) => list.every((s) => constant(s) !== undefined));
    for (const [name, list] of now) {
      if (still.some(([other]) => other === name)) continue;
      const made = figure(name, list, nowX, how);
      figures.set(name, made);
      inside.append(made.element);
    }
    if (still.length) inside.append(constantsNote(still));
  };
  if (open) fill();
  return {
    element: h("details", { open, on: { toggle: fill } }, h("summary", null, `${WORDS[kind] ?? kind} (${count(now.size)})`), inside),
    update: (newX, of) => {
      now = byNames(of);
      nowX = newX;
      for (const [name, it] of figures) { const list = now.get(name); if (list) it.update(newX, list); }
    },
  };
}

/** Charts by what they are of; update wants series of the same names. */
export function groups(series: Series[], x: number[], how: Drawn, all = false): { elements: HTMLElement[]; update: (x: number[], all: Series[]) => void } {
  const kinds = [...new Set(series.map((s) => s.kind))].sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  const made = kinds.map((kind) => ({ kind, of: group(kind, series.filter((s) => s.kind === kind), x, how, all) }));
  return {
    elements: made.map((m) => m.of.element),
    update: (newX, now) => { for (const m of made) m.of.update(newX, now.filter((s) => s.kind === m.kind)); },
  };
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
  const tables = [devices(report), kernels(report), memory(report)];
  if (!c.series.length && !tables.some(Boolean)) return [note("The recording has no counters and no GPUs.")];
  return [
    !report.gpus?.length && note("No counters of GPUs are in this recording."),
    ...groups(c.series, timesOf(c), { spans }).elements,
    ...tables,
  ];
}
