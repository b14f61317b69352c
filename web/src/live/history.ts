// history.ts - what the store tells of a stretch of time: steps and their phases, counters, flame
// graphs, incidents. What is asked for is drawn once; of a stretch that ends now it is asked again
// when there is more.
import { chart } from "../chart";
import type { Json, Series } from "../data";
import { add, clear, h, holdFocus, note, section } from "../dom";
import { flameGraph } from "../flame";
import { count, moment, ns, number, plural } from "../format";
import { table } from "../table";
import { groups } from "../views/counters";
import { eventTable, incidentCard } from "../views/incidents";
import type { Span } from "../views/steps";
import { get, jobName } from "./get";
import { go, type History, type Range } from "./range";

const EACH_ASKED = 64; // counters in an answer: src/store/store_read.h
const AGAIN_MS = 10000; // of what ends now; of longer points, when there is another
const MS = (v: number) => ns(v * 1e6);
const WITHOUT = "Nothing is kept: start the agent with --store FILE. What it knows of now is the first of these.";

/** The middles of an answer's points. */
const timesOf = (g: { from_s: number; bucket_s: number; points: number }): number[] => Array.from({ length: g.points }, (_, i) => g.from_s + (i + 0.5) * g.bucket_s);

const spansOf = (list: Json[]): Span[] => list.map((i) => ({ label: i.what || i.cause, from: i.onset_ns / 1e9, to: i.end_ns / 1e9 }));

const each = (g: Json): string => g.bucket_s > 1 ? `each point is of ${ns(g.bucket_s * 1e9)}` : "each second";

/** Why there is nothing to draw, or null. */
function nothing(got: Json): HTMLElement | null {
  if (!got.kept) return note(WITHOUT);
  if (got.points) return null;
  return note(got.oldest_s === null ? "Nothing was kept so far." : `Nothing is kept of that time: the store has ${moment(got.oldest_s)} to ${moment(got.newest_s)}.`);
}

/** Asks when it is time, and says how far what it got reaches. */
function asks(draw: (box: HTMLElement, range: Range, rest: string) => Promise<Json>): History {
  const box = h("div");
  let of = "", at = 0, patience = AGAIN_MS, failed = false;
  return { box, refresh: async (range, rest) => {
    const now = `${range.place}|${rest}`, same = now === of && box.childElementCount > 0;
    if (same && (!range.last && !failed || performance.now() - at < patience || box.contains(document.activeElement) && document.activeElement !== document.body)) return null;
    const back = holdFocus(box);
    if (now !== of) add(clear(box), [note("reading the store")]);
    of = now;
    at = performance.now();
    patience = AGAIN_MS;
    failed = true;
    const got = await draw(box, range, rest);
    if (document.activeElement === document.body) back();
    failed = false;
    patience = Math.max(AGAIN_MS, 1000 * (got.bucket_s ?? 0));
    return got.points ? got : null;
  } };
}

const chooses = (label: string, options: HTMLElement[], to: (value: string) => void): HTMLElement =>
  h("label", { class: "filter" }, `${label} `, h("select", { "aria-label": label, on: { change: (e: Event) => to((e.target as HTMLSelectElement).value) } }, ...options));

const ofView = (view: string, range: Range, rest: string | number): string => `${view}/${range.place}/${rest}`;

function jobOptions(jobs: Json[], id: number): HTMLElement[] {
  return jobs.map((j) => h("option", { value: j.id, selected: j.id === id },
    `${jobName(j)}${j.rank !== null ? `, rank ${j.rank}` : ""}${j.pod ? `, pod ${j.pod}` : ""}${j.end_s ? `, ended ${moment(j.end_s)}` : ""}`));
}

/** The process that the address names, or the first; and that it is another one. */
function chosen(jobs: Json[], rest: string): [Json, HTMLElement | null] {
  const job = jobs.find((j) => String(j.id) === rest);
  return job || !rest ? [job ?? jobs[0], null] : [jobs[0], note(`What the address names did not run then, or is not listed: this is ${jobName(jobs[0])}.`)];
}

// ---- steps ----

