// functions.ts - every traced function by calls and time, and functions by samples.
import type { Json } from "../data";
import { h, note, section, type Child } from "../dom";
import { count, ns, percent } from "../format";
import { table } from "../table";

export function functions(report: Json): Child[] {
  const list: Json[] = report.functions ?? [], sampled: Json[] = report.profile?.functions ?? [];
  const place = (f: Json) => f.file ? `${f.name} (${f.file}${f.line ? `:${f.line}` : ""})` : f.name;
  return [
    list.length ? section("Calls that were traced", table(list, [
      { head: "function", left: true, value: place },
      { head: "layer", left: true, value: (f) => f.layer },
      { head: "calls", value: (f) => f.calls, text: (f) => (f.complete === false ? ">" : "") + count(f.calls) },
      { head: "errors", value: (f) => f.errors, text: (f) => f.errors ? count(f.errors) : "" },
      { head: "total", value: (f) => f.total_ns, text: (f) => ns(f.total_ns) },
      { head: "self", title: "without the traced functions that it called", value: (f) => f.self_ns, text: (f) => ns(f.self_ns) },
      { head: "mean", value: (f) => f.mean_ns, text: (f) => ns(f.mean_ns) },
      { head: "p50", value: (f) => f.p50_ns, text: (f) => ns(f.p50_ns) },
      { head: "p99", value: (f) => f.p99_ns, text: (f) => ns(f.p99_ns) },
      { head: "max", value: (f) => f.max_ns, text: (f) => ns(f.max_ns) },
    ], { name: "functions", filter: "filter", sort: 4, step: 50 })) : note("No calls were traced."),
    sampled.length ? section("By samples of the CPU clock", table(sampled, [
      { head: "function", left: true, value: place },
      { head: "own", value: (f) => f.self_ns, text: (f) => ns(f.self_ns) },
      { head: "of all", value: (f) => f.self_ratio, text: (f) => percent(f.self_ratio) },
      { head: "total", title: "with all that it calls", value: (f) => f.total_ns, text: (f) => ns(f.total_ns) },
      { head: "of all ", value: (f) => f.total_ratio, text: (f) => percent(f.total_ratio) },
      { head: "kind", left: true, value: (f) => f.kind },
    ], { name: "functions by samples", filter: "filter", sort: 1, step: 50 })) : null,
    report.open_calls?.length ? section("Calls that had not returned", table(report.open_calls as Json[], [
      { head: "function", left: true, value: (c) => c.name }, { head: "open for", value: (c) => c.open_ns, text: (c) => ns(c.open_ns) }, { head: "process", value: (c) => c.pid },
      { head: "thread", value: (c) => c.tid }, { head: "layer", left: true, value: (c) => c.layer }], { name: "open calls" })) : null,
    h("p", { class: "note" }, "Total is the time from entry to return; a call inside another of the same function adds nothing."),
  ];
}
