// anomalies.ts - of a recording in which anomalies were told: the detector's rows, over time and by two
// features, judged anew when the page was made.
import type { Json, JudgedLayer } from "../data";
import { add, clear, h, note, type Child } from "../dom";
import { count } from "../format";
import { axes2, byTwo, judgedCharts } from "../judged";
import { anomaliesOf } from "./incidents";
import type { Span } from "./steps";

const alarmed = (l: JudgedLayer): number => l.rows.filter((r) => r[4]).length;

export function anomalies(report: Json, layers: JudgedLayer[], spans: Span[]): Child[] {
  const told = anomaliesOf(report), place = h("div");
  if (!layers.length) return [note("Nothing of it can be judged again."), told];
  let shown = layers.slice().sort((a, b) => alarmed(b) - alarmed(a))[0];
  const choice = axes2(() => draw(Number(choice.x.value), Number(choice.y.value)));
  const buttons = layers.map((l) => h("button", { type: "button", on: { click: () => choose(l) } }, `${l.layer} (${count(alarmed(l))} alarmed)`));
  function draw(x: number, y: number): void {
    const start_ns = report.recording?.start_monotonic_ns ?? 0;
    add(clear(place), judgedCharts({ ...byTwo(shown, x, y), start_ns, spans }, false));
  }
  function choose(l: JudgedLayer): void {
    shown = l;
    buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(layers[i] === l)));
    choice.fill(l.features, l.x, l.y);
    draw(l.x, l.y);
  }
  choose(shown);
  return [note("Judged again by its own beginning when this page was made, as eacgm detect does: what was told while it was recorded may differ. Shaded are incidents."),
    h("div", { class: "row", role: "group", "aria-label": "layer" }, ...buttons), choice.box, place, told];
}
