// incidents.ts - what an agent found: a list, and of the one that is opened all that is known, with
// the series around it. "#incidents/12" is number 12; its pieces, where its cause changed or something
// came beside it, have links of their own, "#incidents/12-4242-987654321".
import { chart, type Chart } from "../chart";
import type { Counters, Json, Series } from "../data";
import { add, clear, h, note, renew, section } from "../dom";
import { ns, percent, value } from "../format";
import { table } from "../table";
import { fragment } from "../tabs";
import { meanOf } from "../views/counters";
import { eventTable, incidentCard } from "../views/incidents";
import { flamesAt } from "./flames";
import { get, seconds, type Live } from "./get";

const AROUND = 8; // counters that are drawn: those that changed most
const LEAST_POINTS = 3;
const BESIDE = 3; // of the length of an incident so much before and after it is drawn, 30 s at least

interface Window { x: number[]; at: number[]; inside: boolean[] }

const endOf = (i: Json, now: number): number => i.ended ? i.end_ns : Math.max(now, i.end_ns);

/** The points around it, in seconds since its onset. */
function windowOf(i: Json, all: Counters & { last_ns: number }, now: number): Window {
  const end = endOf(i, now), beside = Math.max(30e9, BESIDE * (end - i.onset_ns)), ret: Window = { x: [], at: [], inside: [] };
  for (let k = 0; k < all.points; k++) {
    const t = all.last_ns - (all.points - 1 - k) * all.bucket_s * 1e9;
    if (t < i.onset_ns - beside || t > end + beside) continue;
    ret.at.push(k);
    ret.x.push((t - i.onset_ns) / 1e9);
    ret.inside.push(t >= i.onset_ns && t - all.bucket_s * 1e9 <= end);
  }
  return ret;
}

/** How far its mean in the incident is from that outside, in standard deviations of the latter. */
function change(s: Series, w: Window): number {
  const of = (inside: boolean) => w.at.filter((_, k) => w.inside[k] === inside).map((k) => s.mean[k]).filter((v): v is number => v !== null);
  const within = of(true), outside = of(false), a = meanOf(within), b = meanOf(outside);
  if (a === null || b === null || a === b || outside.length < LEAST_POINTS) return 0;
  const spread = Math.sqrt(outside.reduce((sum, v) => sum + (v - b) ** 2, 0) / outside.length);
  return Math.abs(a - b) / (spread + 0.02 * Math.max(Math.abs(a), Math.abs(b)));
}

function isNear(s: Series, i: Json): boolean {
  const pids = [i.pid, i.culprit?.pid].filter(Boolean).map((pid) => `pid ${pid}`);
  return s.kind !== "process" ? s.kind !== "self" : s.name === "step_time" || pids.includes(s.entity);
}

function chosen(all: Series[], i: Json, w: Window): Series[] {
  const steps = all.filter((s) => s.name === "step_time");
  const rest = all.filter((s) => s.name !== "step_time" && isNear(s, i)).map((s) => ({ s, by: change(s, w) })).filter((r) => r.by > 1);
  return [...steps, ...rest.sort((a, b) => b.by - a.by).slice(0, AROUND).map((r) => r.s)];
}

/** Charts around an incident; those that are there are kept while it lasts. */
function around(i: Json): { element: HTMLElement; update: (i: Json, all: Counters & { last_ns: number }, now: number) => void } {
  const box = h("div", { class: "grid" }), drawn = new Map<string, Chart>(), marks = [{ from: 0, to: 0, label: "incident" }];
  return { element: section("Around it", box), update: (now_i, all, now) => {
    const w = windowOf(i, all, now);
    marks[0].to = (endOf(now_i, now) - i.onset_ns) / 1e9;
    if (w.inside.every((v) => !v)) {
      drawn.clear();
      add(clear(box), [note("Its time is not among the last ten minutes, which is what the agent has of counters.")]);
      return;
    }
    if (!drawn.size) clear(box);
    for (const s of drawn.size ? all.series.filter((v) => drawn.has(v.entity + v.name)) : chosen(all.series, i, w)) {
      const lines = [{ label: "mean", values: w.at.map((k) => s.mean[k]) },
        ...(s.max ? [{ label: "longest", values: w.at.map((k) => s.max![k]), faint: true }] : [])];
      const mean = (inside: boolean) => value(meanOf(lines[0].values.filter((_, k) => w.inside[k] === inside)), s.unit);
      const said = `in it ${mean(true)} on average, else ${mean(false)}`, before = drawn.get(s.entity + s.name);
      if (before) { before.update(w.x, lines, said); continue; }
      const made = chart({ title: `${s.entity} ${s.name === "step_time" ? "step time" : s.name}`, said, height: 150, marks,
        format: (v) => value(v, s.unit), zero: s.unit !== "°C" && s.unit !== "MHz", xLabel: (v) => `${v > 0 ? "+" : ""}${Math.round(v)} s` }, w.x, lines);
      drawn.set(s.entity + s.name, made);
      box.append(made.element);
    }
    if (!drawn.size) add(clear(box), [note("No counter of the host, its GPUs or these processes changed with it.")]);
  } };
}

type Around = ReturnType<typeof around>;

