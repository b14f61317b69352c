// live.ts - the page of an agent: what it answers below /api/v1/ (docs/api.yaml), brought up to date
// by its events. It only reads. What is on the screen is changed, not made anew: what is open stays.
import { chart, type Chart } from "./chart";
import type { Counters, Json, Series } from "./data";
import { add, clear, h, note, section } from "./dom";
import { bytes, count, flops, ns, percent, plural, value } from "./format";
import { table } from "./table";
import { fragment, tabs, type View } from "./tabs";
import { groups, timesOf } from "./views/counters";
import { get, jobName, seconds, type Live } from "./live/get";
import { anomalies } from "./live/anomalies";
import { flames } from "./live/flames";
import { historyOfCounters, historyOfFlames, historyOfIncidents, historyOfSteps } from "./live/history";
import { noteRange, placeOf, ranged } from "./live/range";
import { freezes, frozenOf } from "./live/freezes";
import { gate } from "./live/token";
import { incidents } from "./live/incidents";
import { listen } from "./live/events";
import { ranks } from "./live/ranks";
import { settings } from "./live/settings";

const CARDS = 48; // of jobs that are drawn at first
const EACH_MS = 2000; // between two looks at what is on the screen

const s = seconds;

function labels(j: Json): string {
  const rank = j.rank !== null ? `rank ${j.rank}${j.world_size !== null ? ` of ${j.world_size}` : ""}` : "";
  const job = j.job ? `${j.launcher ?? "job"} ${j.job}` : "";
  const pod = j.pod ? `pod ${j.namespace ? j.namespace + "/" : ""}${j.pod}` : j.pod_uid ? `pod ${j.pod_uid}` : "";
  return [rank, job, pod].filter(Boolean).join(", ");
}

function stepsWords(steps: Json): string {
  return steps ? `${count(steps.count)} steps${steps.kind ? ` of ${steps.kind}` : ""}: the last ${ns(steps.last_ms * 1e6)}, `
    + `median ${ns(steps.median_ms * 1e6)}` : "";
}

/** What it computes. A mean of ten seconds, or of a minute where what a budget left out is reckoned in. */
function speedWords(j: Json): string {
  if (!j.flops_per_s) return "";
  return `; ${flops(j.flops_per_s)}${j.mfu !== null ? `, ${percent(j.mfu)} of its GPUs' peak` : ""}`;
}

// ---- jobs ----

class JobCard {
  readonly element: HTMLElement;
  private line = h("p");
  private steps = h("p");
  private inside = h("div");
  private open = false;

  constructor(private job: Json) {
    this.element = h("article", { class: "job" }, h("h3", null, jobName(job)), h("p", { class: "note" }, labels(job)),
      this.line, this.steps, h("details", { on: { toggle: (e: Event) => {
        this.open = (e.target as HTMLDetailsElement).open;
        void this.fill();
      } } }, h("summary", null, "functions and counters"), this.inside));
    this.update(job);
  }
  update(job: Json): void {
    this.job = job;
    add(clear(this.line), [`runs for ${s(job.age_s)}; ${count(job.calls)} calls that are traced, ${s(job.call_s)}`,
      job.errors ? `, ${plural(job.errors, "error")}` : "", speedWords(job)]);
    add(clear(this.steps), [stepsWords(job.steps), ...(job.steps?.phases ?? []).map((p: string) => h("span", { class: "note" }, ` ${p}`))]);
    if (this.open && !this.inside.contains(document.activeElement)) void this.fill();
  }
  private async fill(): Promise<void> {
    if (!this.open) return;
    const j = await get(`jobs/${this.job.pid}`).catch(() => null);
    if (!j) return; // it has just ended: the next look takes it away
    add(clear(this.inside), [
      table(j.functions as Json[], [
        { head: "function", left: true, value: (f) => f.name }, { head: "layer", left: true, value: (f) => f.layer },
        { head: "calls", value: (f) => f.calls, text: (f) => count(f.calls) },
        { head: "time", value: (f) => f.total_ns, text: (f) => ns(f.total_ns) },
        { head: "bytes", value: (f) => f.bytes ?? -1, text: (f) => f.bytes === null ? "" : bytes(f.bytes) },
      ], { name: `functions of ${jobName(j)}`, step: 15 }),
      j.kernels.length > 0 && table(j.kernels as Json[], [
        { head: "kernel", left: true, value: (k) => k.name },
        { head: "launches", value: (k) => k.launches, text: (k) => count(k.launches) }], { name: `kernels of ${jobName(j)}`, step: 15 }),
      j.functions_all > j.functions.length && note(`${count(j.functions.length)} of ${count(j.functions_all)} functions, those with most time`),
      h("dl", { class: "facts" }, ...(j.counters as Json[]).flatMap((c) => [h("dt", null, c.name), h("dd", null, value(c.value, c.unit))])),
    ]);
  }
}

