// bars.ts - shares of a whole as bars with words: readable without the colours.
import { h } from "./dom";
import { ns, percent } from "./format";

export interface Bar {
  label: string;
  value: number;
  note?: string;
}

/** The largest first; what is below the least share is one bar. */
export function bars(rows: Bar[], whole: number, format = ns, least = 0.005): HTMLElement {
  const sorted = rows.filter((r) => r.value > 0).sort((a, b) => b.value - a.value);
  const shown = sorted.filter((r) => r.value >= least * whole);
  const rest = sorted.slice(shown.length).reduce((sum, r) => sum + r.value, 0);
  if (rest > 0) shown.push({ label: "anything else", value: rest });
  return h("ul", { class: "bars" }, ...shown.map((row, i) => {
    const share = whole > 0 ? row.value / whole : 0;
    const bar = h("span", { class: `bar c${i % 8}`, "aria-hidden": "true" });
    bar.style.width = `${Math.max(0.3, Math.min(100, 100 * share))}%`;
    return h("li", null,
      h("span", { class: "share" }, percent(share)),
      h("span", { class: "amount" }, format(row.value)),
      h("span", { class: "what" }, row.label, row.note && h("small", null, ` ${row.note}`)),
      h("span", { class: "track" }, bar));
  }));
}
