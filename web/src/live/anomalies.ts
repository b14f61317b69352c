// anomalies.ts - what the detector sees: how unlikely each window or step is, over time, and where it
// lies among the normals of the mixture that it is judged by.
import { chart } from "../chart";
import type { Json } from "../data";
import { add, clear, h, note, onTheme, section, style } from "../dom";
import { count, number, plural } from "../format";
import { fragment } from "../tabs";
import { get, type Live } from "./get";
import { anomalyTable } from "./incidents";

const HEIGHT = 360, PAD = 44, FONT = "12px system-ui, sans-serif";
const DEVIATIONS = [1, 2]; // of the ellipses that are drawn
const START = 0, ALARMED = 4, SCORE = 5, X = 6, Y = 7; // of a row: docs/api.yaml
const LEAST_WEIGHT = 0.01;

const known = (r: Json): boolean => r[X] !== null && r[Y] !== null;

/** Half axes and the angle of the larger one. */
function axes(e: Json): { a: number; b: number; turn: number } {
  const half = (e.xx + e.yy) / 2, far = Math.hypot((e.xx - e.yy) / 2, e.xy);
  return { a: Math.sqrt(Math.max(0, half + far)), b: Math.sqrt(Math.max(0, half - far)), turn: Math.atan2(2 * e.xy, e.xx - e.yy) / 2 };
}

/** The ends of an axis: what is drawn, without the far ends of a mixture that nothing is near. */
function range(values: number[]): [number, number] {
  const lo = Math.min(...values), hi = Math.max(...values), pad = 0.06 * (hi - lo) || 1;
  return [lo - pad, hi + pad];
}

