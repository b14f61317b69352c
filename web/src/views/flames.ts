// flames.ts - flame graphs of all that the recording has stacks of, one at a time.
import type { Flame } from "../data";
import { clear, h, note, type Child } from "../dom";
import { flameGraph } from "../flame";
import { value } from "../format";

export function flames(all: Flame[]): Child[] {
  if (!all.length) return [note("The recording has no samples: record with --profile.")];
  const place = h("div");
  const buttons = all.map((f, i) => h("button", { type: "button", "aria-pressed": "false", on: { click: () => show(i) } },
    `${f.kind} (${value(f.total, f.unit)})`));
  function show(i: number): void {
    buttons.forEach((b, k) => b.setAttribute("aria-pressed", String(k === i)));
    clear(place).append(h("h2", null, all[i].title), flameGraph(all[i]));
  }
  show(0);
  return [h("div", { class: "row", role: "group", "aria-label": "which" }, ...buttons), place];
}
