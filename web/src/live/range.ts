// range.ts - the time that views of jobs are of: now, of which the agent has the last minutes in
// memory, or a stretch of the days that its store keeps. It is in the address, and goes from view to
// view: "#steps/last/3600", "#steps/1700000000-1700003600".
import { add, clear, h, note, renew } from "../dom";
import { moment } from "../format";
import { fragment } from "../tabs";
import type { Live } from "./get";

const VIEWS = ["steps", "gpus", "incidents", "flames"];
const STRETCHES: [string, string][] = [["", "now"], ["last/3600", "hour"], ["last/86400", "day"], ["last/604800", "week"]];
const LEAST_S = 10;
const WHOLE: [number, number][] = [[86400, 600], [7200, 60], [0, 1]]; // of a stretch so long, ends are whole so many seconds

/** A stretch of time as it is asked for. */
export interface Range { place: string; query: string; from?: number; to?: number; last?: number }

let chosen = ""; // its place in the address; "" is now

/** What the address says behind the view: a stretch, and what else. null: it is of now. */
function asked(): { range: Range | null; rest: string } {
  const parts = fragment().rest.split("/"), interval = /^(\d{1,12})-(\d{1,12})$/.exec(parts[0]);
  if (parts[0] === "last" && /^[1-9]\d{0,8}$/.test(parts[1] ?? ""))
    return { range: { place: `last/${parts[1]}`, query: `last=${parts[1]}`, last: Number(parts[1]) }, rest: parts.slice(2).join("/") };
  if (interval && Number(interval[1]) < Number(interval[2]))
    return { range: { place: parts[0], query: `from=${interval[1]}&to=${interval[2]}`, from: Number(interval[1]), to: Number(interval[2]) }, rest: parts.slice(1).join("/") };
  return { range: null, rest: fragment().rest };
}

/** To be called when the address changes. */
export function noteRange(): void {
  const { range, rest } = asked();
  if (VIEWS.includes(fragment().view) && (range || !rest)) chosen = range?.place ?? "";
}

/** The fragment that leads to a view, at the time that is chosen. */
export const placeOf = (id: string): string => VIEWS.includes(id) && chosen ? `${id}/${chosen}` : id;

export function go(from: number, to: number, rest = ""): void {
  const whole = WHOLE.find(([least]) => to - from >= least)?.[1] ?? 1;
  const first = Math.floor(from / whole) * whole, last = Math.max(first + LEAST_S, Math.ceil(to / whole) * whole);
  location.hash = [fragment().view, `${first}-${last}`, rest].filter(Boolean).join("/");
}

/** Of a view what shows a stretch; it tells how far that reaches where it knows. */
export interface History { box: HTMLElement; refresh: (range: Range, rest: string) => Promise<{ from_s: number; to_s: number } | null> }

function picker(id: string, range: Range | null, rest: string): HTMLElement {
  const behind = range && rest ? `/${rest}` : "";
  const links = STRETCHES.map(([place, text]) => h("a", { class: "button", href: `#${id}${place && `/${place}`}${place && behind}`,
    "aria-current": place === (range?.place ?? "") ? "true" : undefined }, text));
  if (range?.from !== undefined) {
    const { from, to } = range as { from: number; to: number }, half = Math.ceil((to - from) / 2);
    const at = (a: number, b: number) => `#${id}/${Math.max(0, a)}-${b}${behind}`;
    links.push(h("a", { class: "button", href: at(from, to), "aria-current": "true" }, `${moment(from)} – ${moment(to)}`),
      h("a", { class: "button", href: at(from - half, to - half) }, "earlier"), h("a", { class: "button", href: at(from + half, to + half) }, "later"),
      h("a", { class: "button", href: at(from - half, to + half) }, "wider"));
    const quarter = Math.floor((to - from) / 4);
    if (to - from >= 2 * LEAST_S) links.push(h("a", { class: "button", href: at(from + quarter, to - quarter) }, "closer"));
  }
  return h("div", { class: "row", role: "group", "aria-label": "time" }, ...links);
}

/** A view of now that can show what was: what is drawn over in a chart of it is seen closer. */
export function ranged(id: string, now: Live, then: History): Live {
  const pick = h("div"), words = note(), place = h("div");
  let drawn = "";
  return { box: h("div", null, pick, words, place), refresh: async () => {
    const { range, rest } = asked(), box = range ? then.box : now.box, wanted = `${range?.place}|${rest}`;
    if (wanted !== drawn) renew(pick, [picker(id, range, rest)]);
    drawn = wanted;
    if (box.parentElement !== place) clear(place).append(box);
    if (!range) { words.textContent = ""; return now.refresh(); }
    try {
      const got = await then.refresh(range, rest);
      if (got) words.textContent = `From ${moment(got.from_s)} to ${moment(got.to_s)}. Draw over a stretch of a chart to see it closer.`;
    } catch (e) {
      words.textContent = "";
      add(clear(then.box), [h("p", { class: "alert", role: "alert" }, `This time cannot be shown: ${(e as Error).message}`)]);
    }
  } };
}