/** What tells rows apart: an incident has one for each of its pieces. */
const keyOf = (i: Json): string => `${i.id}-${i.pid}-${i.told_ns}`;

/** What an incident is in a list: one line that opens it. */
function line(i: Json, now: number): HTMLElement {
  const lost = i.cost_ns > 0 ? `, ${ns(i.cost_ns)} ${i.beside ? "of what was " : ""}lost` : "";
  return h("li", null, h("a", { href: `#incidents/${keyOf(i)}`, class: "incident-link" }, i.what || i.cause || "unknown"),
    h("span", { class: "note" }, ` ${ns(Math.max(0, now - i.onset_ns))} ago for ${ns(endOf(i, now) - i.onset_ns)}`
      + `${i.ended ? "" : ", not over"}${lost}${i.confidence !== null ? `, confidence ${percent(i.confidence)}` : ""}`));
}

export function anomalyTable(list: Json[], now: number): HTMLElement {
  return table(list, [
    { head: "began", left: true, value: (a) => a.start_ns, text: (a) => `${ns(Math.max(0, now - a.start_ns))} ago` }, { head: "layer", left: true, value: (a) => a.layer },
    { head: "of", left: true, value: (a) => a.entity }, { head: "why", left: true, value: (a) => a.why }], { name: "anomalies" });
}

function anomaliesOf(i: Json, all: Json[], now: number): Json[] {
  const end = endOf(i, now);
  return all.filter((a) => a.start_ns <= end && (a.ended ? a.end_ns : now) >= i.onset_ns);
}

/** Links to what its processes did in it. */
function stacksOf(i: Json, now: number): HTMLElement[] {
  const pids = [...new Set([i.pid, i.culprit?.pid].filter(Boolean))] as number[];
  return pids.map((pid) => h("p", null, h("a", { href: flamesAt(pid, i.onset_ns, endOf(i, now)) }, `what process ${pid} did in it`), " (flame graph)"));
}

function overview(got: Json): (HTMLElement | false | null)[] {
  return [
    !got.judges && note("Nothing is looked for: start the agent with --detect."),
    got.learning && note("What is normal is being learned."),
    got.judges && !got.incidents.length && note("No incident so far."),
    got.incidents.length > 0 && h("ul", { class: "incident-list" }, ...got.incidents.map((i: Json) => line(i, got.now_ns))),
    got.causes.length ? section("By cause", table(got.causes as Json[], [
      { head: "cause", left: true, value: (c) => c.cause }, { head: "incidents", value: (c) => c.incidents },
      { head: "cost", value: (c) => c.cost_s, text: (c) => seconds(c.cost_s) }], { name: "causes", sort: 2 })) : null,
    got.anomalies.length ? section("Anomalies", anomalyTable(got.anomalies, got.now_ns)) : null,
    got.events.length ? section("Warnings and events", eventTable(got.events, (t) => `${ns(Math.max(0, got.now_ns - t))} ago`)) : null,
  ];
}

/** What was recorded of it, where the agent freezes: filled in by who knows (live/freezes.ts). */
export type Beside = (i: Json, now: number) => Promise<HTMLElement | null>;

/** Who opened something by keys goes on from there. */
function toHeading(box: HTMLElement): void {
  const heading = box.querySelector("h3");
  heading?.setAttribute("tabindex", "-1");
  heading?.focus({ preventScroll: true });
}

export function incidents(beside: Beside): Live {
  const box = h("div"), back = h("p", null, h("a", { href: "#incidents" }, "all incidents")), file = h("div");
  let shown = "", opened = "", near: Around | null = null;

  async function open(got: Json, id: string): Promise<void> {
    const i = (got.incidents as Json[]).find((v) => keyOf(v) === id || String(v.id) === id), now = got.now_ns;
    if (!i) { add(clear(box), [back, note(`There is no incident ${id}: the agent keeps the last 64.`)]); near = null; opened = shown = ""; return; }
    if (!near || opened !== id) near = around(i);
    const text = JSON.stringify(i);
    const told = await beside(i, now); // it may be written after the incident was opened
    const there = file.firstElementChild;
    if (opened !== id || !(told && there ? told.isEqualNode(there) : told === there)) renew(file, [told]);
    const entered = opened !== id && box.contains(document.activeElement); // by a link that is gone then
    if (opened !== id || shown !== text) {
      const odd = anomaliesOf(i, got.anomalies, now);
      renew(box, [back, incidentCard(i, (t) => `${ns(Math.max(0, now - t))} ago`), file,
        ...stacksOf(i, now), near.element,
        odd.length ? section("Anomalies in it", anomalyTable(odd, now)) : null]);
      shown = text;
    }
    if (entered) toHeading(box);
    opened = id;
    near.update(i, await get("series"), now);
  }
  return { box, refresh: async () => {
    const got = await get("incidents"), { rest: id } = fragment();
    if (id) return open(got, id);
    const { now_ns: _, ...rest } = got, text = JSON.stringify(rest);
    if (text === shown && !opened) return;
    shown = text;
    const left = opened && box.contains(document.activeElement);
    renew(box, overview(got));
    if (left) Array.from(box.querySelectorAll<HTMLAnchorElement>(".incident-link")).find((a) => `${a.hash}-`.startsWith(`#incidents/${opened}-`))?.focus();
    opened = "";
  } };
}
