// anomalies.ts - what the detector of an agent sees now. "#anomalies/torch" is a layer.
import type { Json } from "../data";
import { add, clear, h, note, renew, section } from "../dom";
import { count } from "../format";
import { axes2, judgedCharts } from "../judged";
import { fragment } from "../tabs";
import { get, type Live } from "./get";
import { anomalyTable } from "./incidents";

export function anomalies(): Live {
  const box = h("div"), place = h("div"), layers = h("div", { class: "row", role: "group", "aria-label": "layer" }), odd = h("div");
  const choice = axes2(() => { shown = ""; void refresh(); });
  let shown = "", of = "";
  add(box, [layers, choice.box, place, odd]);

  async function refresh(): Promise<void> {
    const [all, told] = await Promise.all([get("detector"), get("incidents")]), list: Json[] = all.layers;
    const layer = list.find((l) => l.layer === fragment().rest)?.layer ?? list.slice().sort((a, b) => b.alarmed - a.alarmed)[0]?.layer;
    renew(layers, list.map((l) => h("a", { class: "button", href: `#anomalies/${l.layer}`, "aria-current": l.layer === layer ? "true" : undefined }, `${l.layer} (${count(l.alarmed)} of ${count(l.rows)})`)));
    choice.box.hidden = !layer;
    if (!layer) { add(clear(place), [note(all.judges ? "Nothing was judged so far." : "Nothing is judged: start the agent with --detect.")]); return; }
    const axes = layer === of && choice.x.value !== "" ? `?x=${choice.x.value}&y=${choice.y.value}` : "", got = await get(`detector/${layer}${axes}`);
    const now = JSON.stringify([layer, got.x, got.y, got.rows[got.rows.length - 1], got.ellipses.length]);
    if (layer !== of) choice.fill(got.features, got.x, got.y);
    of = layer;
    if (now === shown || choice.box.contains(document.activeElement) && shown) return;
    shown = now;
    add(clear(place), judgedCharts(got));
    renew(odd, [told.anomalies.length ? section("Anomalies", anomalyTable(told.anomalies, told.now_ns)) : null]);
  }
  return { box, refresh };
}
