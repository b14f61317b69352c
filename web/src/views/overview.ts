// overview.ts - what the report says first: what ran, where its time went, what to do about it.
import { bars } from "../bars";
import type { About, Json } from "../data";
import { h, note, section, type Child } from "../dom";
import { bytes, count, ns, percent, plural } from "../format";

/** Who the recording is of: "train.py (16332)". */
export function programOf(report: Json): string {
  const main = report.account?.main;
  if (main) return `${main.program} (${main.pid})`;
  return report.recording?.command ?? report.recording?.file ?? "a recording";
}

export function lostWords(recording: Json): string {
  return recording.lost ? `${plural(recording.lost, "record was lost", "records were lost")}`
    : "nothing was lost";
}

function answer(report: Json): HTMLElement {
  const r = report.recording;
  const main = report.account?.main;
  return h("p", { class: "answer" },
    main?.program ?? "The recording", main ? ` ran for ${ns(main.wall_ns)}` : ` is ${ns(r.duration_s * 1e9)} long`,
    r.host ? ` on ${r.host}` : "", `, ${plural(report.processes?.length ?? 0, "process", "processes")}; `,
    lostWords(r),
    r.overhead?.cpu_ratio !== null && r.overhead?.cpu_ratio !== undefined
      ? `; tracing took ${percent(r.overhead.cpu_ratio)} of the job's CPU time` : "", ".");
}

function place(at: Json): string {
  if (!at) return "";
  return ` at ${at.function ? at.function + ", " : ""}${at.file}:${at.line}`;
}

export function adviceItem(a: Json): HTMLElement {
  return h("li", { class: "advice" }, h("span", { class: "do" }, "do: "), h("strong", null, a.remedy || a.kind),
    `: would save ${a.at_most ? "at most " : ""}${ns(a.saving_ns)}, ${percent(a.share)} of the ${a.of_run ? "run" : "loop"}`,
    place(a.place));
}

function standsOut(account: Json): Child {
  if (!account?.stands_out?.length) return null;
  const advice: Json[] = account.advice ?? [];
  return section("What stands out", h("ul", { class: "findings" }, ...account.stands_out.map((f: Json) => {
    const does = advice.find((a) => a.kind === f.name);
    return h("li", null, f.text, does && h("ul", null, adviceItem(does)));
  })));
}

function moreAdvice(account: Json): Child {
  const told = new Set((account?.stands_out ?? []).map((f: Json) => f.name));
  const rest = (account?.advice ?? []).filter((a: Json) => !told.has(a.kind));
  return rest.length ? section("Also worth trying", h("ul", { class: "findings" }, ...rest.map(adviceItem))) : null;
}

function timeOf(account: Json, about: About): Child {
  if (!account?.main) return null;
  const loop = account.phases?.loop, of = loop ?? account.main;
  const rows = Object.entries(of.owners as Record<string, number>)
    .map(([id, value]) => ({ label: about.owners[id] ?? id, value }));
  return section(loop ? `Where the loop's time went: ${ns(of.wall_ns)}` : `Where the time went: ${ns(of.wall_ns)}`,
    note(`The main thread of ${account.main.program} (${account.main.pid}). Each instant has one owner.`,
      loop ? ` Before the loop it ran ${ns(account.phases.before.wall_ns)}, after it ${ns(account.phases.after.wall_ns)}.` : ""),
    bars(rows, of.wall_ns));
}

function stepsLine(steps: Json): Child {
  if (!steps?.count) return null;
  const phases = Object.entries(steps.phases_ratio as Record<string, number>).filter(([, v]) => v >= 0.005)
    .map(([name, v]) => `${name} ${percent(v)}`).join(", ");
  return h("p", null, `${count(steps.count)} steps of ${steps.kind}, ${ns(steps.mean_ms * 1e6)} each on average: ${phases}. `,
    h("a", { href: "#steps" }, "Steps"));
}

function gpuLines(report: Json): Child {
  const devices: Json[] = report.gpu_timeline?.devices ?? [], gpus: Json[] = report.gpus ?? [];
  if (!devices.length && !gpus.length) return null;
  return section("GPUs", h("ul", null,
    ...devices.slice(0, 16).map((d) => h("li", null, `GPU ${d.device} of process ${d.pid} worked ${percent(d.busy_ratio)} of ${ns(d.span_ns)}`,
      d.gaps?.length ? `; most idle time: ${d.gaps[0].reason}, ${ns(d.gaps[0].total_ns)}` : "")),
    ...gpus.slice(0, 16).map((g) => h("li", null, `${g.name} (${g.index}): memory ${bytes(g.memory_bytes)}`,
      Object.entries(g.counters ?? {}).filter(([n]) => /^(busy|sm_active|gpu_busy)_ratio$/.test(n))
        .map(([n, c]: [string, Json]) => `, ${n.replace(/_/g, " ")} ${percent(c.mean)}`).join("")))));
}

function warnings(report: Json): Child {
  const n = report.incidents?.length ?? 0, early = report.outlook?.length ?? 0, odd = report.anomalies?.length ?? 0;
  if (!n && !early && !odd) return null;
  const parts = [n && plural(n, "incident"), early && plural(early, "early warning"),
                 odd && plural(odd, "anomaly", "anomalies")].filter(Boolean).join(", ");
  return h("p", { class: "alert" }, h("a", { href: "#incidents" }, parts), " were told while it was recorded.");
}

function recording(report: Json): HTMLElement {
  const r = report.recording, o = r.overhead ?? {};
  const facts: [string, Child][] = [
    ["command", r.command], ["host", r.host && `${r.host}, Linux ${r.kernel}`],
    ["length", ns(r.duration_s * 1e9)], ["began", r.start_realtime_ns
      && new Date(r.start_realtime_ns / 1e6).toISOString().replace("T", " ").slice(0, 19) + " UTC"],
    ["holds", `${count(r.events)} calls, ${bytes(r.bytes)}`],
    ["lost", r.lost ? `${count(r.lost)}: ${Object.entries(r.lost_by_cause).map(([k, v]) => `${k} ${v}`).join(", ")}` : "0"],
    ["cost", `${percent(o.cpu_ratio)} of the job's CPU time while it ran; eacgm itself ${(o.collector_cpu_s ?? 0).toFixed(2)} s beside it`],
    ["damage", r.damage && `${r.damage.message} (at byte ${count(r.damage.offset)})`],
  ];
  return section("Recording", h("dl", { class: "facts" }, ...facts.filter(([, v]) => v).flatMap(([k, v]) =>
    [h("dt", null, k), h("dd", null, v)])));
}

export function overview(report: Json, about: About): Child[] {
  return [answer(report), warnings(report), stepsLine(report.steps), timeOf(report.account, about),
          standsOut(report.account), moreAdvice(report.account), gpuLines(report), recording(report),
          about.left_out.length ? section("Left out of this page",
            note("So that a page stays small; eacgm report --json has all of it."),
            h("ul", null, ...about.left_out.map((l) => h("li", null, `${l.what}: ${count(l.shown)} of ${count(l.of)} are here`)))) : null];
}