function stepCharts(got: Json, spans: Span[], rest: string): (HTMLElement | null)[] {
  const p = got.phases, over = { time: true, marks: spans, format: MS, select: (a: number, b: number) => go(a, b, rest) };
  const time = chart({ ...over, title: "Step time", said: each(got), height: 220 }, timesOf(got),
    [{ label: "mean", values: got.mean_ms, points: got.points < 60 }, { label: "longest", values: got.longest_ms, faint: true }]);
  return [time.element, p.of.length ? chart({ ...over, title: "Phases of a step, on average", said: each(p), height: 200 }, timesOf(p),
    p.of.map((v: Json) => ({ label: v.name, values: v.ms, points: p.points < 60 }))).element : note("Of that time no phases are kept.")];
}

function stepsWords(j: Json): string {
  return j.steps ? `${jobName(j)}: ${count(j.steps)} steps, ${MS(j.mean_ms)} on average, the longest ${MS(j.longest_ms)}` : `${jobName(j)}: no steps then`;
}

export function historyOfSteps(): History {
  return asks(async (box, range, rest) => {
    const [got, told] = await Promise.all([get(`history?${range.query}`), get(`history/incidents?${range.query}`)]);
    const none = nothing(got), jobs: Json[] = got.jobs ?? [];
    if (none || !jobs.length) { add(clear(box), [none ?? note("No job ran then.")]); return got; }
    const [job, another] = chosen(jobs, rest);
    const steps = job.steps ? await get(`history/processes/${job.id}/steps?${range.query}`) : null, spans = spansOf(told.incidents);
    const all = chart({ title: "Steps of all jobs", said: each(got), format: count, height: 110, time: true, marks: spans, select: (a, b) => go(a, b, rest) },
      timesOf(got), [{ label: "steps", values: got.steps, filled: true }]);
    add(clear(box), [chooses("process", jobOptions(jobs, job.id), (id) => { location.hash = ofView("steps", range, id); }),
      another, got.jobs_all > jobs.length && note(`${count(jobs.length)} of ${count(got.jobs_all)} processes, those with most steps`),
      h("p", { class: "answer" }, stepsWords(job)), ...(steps ? stepCharts(steps, spans, rest) : []), all.element,
      told.incidents_all > 0 && h("p", null, h("a", { href: `#incidents/${range.place}` }, plural(told.incidents_all, "incident")), " then: shaded")]);
    return got;
  });
}

// ---- counters ----

const KINDS: [string, string][] = [["gpu", "GPUs"], ["host", "the host"], ["interface", "network"], ["disk", "disks"], ["filesystem", "file systems"], ["self", "eACGM itself"]];

/** Of "gpu" and the like all there is at first; of a number the process of that number. */
const pathOf = (of: string): string => /^\d+$/.test(of) ? `history/processes/${of}/series` : `history/series/${of}`;

function drawSeries(got: Json, spans: Span[], of: string): HTMLElement {
  return h("div", null, ...groups(got.series as Series[], timesOf(got), { spans, options: { time: true, select: (a, b) => go(a, b, of) } }, true).elements);
}

function moreSeries(got: Json, spans: Span[], of: string): HTMLElement {
  const place = h("div");
  let asked = EACH_ASKED;
  const more = h("button", { type: "button", hidden: asked >= got.series_all, on: { click: async () => {
    const next = await get(`${pathOf(of)}?from=${got.from_s}&to=${got.to_s}&after=${asked}`);
    asked += EACH_ASKED;
    more.hidden = asked >= got.series_all;
    place.append(drawSeries(next, spans, of));
  } } }, "show more counters");
  return h("div", null, place, more);
}

export function historyOfCounters(): History {
  return asks(async (box, range, rest) => {
    const of = rest || "gpu";
    const [got, all, told] = await Promise.all([get(`${pathOf(of)}?${range.query}`), get(`history?${range.query}`), get(`history/incidents?${range.query}`)]);
    const jobs: Json[] = all.jobs ?? [], spans = spansOf(told.incidents ?? []), none = nothing(got);
    const kinds = KINDS.map(([kind, text]) => h("a", { class: "button", href: `#${ofView("gpus", range, kind)}`, "aria-current": kind === of ? "true" : undefined }, text));
    const whose = jobs.length ? chooses("of a process", [h("option", { value: "", selected: !/^\d+$/.test(of) }, "–"), ...jobOptions(jobs, Number(of))],
      (id) => { location.hash = ofView("gpus", range, id || "gpu"); }) : null;
    add(clear(box), none && !got.kept ? [none] : [h("div", { class: "row", role: "group", "aria-label": "of what" }, ...kinds), whose, none,
      !none && note(`${each(got)}${each(got).startsWith("each p") ? ": its mean, and the highest value in it" : ""}`),
      !none && (got.series.length ? drawSeries(got, spans, of) : note("No counter of that was told then.")), !none && moreSeries(got, spans, of)]);
    return got;
  });
}

