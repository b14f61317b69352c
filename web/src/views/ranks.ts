// ranks.ts - collectives, communicators and ranks, and who waits for whom.
import type { Json } from "../data";
import { h, note, section, type Child } from "../dom";
import { bytes, count, ns, number } from "../format";
import { table } from "../table";

const WORDS = (key: string) => key.replace(/_/g, " ");

/** What of an object is plain: its names and values as a list. */
function plain(o: Json): HTMLElement {
  return h("dl", { class: "facts" }, ...Object.entries(o).filter(([, v]) => v !== null && typeof v !== "object").flatMap(([k, v]) =>
    [h("dt", null, WORDS(k)), h("dd", null, shown(k, v))]));
}

function shown(key: string, v: unknown): string {
  if (typeof v !== "number" || /(^|_)(pid|tid|id|rank|port|netns|stream|context|handle)$/.test(key)) return String(v);
  return key.endsWith("_ns") ? ns(v) : key.endsWith("bytes") ? bytes(v) : number(v);
}

/** A list of objects that are alike, with a column for each of their plain keys. */
export function listTable(name: string, list: Json[]): HTMLElement {
  const keys = Object.keys(list[0] ?? {}).filter((k) => list.some((r) => r[k] !== null && typeof r[k] !== "object"));
  return table(list, keys.map((k) => ({ head: WORDS(k.replace(/_ns$/, "")), left: typeof list[0][k] === "string",
    value: (r: Json) => r[k], text: (r: Json) => r[k] === null || r[k] === undefined ? "–" : shown(k, r[k]) })),
    { name, filter: list.length > 20 ? "filter" : undefined, step: 50 });
}

export function ranks(report: Json): Child[] {
  const made: Child[] = [];
  const slow = (report.functions ?? []).filter((f: Json) => f.ranks?.length);
  if (report.ranks) {
    made.push(section("Ranks", plain(report.ranks), ...Object.entries(report.ranks).filter(([, v]) => Array.isArray(v) && v.length
      && typeof (v as Json[])[0] === "object").map(([k, v]) => h("div", null, h("h3", null, WORDS(k)), listTable(k, v as Json[])))));
  }
  if (slow.length) made.push(section("Functions in which ranks wait for each other", h("ul", null, ...slow.slice(0, 50).map((f: Json) =>
    h("li", null, `${f.name}: `, f.ranks.map((r: Json) => `rank ${r.rank ?? "?"} ${ns(r.total_ns)}${r.slow ? " (the slow one)" : ""}`).join(", "))))));
  if (report.collectives?.length) made.push(section("Collectives", table(report.collectives as Json[], [
    { head: "function", left: true, value: (c) => c.function },
    { head: "calls", value: (c) => c.calls, text: (c) => count(c.calls) },
    { head: "bytes", value: (c) => c.bytes, text: (c) => bytes(c.bytes) },
    { head: "time of calls", value: (c) => c.total_ns, text: (c) => ns(c.total_ns) },
    { head: "rank", value: (c) => c.rank }, { head: "of", value: (c) => c.size }, { head: "process", value: (c) => c.pid },
    { head: "type", left: true, value: (c) => c.datatype },
  ], { name: "collectives", filter: "filter", step: 50 })));
  if (report.collective_times?.sums?.length) made.push(section("On the devices", listTable("collectives on devices", report.collective_times.sums)));
  if (report.communicators?.length) made.push(section("Communicators", listTable("communicators", report.communicators)));
  if (report.connections?.length) made.push(section("Connections", listTable("connections", report.connections)));
  return made.length ? made : [note("The recording has no collectives and one rank at most.")];
}