function jobs(): Live {
  const cards = new Map<number, JobCard>(), list = h("div", { class: "jobs" }), none = note("No job runs: no process calls CUDA, NCCL or PyTorch.");
  const said = note(), more = h("button", { type: "button", hidden: true, on: { click: () => { most *= 10; draw(); } } }, "show more");
  const filter = h("label", { class: "filter", hidden: true }, "filter ", h("input", { type: "search", autocomplete: "off", spellcheck: "false",
    on: { input: (e: Event) => { wanted = (e.target as HTMLInputElement).value.toLowerCase(); draw(); } } }));
  let all: Json[] = [], wanted = "", most = CARDS;
  const has = (j: Json) => `${jobName(j)} ${labels(j)}`.toLowerCase().includes(wanted);

  function draw(): void {
    const found = wanted ? all.filter(has) : all, shown = found.slice(0, most), there = new Set(shown.map((j) => j.pid));
    for (const [pid, card] of cards) if (!there.has(pid)) { card.element.remove(); cards.delete(pid); }
    shown.forEach((j, i) => {
      let card = cards.get(j.pid);
      if (card) card.update(j);
      else cards.set(j.pid, card = new JobCard(j));
      if (list.children[i] !== card.element) list.insertBefore(card.element, list.children[i] ?? null);
    });
    none.hidden = all.length > 0;
    filter.hidden = all.length <= CARDS / 4;
    more.hidden = found.length <= most;
    said.textContent = found.length > most || wanted ? `${count(shown.length)} of ${count(all.length)} processes` : "";
  }
  return { box: h("div", null, none, filter, list, said, more), refresh: async () => { all = (await get("jobs")).jobs; draw(); } };
}

// ---- steps ----

function steps(): Live {
  const words = h("p", { class: "answer" }), place = h("div"), phases = h("ul");
  let drawn: Chart | null = null, of = 0;
  return { box: h("div", null, words, place, phases), refresh: async () => {
    const job = ((await get("jobs")).jobs as Json[]).find((j) => j.steps);
    if (!job) { add(clear(words), ["No steps were found so far."]); clear(place); clear(phases); drawn = null; return; }
    const history: number[] = (await get(`jobs/${job.pid}`)).steps?.history_ms ?? [], first = job.steps.count - history.length;
    const x = history.map((_, i) => first + i + 1);
    add(clear(words), [`${jobName(job)}: ${stepsWords(job.steps)}, the longest of these ${ns(job.steps.longest_ms * 1e6)}`]);
    if (!drawn || of !== job.pid) {
      drawn = chart({ title: "The last steps", format: (v) => ns(v * 1e6), height: 220, xLabel: (v) => String(Math.round(v)) }, x, [{ label: "step", values: history }]);
      clear(place).append(drawn.element);
      of = job.pid;
    } else drawn.update(x, [{ label: "step", values: history }]);
    add(clear(phases), (job.steps.phases as string[]).map((p) => h("li", null, p)));
  } };
}

// ---- GPUs and counters ----

function counters(): Live {
  const place = h("div"), about = h("div");
  let drawn: ReturnType<typeof groups> | null = null, shape = "";
  return { box: h("div", null, about, place), refresh: async () => {
    const [all, gpus] = await Promise.all([get("series") as Promise<Counters>, get("gpus")]);
    const x = timesOf(all).map((t) => t - all.points * all.bucket_s), now = all.series.map((v: Series) => v.entity + "|" + v.name).sort().join();
    add(clear(about), [gpus.gpus.length ? h("ul", null, ...gpus.gpus.map((g: Json) => h("li", null, `GPU ${g.index}: ${g.name}`, g.xid ? `, Xid ${g.xid}` : "")))
      : note("No GPU is seen.")]);
    if (drawn && shape === now) drawn.update(x, all.series);
    else {
      drawn = groups(all.series, x, { spans: [] }, true);
      clear(place).append(...drawn.elements);
      shape = now;
    }
  } };
}

// ---- the agent ----