function scatter(got: Json): HTMLElement {
  const rows: Json[] = got.rows.filter(known), ellipses: Json[] = got.ellipses.filter((e: Json) => e.weight >= LEAST_WEIGHT);
  const fx = got.features[got.x], fy = got.features[got.y], place = h("div", { class: "flame-place" });
  const canvas = h("canvas", { role: "img", "aria-label": `${plural(rows.length, "row")} by ${fx.name} and ${fy.name}, ${rows.filter((r) => r[ALARMED]).length} of them alarmed, `
    + `and ${plural(ellipses.length, "normal")} of the mixture` }) as HTMLCanvasElement;
  place.append(canvas);
  const edge = (m: "x" | "y", v: "xx" | "yy") => ellipses.flatMap((e) => [e[m] - 2 * Math.sqrt(e[v]), e[m] + 2 * Math.sqrt(e[v])]);
  const [x0, x1] = range([...rows.map((r) => r[X]), ...edge("x", "xx")]), [y0, y1] = range([...rows.map((r) => r[Y]), ...edge("y", "yy")]);

  function draw(): void {
    const width = place.clientWidth, scale = devicePixelRatio || 1;
    if (!canvas.isConnected || !width) return;
    canvas.width = width * scale;
    canvas.height = HEIGHT * scale;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${HEIGHT}px`;
    const ink = canvas.getContext("2d")!, sx = (width - PAD - 8) / (x1 - x0), sy = (HEIGHT - PAD) / (y1 - y0);
    const px = (v: number) => PAD + (v - x0) * sx, py = (v: number) => HEIGHT - PAD + 8 - (v - y0) * sy;
    ink.scale(scale, scale);
    ink.font = FONT;
    ink.fillStyle = ink.strokeStyle = style("--faint");
    ink.strokeRect(PAD, 8, width - PAD - 8, HEIGHT - PAD);
    ink.textAlign = "center";
    ink.fillText(`${fx.name} (${fx.unit})`, PAD + (width - PAD) / 2, HEIGHT - 6);
    for (const [v, at] of [[x0, PAD + 18], [x1, width - 28]]) ink.fillText(number(+v.toPrecision(3)), at, HEIGHT - PAD + 24);
    ink.textAlign = "right";
    for (const [v, at] of [[y0, HEIGHT - PAD + 4], [y1, 20]]) ink.fillText(number(+v.toPrecision(3)), PAD - 4, at);
    ink.save();
    ink.translate(12, HEIGHT / 2);
    ink.rotate(-Math.PI / 2);
    ink.textAlign = "center";
    ink.fillText(`${fy.name} (${fy.unit})`, 0, 0);
    ink.restore();
    ink.save();
    ink.beginPath();
    ink.rect(PAD, 8, width - PAD - 8, HEIGHT - PAD);
    ink.clip();
    for (const e of ellipses) for (const n of DEVIATIONS) {
      const { a, b, turn } = axes(e);
      ink.beginPath();
      for (let i = 0; i <= 64; i++) { // each point by itself: the axes have different scales
        const t = (i / 64) * 2 * Math.PI, u = n * a * Math.cos(t), v = n * b * Math.sin(t);
        const x = e.x + u * Math.cos(turn) - v * Math.sin(turn), y = e.y + u * Math.sin(turn) + v * Math.cos(turn);
        i ? ink.lineTo(px(x), py(y)) : ink.moveTo(px(x), py(y));
      }
      ink.strokeStyle = style("--c2");
      ink.globalAlpha = 0.35 + 0.65 * Math.min(1, e.weight * 2);
      ink.stroke();
    }
    for (const alarmed of [false, true]) {
      ink.fillStyle = style(alarmed ? "--warn" : "--c0");
      ink.globalAlpha = alarmed ? 1 : 0.5;
      for (const r of rows) if (r[ALARMED] === alarmed) { ink.beginPath(); ink.arc(px(r[X]), py(r[Y]), alarmed ? 4 : 2.5, 0, 7); ink.fill(); }
    }
    ink.restore();
  }
  new ResizeObserver(draw).observe(place);
  onTheme(draw);
  queueMicrotask(draw);
  return place;
}

function scores(got: Json): HTMLElement | null {
  const rows: Json[] = got.rows.filter((r: Json) => r[SCORE] !== null), last = got.rows[got.rows.length - 1]?.[START] ?? 0;
  if (!rows.length) return null;
  const line = (alarmed: boolean | null) => rows.map((r) => alarmed === null || r[ALARMED] === alarmed ? r[SCORE] : null);
  return chart({ title: "Scores", said: "how unlikely each is: -log of the mixture's density; points are of anomalies", zero: false, height: 160, format: (v) => number(+v.toPrecision(3)),
    xLabel: (v) => v ? `${Math.round(v)} s` : "now" }, rows.map((r) => (r[START] - last) / 1e9),
    [{ label: "score", values: line(null) }, { label: "of an anomaly", values: line(true), points: true }]).element;
}

export function anomalies(): Live {
  const box = h("div"), place = h("div"), layers = h("div", { class: "row", role: "group", "aria-label": "layer" }), odd = h("div");
  const axis = (name: string) => h("select", { "aria-label": name, on: { change: () => { shown = ""; void refresh(); } } }) as HTMLSelectElement;
  const x = axis("across"), y = axis("up"), choice = h("div", { class: "row" }, h("label", { class: "filter" }, "across ", x), h("label", { class: "filter" }, "up ", y));
  let shown = "", of = "";
  add(box, [layers, choice, place, odd]);

  function choose(got: Json): void {
    for (const [select, at] of [[x, got.x], [y, got.y]] as [HTMLSelectElement, number][])
      clear(select).append(...got.features.map((f: Json, i: number) => h("option", { value: i, selected: i === at, title: f.what }, `${f.name}`)));
  }
  async function refresh(): Promise<void> {
    const [all, told] = await Promise.all([get("detector"), get("incidents")]), list: Json[] = all.layers;
    const layer = list.find((l) => l.layer === fragment().rest)?.layer ?? list.slice().sort((a, b) => b.alarmed - a.alarmed)[0]?.layer;
    clear(layers).append(...list.map((l) => h("a", { class: "button", href: `#anomalies/${l.layer}`, "aria-current": l.layer === layer ? "true" : undefined }, `${l.layer} (${count(l.alarmed)} of ${count(l.rows)})`)));
    choice.hidden = !layer;
    if (!layer) { add(clear(place), [note(all.judges ? "Nothing was judged so far." : "Nothing is judged: start the agent with --detect.")]); return; }
    const axes = layer === of && x.value !== "" ? `?x=${x.value}&y=${y.value}` : "", got = await get(`detector/${layer}${axes}`);
    const now = JSON.stringify([layer, got.x, got.y, got.rows[got.rows.length - 1], got.ellipses.length]);
    if (layer !== of) choose(got);
    of = layer;
    if (now === shown || choice.contains(document.activeElement) && shown) return;
    shown = now;
    add(clear(place), [scores(got), section(`By ${got.features[got.x].name} and ${got.features[got.y].name}`,
      note(`${got.features[got.x].name}: ${got.features[got.x].what}. ${got.features[got.y].name}: ${got.features[got.y].what}.`), scatter(got),
      note(got.ellipses.length ? "Ellipses are the normals of the mixture, at one and two standard deviations; larger points are of anomalies." : "No mixture of these two features: what is normal is being learned, or they do not tell it apart."))]);
    add(clear(odd), [told.anomalies.length ? section("Anomalies", anomalyTable(told.anomalies, told.now_ns)) : null]);
  }
  return { box, refresh };
}
