// freezes.ts - the traces that the agent froze: the file, and the page of it, which the agent makes
// when it is asked for.
import type { Json } from "../data";
import { add, clear, h, note } from "../dom";
import { bytes } from "../format";
import { get, type Live } from "./get";

const AFTER_NS = 5e9; // unless the agent was told otherwise
const APART_NS = 31e9; // what happens so soon after another belongs to the same file
const BEFORE_NS = 2e9; // names of files have whole seconds

const utc = (ns: number): string => new Date(ns / 1e6).toISOString().replace("T", " ").slice(0, 19) + " UTC";
const pageOf = (f: Json): string => `/freezes/${f.name.replace(/\.eacgm$/, "")}.html`;

function links(f: Json): HTMLElement {
  return h("span", null, h("a", { href: pageOf(f), class: "freeze-page" }, "timeline and report"), ", ",
    h("a", { href: `/freezes/${f.name}`, download: f.name, class: "freeze-file" }, `the file (${bytes(f.bytes)})`));
}

/** What was frozen of an incident. */
export async function frozenOf(i: Json, _now: number): Promise<HTMLElement | null> {
  const got = await get("freezes"), onset = i.onset_ns + (got.now_realtime_ns - got.now_ns);
  const file = (got.files as Json[]).find((f) => f.time_realtime_ns <= onset + BEFORE_NS && onset - f.time_realtime_ns < APART_NS);
  const late = file && onset - file.time_realtime_ns > AFTER_NS;
  if (file) return h("p", { class: "frozen" }, late ? `Frozen ${Math.round((onset - file.time_realtime_ns) / 1e9)} s before it, and within thirty seconds nothing else is: ` : "The seconds around it were frozen: ", links(file));
  return got.freezes ? null : note("The seconds around an incident become a recording where the agent is started with --freeze FOLDER.");
}

export function freezes(): Live {
  const list = h("ul", { class: "freezes" }), none = note();
  let shown = "";
  return { box: h("div", null, none, list,
    note("Each is a recording like any other: eacgm report FILE reads it, and eacgm export FILE writes a trace beside it that ui.perfetto.dev opens. ",
      "The timeline is made when it is asked for, which may take some seconds.")), refresh: async () => {
    const got = await get("freezes"), text = JSON.stringify(got.files);
    none.hidden = got.files.length > 0;
    add(clear(none), [got.freezes ? "Nothing was frozen so far." : "Nothing is frozen: start the agent with --freeze FOLDER."]);
    if (text === shown) return;
    shown = text;
    add(clear(list), got.files.map((f: Json) => h("li", null, h("strong", null, utc(f.time_realtime_ns)), " ", links(f), h("span", { class: "note" }, ` ${f.name}`))));
  } };
}