// ---- flame graphs ----

const FEW_SAMPLES = "No processor time of it is kept of that time: stacks come each ten seconds, with --detect or --pprof-push.";

export function historyOfFlames(): History {
  return asks(async (box, range, rest) => {
    const all = await get(`history?${range.query}`), none = nothing(all), jobs: Json[] = all.jobs ?? [];
    if (none || !jobs.length) { add(clear(box), [none ?? note("No job ran then.")]); return all; }
    const [job, another] = chosen(jobs, rest);
    const [got, told] = await Promise.all([get(`history/processes/${job.id}/flame?${range.query}`), get(`history/incidents?${range.query}`)]);
    const cpus = chart({ title: "CPUs that it used", said: each(got), format: number, height: 120, time: true, marks: spansOf(told.incidents), select: (a, b) => go(a, b, rest) },
      timesOf(got), [{ label: "CPUs", values: got.cpus, filled: true, points: got.points < 60 }]);
    add(clear(box), [chooses("process", jobOptions(jobs, job.id), (id) => { location.hash = ofView("flames", range, id); }), another,
      got.flame ? h("p", { class: "answer" }, `${jobName(job)}: ${ns(got.flame.total)} of CPU time`) : note(FEW_SAMPLES), got.flame && cpus.element, got.flame && flameGraph(got.flame)]);
    return got;
  });
}

// ---- incidents ----

function incidentLine(i: Json): HTMLElement {
  return h("li", null, h("details", null, h("summary", null, i.what || i.cause || "unknown", h("span", { class: "note" },
    ` ${moment(Math.floor(i.onset_ns / 1e9))} for ${ns(i.end_ns - i.onset_ns)}${i.cost_ns > 0 ? `, ${ns(i.cost_ns)} ${i.beside ? "of what was " : ""}lost` : ""}${i.ended ? "" : ", its end was not told"}`)),
    incidentCard({ ...i, ended: true }, (t) => moment(Math.floor(t / 1e9)))));
}

function byCause(list: Json[]): HTMLElement | null {
  const causes = new Map<string, { cause: string; n: number; cost: number }>();
  for (const i of list) {
    const c = causes.get(i.cause) ?? { cause: i.cause || "unknown", n: 0, cost: 0 };
    causes.set(i.cause, { ...c, n: c.n + 1, cost: c.cost + (i.beside ? 0 : i.cost_ns ?? 0) }); // what came beside is in another one's
  }
  return causes.size > 1 ? section("By cause", table([...causes.values()], [
    { head: "cause", left: true, value: (c) => c.cause }, { head: "incidents", value: (c) => c.n },
    { head: "cost", value: (c) => c.cost, text: (c) => ns(c.cost) }], { name: "causes", sort: 2 })) : null;
}

export function historyOfIncidents(): History {
  return asks(async (box, range) => {
    const [got, all] = await Promise.all([get(`history/incidents?${range.query}`), get(`history?${range.query}`)]);
    const none = nothing(got), list: Json[] = got.incidents ?? [], events: Json[] = got.events ?? [];
    if (none && !list.length && !events.length) { add(clear(box), [none]); return got; }
    const steps = none ? null : chart({ title: "Steps of all jobs", said: `${each(all)}; incidents are shaded`, format: count, height: 130, time: true, marks: spansOf(list), select: (a, b) => go(a, b) },
      timesOf(all), [{ label: "steps", values: all.steps, filled: true }]);
    add(clear(box), [steps ? steps.element : none,
      list.length ? h("ul", { class: "incident-list" }, ...list.map(incidentLine)) : note("No incident then. They are looked for with --detect."),
      got.incidents_all > list.length && note(`the latest ${count(list.length)} of ${count(got.incidents_all)}`), byCause(list),
      events.length ? section("Events", eventTable(events, (t) => moment(Math.floor(t / 1e9)))) : null,
      got.events_all > events.length && note(`the latest ${count(events.length)} of ${count(got.events_all)} events`)]);
    return got;
  });
}
