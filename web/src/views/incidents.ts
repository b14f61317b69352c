// incidents.ts - what went wrong: when, why, on what evidence, whose the time was, what to do.
import { bars } from "../bars";
import type { Json } from "../data";
import { h, note, section, type Child } from "../dom";
import { ns, percent } from "../format";
import { table } from "../table";
import type { Span } from "./steps";

const at = (t: number, start: number) => `${((t - start) / 1e9).toFixed(1)} s`;

function culprit(c: Json): string {
  if (!c || c.kind === "none") return "nobody is named";
  const rank = c.rank === null || c.rank === undefined ? "" : String(c.rank);
  const what = [rank, c.command, c.call, c.device, c.cgroup, c.gpu !== null && c.gpu !== undefined ? `GPU ${c.gpu}` : ""].filter(Boolean).join(", ");
  const code = c.code ? ` at ${c.code.function} (${c.code.file}:${c.code.line})` : "";
  return `${c.kind} ${what}${c.pid ? ` (${c.pid})` : ""}${code}`;
}

/** when: a time of the recording's clock in words. */
export function incidentCard(i: Json, when: (t: number) => string): HTMLElement {
  const blame: Json[] = i.blame ?? [], cost = i.cost_ns ?? 0;
  const rows = blame.map((b) => ({ label: b.owner, value: b.ns }));
  if (i.unexplained_ns > 0) rows.push({ label: "nobody's: not explained", value: i.unexplained_ns });
  return h("article", { class: "incident" },
    h("h3", null, i.what || i.cause || "unknown"),
    h("p", null, `${when(i.onset_ns)} for ${ns((i.end_ns || i.told_ns) - i.onset_ns)}`, i.ended === false ? ", not over" : "",
      cost > 0 ? `, ${ns(cost)} ${i.beside ? "of what was " : ""}lost` : "", i.pid ? `, process ${i.pid}` : "",
      i.confidence !== null && i.confidence !== undefined ? `, confidence ${percent(i.confidence)}` : ""),
    h("p", null, "Who: ", culprit(i.culprit), i.why ? `, late by: ${i.why.title}` : ""),
    i.advice ? h("p", null, h("span", { class: "do" }, "do: "), i.advice) : null,
    rows.length ? h("div", null, h("h4", null, "Whose the time was"), bars(rows, Math.max(cost, rows.reduce((s, r) => s + r.value, 0)))) : null,
    i.evidence?.length ? h("div", null, h("h4", null, "Evidence"), h("ul", null, ...i.evidence.map((e: string) => h("li", null, e)))) : null,
    i.runner_up ? note(`Next likely: ${i.runner_up}${i.against ? `, but ${i.against}` : ""}`) : null);
}

/** What was told beside incidents; when: of a time in nanoseconds. */
export function eventTable(events: Json[], when: (t: number) => string): HTMLElement {
  return table(events, [
    { head: "at", left: true, value: (e) => e.time_ns, text: (e) => when(e.time_ns) }, { head: "of", left: true, value: (e) => e.entity ?? "" },
    { head: "what", left: true, value: (e) => e.name }, { head: "text", left: true, value: (e) => e.text ?? "" }], { name: "events", step: 30 });
}

/** Spans to shade in charts, in seconds of the recording. */
export function spansOf(report: Json): Span[] {
  const start = report.recording?.start_monotonic_ns ?? 0;
  return (report.incidents ?? []).map((i: Json) => ({ label: i.what ?? i.cause,
    from: (i.onset_ns - start) / 1e9, to: ((i.end_ns || i.told_ns) - start) / 1e9 }));
}

/** Those that were told, or null. */
export function anomaliesOf(report: Json): HTMLElement | null {
  const start = report.recording?.start_monotonic_ns ?? 0, odd: Json[] = report.anomalies ?? [];
  return odd.length ? section("Anomalies", table(odd, [
    { head: "at", value: (a) => a.start_ns, text: (a) => at(a.start_ns, start) },
    { head: "for", value: (a) => a.end_ns - a.start_ns, text: (a) => ns(a.end_ns - a.start_ns) },
    { head: "layer", left: true, value: (a) => a.layer },
    { head: "why", left: true, value: (a) => a.why ?? a.name },
  ], { name: "anomalies" })) : null;
}

export function incidents(report: Json): Child[] {
  const start = report.recording?.start_monotonic_ns ?? 0;
  const list: Json[] = report.incidents ?? [], early: Json[] = report.outlook ?? [];
  const events: Json[] = report.events ?? [], wrong: Json[] = report.errors ?? [];
  const found: Child[] = [
    list.length > 2 && table(list, [
      { head: "cause", left: true, value: (i) => i.what || i.cause || "unknown" },
      { head: "at", value: (i) => i.onset_ns, text: (i) => at(i.onset_ns, start) },
      { head: "for", value: (i) => (i.end_ns || i.told_ns) - i.onset_ns, text: (i) => ns((i.end_ns || i.told_ns) - i.onset_ns) },
      { head: "lost", value: (i) => i.cost_ns, text: (i) => ns(i.cost_ns) },
      { head: "confidence", value: (i) => i.confidence, text: (i) => percent(i.confidence) },
    ], { name: "incidents", sort: 3 }),
    ...list.map((i) => incidentCard(i, (t) => `at ${at(t, start)}`)),
    early.length ? section("Early warnings", h("ul", { class: "findings" }, ...early.map((w) =>
      h("li", null, w.what)))) : null,
    anomaliesOf(report),
    events.length ? section("Events of GPUs", table(events, [
      { head: "at", value: (e) => e.time_ns, text: (e) => at(e.time_ns, start) },
      { head: "of", left: true, value: (e) => e.entity }, { head: "what", left: true, value: (e) => e.name },
      { head: "text", left: true, value: (e) => e.text }], { name: "events" })) : null,
    wrong.length ? section("Errors by code", table(wrong, [
      { head: "calls", value: (e) => e.calls }, { head: "function", left: true, value: (e) => e.function },
      { head: "code", value: (e) => e.code }, { head: "name", left: true, value: (e) => e.name }], { name: "errors" })) : null,
  ];
  if (found.some(Boolean)) return found;
  return [note("Nothing was told while this was recorded. Incidents are here where eacgm record --detect was given; "
    + "eacgm diagnose FILE -m MODEL finds them afterwards.")];
}
