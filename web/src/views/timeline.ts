// timeline.ts - what GPUs did, what the host asked of them, and steps, side by side over time, on a
// canvas. Drawn over with the mouse a stretch is seen closer; what is under the pointer is said in
// words. Close to the moment that the recording is of each span is there, elsewhere blocks of them.
import type { Timeline, TimelineView } from "../data";
import { clean, h, note, onTheme, style, type Child } from "../dom";
import { count, ns, plural } from "../format";
import type { Span } from "./steps";

const LANE = 36, LABEL = 15, AXIS = 20, FONT = "12px system-ui, sans-serif";
const LEAST_S = 1e-6;

interface Found { lane: number; at: number }

export function timelineView(t: Timeline, marks: Span[]): Child[] {
  if (!t.views.length) return [note("The recording has no steps, no work of GPUs and no calls that ask for any.")];
  const [whole, moment] = t.views, heads = lanesWithHeads(t);
  let from = moment.from_s, to = moment.to_s, at: Found | null = null, pressed: number | null = null, drag: number | null = null;
  const canvas = h("canvas", { class: "timeline", tabindex: "0", role: "img", "aria-label":
    "a timeline; left and right move, plus and minus zoom, up and down choose a lane, Tab leaves, Escape shows all" }) as HTMLCanvasElement;
  const words = h("p", { class: "flame-words", "aria-live": "polite" }), place = h("div", { class: "flame-place" }, canvas);

  const near = () => moment !== undefined && from >= moment.from_s && to <= moment.to_s;
  const view = (): TimelineView => near() ? moment : whole;
  const width = () => place.clientWidth;
  const xOf = (s: number) => ((s - from) / (to - from)) * width();
  const sOf = (x: number) => from + (x / width()) * (to - from);
  const startOf = (v: TimelineView, l: number, i: number) => v.from_s + v.lanes[l].start_us[i] / 1e6;
  const nameOf = (v: TimelineView, l: number, i: number) => clean(t.names[v.lanes[l].name[i]] ?? "");

  function go(a: number, b: number): void {
    const length = Math.max(LEAST_S, Math.min(b - a, whole.to_s - whole.from_s));
    from = Math.min(Math.max(a, whole.from_s), whole.to_s - length);
    to = from + length;
    at = null;
    draw();
  }
  function colourOf(lane: number, name: number): string {
    const of = t.lanes[lane].of;
    return of === "steps" ? style(name % 2 ? "--c0" : "--c5") : of === "calls" ? style("--c4") : style(`--c${[0, 1, 2, 3, 6][name % 5]}`);
  }
  /** The first that ends after a time: they are in order of their starts. */
  function firstAfter(v: TimelineView, l: number, s: number): number {
    const starts = v.lanes[l].start_us, us = (s - v.from_s) * 1e6;
    let lo = 0, hi = starts.length;
    while (lo < hi) { const mid = (lo + hi) >> 1; if (starts[mid] < us) lo = mid + 1; else hi = mid; }
    return Math.max(0, lo - 1);
  }
  function drawLane(ink: CanvasRenderingContext2D, l: number): void {
    const v = view(), lane = v.lanes[l], y = heads.y[l] + LABEL, colours = new Map<number, string>();
    ink.fillStyle = style("--faint");
    ink.fillText(clean(t.lanes[l].title), 2, heads.y[l] + LABEL / 2);
    ink.fillStyle = style("--panel");
    ink.fillRect(0, y, width(), LANE - LABEL - 3);
    for (let i = firstAfter(v, l, from); i < lane.start_us.length; i++) {
      const start = startOf(v, l, i), x = xOf(start), w = Math.max(0.6, xOf(start + lane.us[i] / 1e6) - x);
      if (start > to) break;
      if (x + w < 0) continue;
      const name = lane.name[i];
      if (!colours.has(name)) colours.set(name, colourOf(l, name));
      ink.fillStyle = colours.get(name)!;
      ink.fillRect(x, y, w, LANE - LABEL - 3);
      if (at?.lane === l && at.at === i) { ink.strokeStyle = style("--ink"); ink.lineWidth = 2; ink.strokeRect(x, y + 1, w, LANE - LABEL - 5); }
      const room = Math.floor((Math.min(x + w, width()) - Math.max(0, x) - 6) / 6.8);
      if (room < 4) continue;
      const text = nameOf(v, l, i);
      ink.fillStyle = style("--paper");
      ink.fillText(text.length > room ? text.slice(0, room - 1) + "…" : text, Math.max(0, x) + 3, y + (LANE - LABEL - 3) / 2);
    }
  }
  function drawAxis(ink: CanvasRenderingContext2D): void {
    const rough = (to - from) / Math.max(2, width() / 110), ten = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * ten).find((m) => m >= rough)!;
    const digits = Math.max(0, Math.min(7, -Math.floor(Math.log10(step))));
    for (let s = Math.ceil(from / step) * step; s < to; s += step) {
      const x = xOf(s);
      ink.fillStyle = style("--rule");
      ink.fillRect(x, 0, 1, heads.height);
      ink.fillStyle = style("--faint");
      if (x < width() - 50) ink.fillText(`${s.toFixed(digits)} s`, x + 3, AXIS / 2);
    }
  }
  function draw(): void {
    if (!canvas.isConnected || !width()) return;
    const scale = devicePixelRatio || 1;
    canvas.width = width() * scale;
    canvas.height = heads.height * scale;
    canvas.style.width = `${width()}px`;
    canvas.style.height = `${heads.height}px`;
    const ink = canvas.getContext("2d")!;
    ink.scale(scale, scale);
    ink.font = FONT;
    ink.textBaseline = "middle";
    drawAxis(ink);
    ink.fillStyle = style("--warn") + "3a";
    for (const m of marks) if (m.to >= from && m.from <= to) ink.fillRect(xOf(m.from), AXIS, Math.max(2, xOf(m.to) - xOf(m.from)), heads.height - AXIS);
    for (const head of heads.of) { ink.fillStyle = style("--ink"); ink.font = `600 ${FONT}`; ink.fillText(head.text, 2, head.y + LABEL / 2); }
    ink.font = FONT;
    t.lanes.forEach((_, l) => drawLane(ink, l));
    if (pressed !== null && drag !== null) { ink.fillStyle = style("--link") + "40"; ink.fillRect(Math.min(pressed, drag), 0, Math.abs(drag - pressed), heads.height); }
    say();
  }
  function say(): void {
    const digits = Math.max(3, Math.min(9, 2 - Math.floor(Math.log10(to - from)))), seen = `${from.toFixed(digits)} to ${to.toFixed(digits)} s of the recording`;
    if (!at) { words.textContent = near() ? `${seen}: each span` : `${seen}: spans that are too near to be told apart are one block`; return; }
    const v = view(), lane = v.lanes[at.lane], n = lane.count[at.at];
    words.textContent = `${clean(t.lanes[at.lane].title)}: ${n > 1 ? `${plural(n, "span")}, the longest ` : ""}${nameOf(v, at.lane, at.at)}, `
      + `at ${startOf(v, at.lane, at.at).toFixed(6)} s for ${ns(lane.us[at.at] * 1e3)}`;
  }
  function find(event: MouseEvent): Found | null {
    const box = canvas.getBoundingClientRect(), s = sOf(event.clientX - box.left), y = event.clientY - box.top;
    const l = heads.y.findIndex((top) => y >= top && y < top + LANE), v = view();
    if (l < 0) return null;
    const slack = (2 / width()) * (to - from);
    for (let i = firstAfter(v, l, s - slack); i < v.lanes[l].start_us.length && startOf(v, l, i) <= s + slack; i++)
      if (startOf(v, l, i) + v.lanes[l].us[i] / 1e6 >= s - slack) return { lane: l, at: i };
    return null;
  }
  function walk(by: number): void {
    const v = view(), l = at?.lane ?? 0, i = at ? at.at + by : firstAfter(v, l, (from + to) / 2);
    if (i < 0 || i >= v.lanes[l].start_us.length) return;
    const start = startOf(v, l, i), length = to - from;
    if (start < from || start > to) go(start - length / 2, start + length / 2);
    at = { lane: l, at: i };
    draw();
  }
  function key(event: KeyboardEvent): void {
    const length = to - from, middle = (from + to) / 2, beside = (by: number) => {
      at = { lane: Math.min(t.lanes.length - 1, Math.max(0, (at?.lane ?? 0) + by)), at: 0 };
      at.at = firstAfter(view(), at.lane, middle);
      draw();
    };
    if (event.key === "ArrowLeft") event.shiftKey ? walk(-1) : go(from - length / 4, to - length / 4);
    else if (event.key === "ArrowRight") event.shiftKey ? walk(1) : go(from + length / 4, to + length / 4);
    else if (event.key === "ArrowUp") beside(-1);
    else if (event.key === "ArrowDown") beside(1);
    else if (event.key === "+" || event.key === "=") go(middle - length / 4, middle + length / 4);
    else if (event.key === "-") go(middle - length, middle + length);
    else if (event.key === "Escape") go(whole.from_s, whole.to_s);
    else return;
    event.preventDefault();
  }
  const x = (event: MouseEvent) => event.clientX - canvas.getBoundingClientRect().left;
  canvas.addEventListener("mousedown", (e) => { pressed = x(e); });
  canvas.addEventListener("mousemove", (e) => {
    if (pressed !== null && e.buttons) drag = x(e);
    else { pressed = drag = null; at = find(e); }
    draw();
  });
  canvas.addEventListener("mouseup", () => {
    const a = pressed, b = drag;
    pressed = drag = null;
    if (a !== null && b !== null && Math.abs(b - a) > 4) go(sOf(Math.min(a, b)), sOf(Math.max(a, b)));
  });
  canvas.addEventListener("click", (e) => { at = find(e); draw(); });
  canvas.addEventListener("dblclick", () => go(whole.from_s, whole.to_s));
  canvas.addEventListener("keydown", key);
  onTheme(draw);
  new ResizeObserver(draw).observe(place);
  const button = (text: string, v: TimelineView) => h("button", { type: "button", on: { click: () => go(v.from_s, v.to_s) } }, text);
  const zoom = (text: string, by: number) => h("button", { type: "button", on: { click: () => {
    const middle = (from + to) / 2, half = ((to - from) * by) / 2;
    go(middle - half, middle + half);
  } } }, text);
  return [h("div", { class: "row", role: "group", "aria-label": "stretch of time" }, button("all of it", whole), moment && button(marks.length ? "around the incident" : "a moment", moment),
      zoom("closer", 0.5), zoom("farther", 2)),
    words, place,
    note(`${count(t.lanes.reduce((sum, l) => sum + l.spans, 0))} spans. eacgm export FILE writes all of them for ui.perfetto.dev.`,
      marks.length ? " Shaded is the time of incidents." : "")];
}

/** Where each lane is drawn, and above those of a process its number. */
function lanesWithHeads(t: Timeline): { y: number[]; of: { y: number; text: string }[]; height: number } {
  const y: number[] = [], of: { y: number; text: string }[] = [];
  let at = AXIS, pid: number | null = null;
  for (const lane of t.lanes) {
    if (lane.pid !== pid) { of.push({ y: at + 4, text: `process ${lane.pid}` }); at += LABEL + 6; pid = lane.pid; }
    y.push(at);
    at += LANE;
  }
  return { y, of, height: at + 4 };
}
