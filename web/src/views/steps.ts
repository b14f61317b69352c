// steps.ts - the steps of a job over time, what each is made of, and the slow ones.
import { bars } from "../bars";
import { chart } from "../chart";
import type { Json, Steps } from "../data";
import { clear, h, note, section, type Child } from "../dom";
import { count, ns, plural } from "../format";
import { table } from "../table";

const MS = (v: number) => ns(v * 1e6);
const MOST = 12;

/** From onset to end, in seconds of the recording. */
export interface Span { from: number; to: number; label: string }

export function steps(report: Json, loops: Steps[], spans: Span[]): Child[] {
  const s = report.steps;
  if (!s?.count) return [note(s?.reason ? `No steps were found: ${s.reason}.` : "The recording has no steps.")];
  const slow: Json[] = s.slow ?? [];
  return [
    h("p", { class: "answer" }, `${count(s.count)} steps of ${s.kind}: ${MS(s.mean_ms)} on average, median ${MS(s.median_ms)}, `
      + `99 of 100 up to ${MS(s.p99_ms)}, the longest ${MS(s.max_ms)}; ${plural(s.slow_count, "slow one")}.`),
    section("Phases of a step, on average", bars(Object.entries(s.phases_mean_ns as Record<string, number>)
      .map(([label, value]) => ({ label, value })), s.mean_ms * 1e6)),
    ...loops.slice(0, MOST).map((l) => loop(l, spans)),
    loops.length > MOST && note(`${loops.length - MOST} more loops are not drawn.`),
    slow.length ? section("Slow steps", table(slow, [
      { head: "step", value: (r) => r.index },
      { head: "time", value: (r) => r.duration_ns, text: (r) => ns(r.duration_ns) },
      { head: "z", title: "how far from the median, in robust standard deviations", value: (r) => r.z, text: (r) => r.z.toFixed(1) },
      { head: "phase", value: (r) => r.phase, left: true },
      { head: "more", value: (r) => r.phase_more_ns, text: (r) => `+${ns(r.phase_more_ns)}` },
      { head: "what was longer", left: true, value: (r) => causes(r) },
    ], { name: "slow steps", sort: 1 })) : null,
  ];
}

function causes(row: Json): string {
  return (row.longer ?? []).map((c: Json) => `${c.before ? "before " : ""}${c.name} +${ns(c.more_ns)}`).join(", ");
}

function loop(l: Steps, spans: Span[]): HTMLElement {
  const about = h("div", { class: "step-detail", "aria-live": "polite" });
  const drawn = chart({
    title: `Step times of process ${l.pid}, ${l.kind}`, format: MS, height: 220, marks: spans,
    said: `${count(l.count)} steps${l.each > 1 ? `; each point is the longest of ${l.each}` : ""}`,
    pick: (i) => clear(about).append(detail(l, i)),
  }, l.start_s, [{ label: "step", values: l.ms, points: l.ms.length < 80 }]);
  const names = Object.keys(l.phases);
  const phases = chart({ title: "Its phases", format: MS, height: 200, marks: spans, said: names.join(", ") },
    l.start_s, names.map((name) => ({ label: name, values: l.phases[name] })));
  return h("div", { class: "loop" }, drawn.element, about, names.length > 1 && phases.element);
}

function detail(l: Steps, i: number): HTMLElement {
  return h("div", null, h("h3", null, `Step ${count(l.index[i])}, at ${l.start_s[i].toFixed(3)} s: ${MS(l.ms[i])}`),
    bars(Object.entries(l.phases).map(([label, v]) => ({ label, value: v[i] * 1e6 })), l.ms[i] * 1e6));
}
