// ranks.ts - jobs of several ranks: who spends how long in collectives. Who waits least there is who
// the others wait for.
import { bars } from "../bars";
import type { Json } from "../data";
import { add, clear, h, note, section } from "../dom";
import { count, ns, percent } from "../format";
import { table } from "../table";
import { get, jobName, seconds, type Live } from "./get";

const BARS = 16;
const APART = 0.1; // of the time in collectives, before anybody is named
const LEAST_S = 1;

function groups(jobs: Json[]): Map<string, Json[]> {
  const ret = new Map<string, Json[]>();
  for (const j of jobs.filter((v) => v.rank !== null || v.collective_calls > 0)) {
    const key = `${j.launcher ?? "job"} ${j.job ?? ""}${j.world_size !== null ? ` of ${j.world_size} ranks` : ""}`;
    ret.set(key, [...(ret.get(key) ?? []), j]);
  }
  return ret;
}

const share = (j: Json): number | null => j.age_s ? j.collective_s / j.age_s : null;

/** The one that the others may wait for. */
function late(list: Json[]): string {
  const sorted = list.slice().sort((a, b) => a.collective_s - b.collective_s), first = sorted[0], median = sorted[sorted.length >> 1];
  if (sorted.length < 2 || median.collective_s < LEAST_S || first.collective_s > (1 - APART) * median.collective_s) return "No rank here spends much less time in collectives than the others.";
  return `Rank ${first.rank ?? "?"} (${first.pid}) spends ${seconds(first.collective_s)} in collectives, the usual rank ${seconds(median.collective_s)}: the others may wait for it.`;
}

function group(title: string, list: Json[]): HTMLElement {
  const whole = Math.max(...list.map((j) => j.collective_s)), nobody = list.every((j) => !j.collective_calls);
  return section(title, nobody ? note("No collective was seen so far.") : h("p", null, late(list)),
    !nobody && list.length > 1 && list.length <= BARS && bars(list.map((j) => ({ label: `rank ${j.rank ?? "?"} (${j.pid})`, value: j.collective_s * 1e9 })), whole * 1e9),
    table(list, [
      { head: "rank", value: (j) => j.rank }, { head: "process", left: true, value: jobName }, { head: "local rank", value: (j) => j.local_rank },
      { head: "collectives", value: (j) => j.collective_calls, text: (j) => count(j.collective_calls) },
      { head: "time in them", value: (j) => j.collective_s, text: (j) => seconds(j.collective_s) },
      { head: "of its time", value: share, text: (j) => percent(share(j)) },
      { head: "median step", value: (j) => j.steps?.median_ms, text: (j) => j.steps ? ns(j.steps.median_ms * 1e6) : "–" },
    ], { name: `ranks of ${title}`, step: 64, filter: list.length > 20 ? "filter" : undefined }));
}

export function ranks(): Live {
  const box = h("div");
  let shown = "";
  return { box, refresh: async () => {
    const found = groups((await get("jobs")).jobs), text = JSON.stringify([...found].map(([k, l]) => [k, l.map((j) => [j.pid, j.collective_calls])]));
    if (text === shown || (box.contains(document.activeElement) && document.activeElement !== document.body)) return;
    shown = text;
    add(clear(box), [
      !found.size && note("No job here has ranks, and none calls NCCL or MPI."),
      ...[...found].map(([title, list]) => group(title, list)),
      found.size > 0 && note("Times are those of calls on this host: NCCL's return before the GPU is done. What waits on the GPU is in incidents and frozen traces."),
    ]);
  } };
}
