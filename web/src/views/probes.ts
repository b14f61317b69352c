// probes.ts - how it was recorded: what was probed, what that cost, what is missing and why.
import type { Json } from "../data";
import { h, note, section, type Child } from "../dom";
import { count, ns, percent, plural } from "../format";
import { table } from "../table";

interface Layer { layer: string; functions: number; calls: number; total: number; seen: number }

function layers(report: Json): Layer[] {
  const of = new Map<string, Layer>();
  for (const f of report.functions ?? []) {
    const row = of.get(f.layer) ?? { layer: f.layer, functions: 0, calls: 0, total: 0, seen: 1 };
    row.functions++;
    row.calls += f.calls;
    row.total += f.total_ns;
    row.seen = Math.min(row.seen, f.on_ratio ?? 1);
    of.set(f.layer, row);
  }
  return [...of.values()];
}

function cost(r: Json): HTMLElement {
  const o = r.overhead ?? {};
  const facts: [string, string][] = [
    ["of the job's CPU time, while it ran", percent(o.cpu_ratio)],
    ["probes at work", ns((o.running_cpu_s ?? 0) * 1e9)],
    ["the job was held, once, in sum", ns((o.held_s ?? 0) * 1e9)],
    ["eacgm itself, beside the job", ns((o.collector_cpu_s ?? 0) * 1e9)],
    ["of this while no CPU was idle", ns((o.displacing_cpu_s ?? 0) * 1e9)],
    ["eacgm's start", ns((o.start_cpu_s ?? 0) * 1e9)],
    ["places that were probed", count(r.attach?.sites)],
    ["how", r.attach?.method ?? "–"],
    ["attaching took", r.attach?.ms === null || r.attach?.ms === undefined ? "–" : ns(r.attach.ms * 1e6)],
  ];
  if (r.budget) facts.push(["budget", `${percent(r.budget.used_ratio)} of ${percent(r.budget.ratio)} used; ${count(r.budget.functions_in_bursts)} functions in bursts`]);
  return h("dl", { class: "facts" }, ...facts.flatMap(([k, v]) => [h("dt", null, k), h("dd", null, v)]));
}

export function probes(report: Json): Child[] {
  const notes: Json[] = report.notes ?? [], lost = Object.entries(report.recording?.lost_by_cause ?? {});
  const off = (report.functions ?? []).filter((f: Json) => f.complete === false);
  return [
    section("What tracing cost", cost(report.recording)),
    section("What was seen, by layer", table(layers(report), [
      { head: "layer", left: true, value: (l) => l.layer }, { head: "functions", value: (l) => l.functions, text: (l) => count(l.functions) },
      { head: "calls", value: (l) => l.calls, text: (l) => count(l.calls) },
      { head: "time", title: "of all functions, one inside another counted again", value: (l) => l.total, text: (l) => ns(l.total) },
      { head: "seen at least", value: (l) => l.seen, text: (l) => percent(l.seen) },
    ], { name: "layers", sort: 2 })),
    off.length ? section("Turned down to keep the budget", table(off as Json[], [
      { head: "function", left: true, value: (f) => f.name }, { head: "layer", left: true, value: (f) => f.layer },
      { head: "seen", value: (f) => f.on_ratio, text: (f) => percent(f.on_ratio) }], { name: "functions in bursts", filter: "filter" })) : null,
    section("What is missing", report.recording?.incomplete
      ? note(`Of ${plural(report.recording.incomplete, "record")} something is missing, not the record.`) : null, lost.length ? h("ul", null, ...lost.map(([k, v]) => h("li", null, `${k}: ${count(v as number)}`)))
      : note("Nothing was lost.")),
    notes.length ? section("Expected, and not traced", table(notes, [
      { head: "what", left: true, value: (n) => n.subject }, { head: "why", left: true, value: (n) => n.reason }],
      { name: "notes", filter: "filter" })) : null,
    report.processes?.length ? section("Processes", table(report.processes as Json[], [
      { head: "name", left: true, value: (p) => p.comm }, { head: "process", value: (p) => p.pid, text: (p) => String(p.pid) }, { head: "parent", value: (p) => p.parent_pid, text: (p) => String(p.parent_pid) },
      { head: "rank", value: (p) => p.rank }, { head: "CPU time", value: (p) => p.cpu_ns, text: (p) => ns(p.cpu_ns) },
      { head: "calls", value: (p) => p.calls, text: (p) => count(p.calls) }, { head: "threads", value: (p) => p.threads },
      { head: "command", left: true, value: (p) => p.command },
    ], { name: "processes", filter: "filter", sort: 4, step: 50 })) : null,
  ];
}
