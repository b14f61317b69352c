// main.ts - the page: of a recording where it holds one's report, else of the agent that served it.
import { block, type About, type Counters, type Flame, type Json, type JudgedLayer, type Steps, type Timeline } from "./data";
import { add, clean, clear, h } from "./dom";
import { ns } from "./format";
import { live } from "./live";
import { tabs, type View } from "./tabs";
import { anomalies } from "./views/anomalies";
import { counters } from "./views/counters";
import { flames } from "./views/flames";
import { functions } from "./views/functions";
import { incidents, spansOf } from "./views/incidents";
import { lostWords, overview, programOf } from "./views/overview";
import { probes } from "./views/probes";
import { ranks } from "./views/ranks";
import { steps } from "./views/steps";
import { timelineView } from "./views/timeline";

function recording(report: Json): void {
  const about = block<About>("eacgm-about") ?? { version: "", left_out: [], owners: {} };
  const loops = block<Steps[]>("eacgm-steps") ?? [], flame = block<Flame[]>("eacgm-flames") ?? [];
  const series = block<Counters>("eacgm-counters") ?? { bucket_s: 1, points: 0, series: [] };
  const timeline = block<Timeline>("eacgm-timeline") ?? { lanes: [], names: [], views: [] };
  const judged = block<JudgedLayer[]>("eacgm-anomalies") ?? [];
  const spans = spansOf(report), found = report.incidents?.length ?? 0;
  const views: View[] = [
    { id: "overview", title: "Overview", make: () => overview(report, about) },
    { id: "steps", title: "Steps", make: () => steps(report, loops, spans) },
    { id: "timeline", title: "Timeline", make: () => timelineView(timeline, spans) },
    { id: "gpus", title: "GPUs and counters", make: () => counters(report, series, spans) },
    { id: "incidents", title: found ? `Incidents (${found})` : "Incidents", make: () => incidents(report) },
    ...(judged.length || report.anomalies?.length ? [{ id: "anomalies", title: "Anomalies", make: () => anomalies(report, judged, spans) }] : []),
    { id: "functions", title: "Functions", make: () => functions(report) },
    { id: "flames", title: "Flame graphs", make: () => flames(flame) },
    { id: "ranks", title: "Ranks", make: () => ranks(report) },
    { id: "probes", title: "Probes and cost", make: () => probes(report) },
  ];
  const { nav, main } = tabs(views);
  document.title = clean(`${programOf(report)} - eACGM`);
  add(clear(document.getElementById("page")!), [
    h("a", { href: "#view", class: "skip", on: { click: (e: Event) => { e.preventDefault(); main.focus(); } } }, "to the view"),
    h("header", null, h("span", { class: "brand" }, "eACGM"), h("strong", null, programOf(report)),
      h("span", { class: "note" }, `${ns(report.recording.duration_s * 1e9)}; ${lostWords(report.recording)}`)),
    nav, main,
    h("footer", { class: "note" }, `eacgm ${about.version}. Keys: 1 to ${views.length} choose a view, / filters.`),
  ]);
}

const report = block<Json>("eacgm-report");
if (report) recording(report);
else live();