function self(): Live {
  const box = h("div");
  return { box, refresh: async () => {
    const a = await get("self");
    if (box.contains(document.activeElement) && document.activeElement !== document.body) return;
    const cores = (v: number | null) => v === null ? "–" : `${v.toFixed(3)} CPUs`;
    const core = (v: number | null) => v === null ? "–" : `${(100 * v).toFixed(2)} %`;
    const own = (b: Json) => `${core(b.always_cores)} of ${core(b.limit_cores)} of a CPU; ${core(b.fixed_cores)} without any call`;
    const facts: [string, string][] = [
      ["of the jobs' CPU time", percent(a.cost_ratio)], ["probes at work", cores(a.probe_cpu_cores)], ["jobs", cores(a.job_cpu_cores)],
      ["the agent itself", `${cores(a.own_cpu_cores)}, ${bytes(a.own_resident_bytes)}`], ["runs for", s(a.age_s)],
      ...(a.own_budget ? [["of its own budget", own(a.own_budget)] as [string, string]] : []),
      ["lost", count(a.lost)], ["not judged", count(a.unjudged)], ["left out for want of room", count(a.left_out)],
      ["frozen traces", a.freezes ? `${count(a.frozen)}${a.held_off > 0 ? `, ${count(a.held_off)} held off` : ""}` : "none: start the agent with --freeze FOLDER"],
    ];
    add(clear(box), [
      section("What it costs", h("dl", { class: "facts" }, ...facts.flatMap(([k, v]) => [h("dt", null, k), h("dd", null, v)]))),
      section("Probes, by layer", table(a.layers as Json[], [
        { head: "layer", left: true, value: (l) => l.layer }, { head: "calls", value: (l) => l.calls, text: (l) => count(l.calls) },
        { head: "calls/s", value: (l) => l.calls_per_s, text: (l) => l.calls_per_s === null ? "–" : count(l.calls_per_s) },
        { head: "busiest", left: true, value: (l) => l.busiest }], { name: "layers" })),
      a.turned_down.length ? section("Turned down to keep the budget", table(a.turned_down as Json[], [
        { head: "function", left: true, value: (c) => c.function }, { head: "layer", left: true, value: (c) => c.layer },
        { head: "seen", value: (c) => c.seen_ratio, text: (c) => percent(c.seen_ratio) },
        { head: "for", left: true, value: (c) => c.budget, text: (c) => c.budget === "own" ? "the agent's own" : "the jobs'" }], { name: "functions in bursts", step: 30 })) : null,
    ]);
  } };
}

// ---- the page ----

export function live(): void {
  const made = new Map<string, Live>(), words = h("span", { class: "note", role: "status" }, "connecting");
  const light = h("span", { class: "state off", "aria-hidden": "true" });
  let last = -EACH_MS, busy = false;
  addEventListener("hashchange", noteRange); // before the tabs, whose links lead to the same time
  noteRange();
  const view = (id: string, title: string, begin: () => Live): View => ({ id, title, at: () => placeOf(id), make: () => {
    const it = begin();
    made.set(id, it);
    last = -EACH_MS;
    queueMicrotask(() => void look()); // not only when an event comes
    return [it.box];
  } });
  const views = [view("jobs", "Jobs", jobs), view("steps", "Steps", () => ranged("steps", steps(), historyOfSteps())),
                 view("gpus", "GPUs and counters", () => ranged("gpus", counters(), historyOfCounters())),
                 view("incidents", "Incidents", () => ranged("incidents", incidents(frozenOf), historyOfIncidents())),
                 view("anomalies", "Anomalies", anomalies), view("flames", "Flame graphs", () => ranged("flames", flames(), historyOfFlames())), view("ranks", "Ranks", ranks), view("freezes", "Frozen traces", freezes), view("probes", "Probes and cost", self), view("settings", "Settings", settings)];
  const { nav, main } = tabs(views);
  const lost = (why: string) => { light.classList.add("off"); words.textContent = why; };
  let end = new AbortController(); // of what listens
  const footer = h("footer", { class: "note" }, `Keys: 1 to 9 and 0 choose a view, / filters. What you see is brought up to date each two seconds.`);
  const skip = h("a", { href: "#view", class: "skip", on: { click: (e: Event) => { e.preventDefault(); main.focus(); } } }, "to the view");
  const token = gate([skip, nav, main, footer], () => { end.abort(); lost("a token is asked for"); },
    () => { last = -EACH_MS; follow(); void look(); });
  async function look(): Promise<void> {
    const id = views.find((v) => v.id === fragment().view)?.id ?? views[0].id, now = performance.now();
    if (busy || document.hidden || token.shut() || now - last < EACH_MS) return;
    busy = true;
    last = now;
    try { await made.get(id)?.refresh(); } catch (e) { if (!token.shut()) lost(String(e)); }
    busy = false;
  }
  function follow(): void {
    end.abort();
    end = new AbortController();
    void listen("/api/v1/events", end.signal, (event, data) => {
      if (event !== "state") return;
      const state = JSON.parse(data);
      light.classList.remove("off");
      words.textContent = `${plural(state.jobs, "job process", "job processes")}, ${plural(state.incidents, "incident")}, `
        + `tracing takes ${percent(state.cost_ratio)} of their time`;
      void look();
    }, lost);
  }
  follow();
  // A page that the browser keeps to go back to would hold its connection, of which there are few.
  addEventListener("pagehide", () => end.abort());
  addEventListener("pageshow", (e) => { if (e.persisted) follow(); });
  document.addEventListener("visibilitychange", () => void look());
  addEventListener("hashchange", () => { last = -EACH_MS; queueMicrotask(() => void look()); });
  document.title = `${location.host} - eACGM`;
  add(clear(document.getElementById("page")!), [
    skip, h("header", null, h("span", { class: "brand" }, "eACGM"), h("strong", null, location.host), light, words), token.element, nav, main, footer,
  ]);
}
