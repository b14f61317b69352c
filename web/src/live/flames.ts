// flames.ts - where the processor time of a job went, over a stretch of the last ten minutes.
// "#flames/4711/60" is the last minute of process 4711, "#flames/4711/A/B" from A to B, in
// nanoseconds of the agent's clock.
import { chart, type Chart } from "../chart";
import type { Json } from "../data";
import { add, clear, h, note, renew } from "../dom";
import { flameGraph } from "../flame";
import { ns, number } from "../format";
import { fragment } from "../tabs";
import { get, jobName, type Live } from "./get";

const STRETCHES: [number, string][] = [[10, "last 10 s"], [60, "last minute"], [300, "last 5 minutes"], [600, "last 10 minutes"]];
const USUAL_S = 60;

interface Asked { pid: number; seconds: number; from?: number; to?: number }

function asked(jobs: Json[]): Asked {
  const [pid, a, b] = fragment().rest.split("/").map(Number);
  const of = pid > 0 ? pid : jobs[0]?.pid ?? 0;
  return a > 0 && b > a ? { pid: of, seconds: 0, from: a, to: b } : { pid: of, seconds: a > 0 ? a : USUAL_S };
}

export const flamesAt = (pid: number, from: number, to: number): string => `#flames/${pid}/${Math.floor(from)}/${Math.ceil(to)}`;

/** Of the pieces the middles, in seconds before the end of the newest, and how many CPUs worked. */
function overTime(pieces: Json[]): { x: number[]; cpus: number[]; end: number } {
  const end = pieces[pieces.length - 1]?.to_ns ?? 0;
  return { end, x: pieces.map((p) => ((p.from_ns + p.to_ns) / 2 - end) / 1e9), cpus: pieces.map((p) => p.cpu_ns / (p.to_ns - p.from_ns)) };
}

export function flames(): Live {
  const whose = h("select", { "aria-label": "process", on: { change: () => { location.hash = `flames/${(whose as HTMLSelectElement).value}/${USUAL_S}`; } } }) as HTMLSelectElement;
  const which = h("div", { class: "row", role: "group", "aria-label": "stretch of time" }), place = h("div"), times = h("div"), words = h("p", { class: "note" });
  const marks = [{ from: 0, to: 0, label: "shown" }];
  let drawn: Chart | null = null, shown = "", listed = "", end = 0, of = 0;

  function choose(jobs: Json[], at: Asked): void {
    const now = jobs.map((j) => j.pid).join() + "|" + at.pid;
    if (now !== listed) {
      clear(whose).append(...jobs.map((j) => h("option", { value: j.pid, selected: j.pid === at.pid }, jobName(j))));
      if (at.pid && !jobs.some((j) => j.pid === at.pid)) whose.append(h("option", { value: at.pid, selected: true }, `process ${at.pid}, which has ended`));
      listed = now;
    }
    renew(which, STRETCHES.map(([s, text]) => h("a", { class: "button", href: `#flames/${at.pid}/${s}`,
      "aria-current": at.from === undefined && s === at.seconds ? "true" : undefined }, text)));
  }
  function drawTimes(got: Json, at: Asked, from: number, to: number): void {
    const t = overTime(got.pieces);
    end = t.end;
    marks[0] = { from: (from - end) / 1e9, to: (to - end) / 1e9, label: "shown" };
    const lines = [{ label: "CPUs", values: t.cpus, filled: true, points: t.x.length < 40 }];
    if (drawn && of === at.pid) { drawn.update(t.x, lines); return; }
    drawn = chart({ title: "CPUs that it used", said: "draw over a stretch to see what it did then", height: 120, marks,
      format: (v) => number(v), xLabel: (v) => v ? `${Math.round(v)} s` : "now",
      select: (a, b) => { location.hash = flamesAt(of, end + a * 1e9, end + b * 1e9).slice(1); } }, t.x, lines);
    of = at.pid;
    clear(times).append(drawn.element);
  }
  async function refresh(): Promise<void> {
    const jobs: Json[] = (await get("jobs")).jobs, at = asked(jobs);
    choose(jobs, at);
    if (!at.pid) { add(clear(place), [note("No job runs.")]); shown = ""; return; }
    const last = (await get(`jobs/${at.pid}/flame?to=0`)).pieces.slice(-1)[0]?.to_ns ?? 0;
    const from = at.from ?? Math.max(0, last - at.seconds * 1e9), to = at.to ?? last;
    const now = `${at.pid}|${from}|${to}|${last}`;
    if (now === shown || (shown.startsWith(`${at.pid}|`) && at.from === undefined && place.contains(document.activeElement))) return;
    const got = await get(`jobs/${at.pid}/flame?from=${from}&to=${to}`), same = shown.split("|").slice(0, 3).join() === now.split("|").slice(0, 3).join();
    shown = now;
    if (!got.samples) { add(clear(place), [note("No stacks are taken: start the agent with --detect or --pprof-push.")]); clear(times); clear(words); return; }
    if (!got.pieces.length) { add(clear(place), [note("No stacks so far: they come each ten seconds.")]); return; }
    drawTimes(got, at, got.from_ns || from, got.to_ns || to);
    if (same && at.from !== undefined) return;
    add(clear(words), [got.flame ? `${ns(got.flame.total)} of CPU time in ${ns(got.to_ns - got.from_ns)}, sampled 99 times a second` : ""]);
    add(clear(place), [got.flame ? flameGraph(got.flame) : note("It used no CPU then, or that time is gone: the last ten minutes are here.")]);
  }
  return { box: h("div", null, h("label", { class: "filter" }, "process ", whose), which, times, words, place), refresh };
}
