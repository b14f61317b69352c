// judged.ts - what a detector judged: how unlikely each window or step is, over time, and where it lies,
// by two features, among the normals of the mixture that it was judged by.
import { chart } from "./chart";
import type { Json, JudgedLayer } from "./data";
import { h, note, onTheme, section, style } from "./dom";
import { number, plural } from "./format";

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

/** latest: in seconds before the last row; else of the recording, from `start_ns` on. */
function scores(got: Json, latest: boolean): HTMLElement | null {
  const rows: Json[] = got.rows.filter((r: Json) => r[SCORE] !== null), zero = latest ? got.rows[got.rows.length - 1]?.[START] ?? 0 : got.start_ns;
  if (!rows.length) return null;
  const line = (alarmed: boolean | null) => rows.map((r) => alarmed === null || r[ALARMED] === alarmed ? r[SCORE] : null);
  return chart({ title: "Scores", said: "how unlikely each is: -log of the mixture's density; points are of anomalies", zero: false, height: 160, format: (v) => number(+v.toPrecision(3)),
    marks: got.spans, xLabel: (v) => v || !latest ? `${Math.round(v)} s` : "now" }, rows.map((r) => (r[START] - zero) / 1e9),
    [{ label: "score", values: line(null) }, { label: "of an anomaly", values: line(true), points: true }]).element;
}

/** Both, of an answer as docs/api.yaml has it. */
export function judgedCharts(got: Json, latest = true): (HTMLElement | null)[] {
  const fx = got.features[got.x], fy = got.features[got.y];
  return [scores(got, latest), section(`By ${fx.name} and ${fy.name}`, note(`${fx.name}: ${fx.what}. ${fy.name}: ${fy.what}.`), scatter(got),
    note(got.ellipses.length ? "Ellipses are the normals of the mixture, at one and two standard deviations; larger points are of anomalies."
      : "No mixture of these two features: what is normal is being learned, or they do not tell it apart."))];
}

/** Two fields that choose features. */
export function axes2(changed: () => void): { box: HTMLElement; x: HTMLSelectElement; y: HTMLSelectElement; fill: (features: Json[], x: number, y: number) => void } {
  const axis = (name: string) => h("select", { "aria-label": name, on: { change: changed } }) as HTMLSelectElement;
  const x = axis("across"), y = axis("up");
  return { x, y, box: h("div", { class: "row" }, h("label", { class: "filter" }, "across ", x), h("label", { class: "filter" }, "up ", y)),
    fill: (features, atX, atY) => {
      for (const [select, at] of [[x, atX], [y, atY]] as [HTMLSelectElement, number][])
        select.replaceChildren(...features.map((f, i) => h("option", { value: i, selected: i === at, title: f.what }, `${f.name}`)));
    } };
}

/** Of all features of a layer two, as an agent answers it. */
export function byTwo(l: JudgedLayer, x: number, y: number): Json {
  const m = l.mixture, d = m.columns.length, a = m.columns.indexOf(x), b = m.columns.indexOf(y);
  const at = (k: number, i: number, j: number) => m.covariances[(k * d + i) * d + j];
  return { layer: l.layer, features: l.features, x, y, rows: l.rows.map((r) => [...r.slice(0, 6), r[6][x], r[6][y]]),
    ellipses: a < 0 || b < 0 ? [] : m.weights.map((weight, k) => ({ weight, x: m.means[k * d + a], y: m.means[k * d + b], xx: at(k, a, a), xy: at(k, a, b), yy: at(k, b, b) })) };
}
