// chart.ts - lines over time, by uPlot. Each chart says its figures as text as well, and is drawn
// when it comes into sight: a page may have hundreds.
import uPlot from "uplot";
import { clean, h, onTheme, style } from "./dom";
import { moment } from "./format";

export interface Line {
  label: string;
  values: (number | null)[];
  faint?: boolean;
  filled?: boolean;
  points?: boolean;
}

export interface ChartOptions {
  title: string;
  said?: string; // the figures as text
  format: (v: number) => string;
  height?: number;
  xLabel?: (v: number) => string;
  marks?: { from: number; to: number; label: string }[]; // spans that are shaded
  zero?: boolean; // the axis begins at 0
  time?: boolean; // x is seconds of the Unix epoch
  pick?: (index: number) => void; // a click on a point
  select?: (from: number, to: number) => void; // a stretch that was drawn over, instead of seeing it closer
}

export interface Chart {
  element: HTMLElement;
  update(x: number[], lines: Line[], said?: string): void;
}

export const colour = (i: number): string => style(`--c${i % 8}`);

function options(o: ChartOptions, lines: Line[], width: number): uPlot.Options {
  const axis = { stroke: style("--faint"), grid: { stroke: style("--rule"), width: 1 },
                 ticks: { stroke: style("--rule"), width: 1 }, font: "12px system-ui, sans-serif" };
  return {
    width, height: o.height ?? 180,
    legend: { show: lines.length > 1 },
    cursor: { y: false, drag: { x: true, y: false, setScale: !o.select } },
    scales: { x: { time: o.time === true }, y: { range: (_u, lo, hi) => range(lo, hi, o.zero !== false) } },
    axes: [
      o.time ? { ...axis, size: 44, values: (_u, ticks, _axis, _space, step) => times(ticks, step) } : { ...axis, size: 30, values: (_u, ticks) => ticks.map(o.xLabel ?? ((v) => `${+v.toPrecision(6)} s`)) },
      { ...axis, size: 84, values: (_u, ticks) => ticks.map(o.format) },
    ],
    series: [
      { label: "at", value: (_u, v) => v === null ? "–" : (o.xLabel ?? (o.time ? moment : (s) => `${s.toFixed(2)} s`))(v) },
      ...lines.map((line, i) => ({
        label: clean(line.label),
        stroke: line.faint ? style("--faint") : colour(i),
        fill: line.filled ? colour(i) + "33" : undefined,
        width: line.faint ? 1 : 1.5,
        spanGaps: true, // values come less often than there are points
        points: { show: line.points ?? (line.values.length < 3) },
        value: (_u: uPlot, v: number | null) => v === null || v === undefined ? "–" : o.format(v),
      })),
    ],
    hooks: { drawClear: [(u) => shade(u, o.marks ?? [])], setSelect: [(u) => selected(u, o)] },
  };
}

/** Times of ticks, by the reader's clock; the day is said once. */
function times(ticks: number[], step: number): string[] {
  let before = "";
  return ticks.map((tick) => {
    const at = new Date(tick * 1000), day = at.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
    const said = day === before ? "" : day;
    before = day;
    return step >= 86400 ? day : `${at.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: step < 60 ? "2-digit" : undefined })}\n${said}`;
  });
}

function range(lo: number | null, hi: number | null, zero: boolean): [number, number] {
  if (lo === null || hi === null || !isFinite(lo) || !isFinite(hi)) return [0, 1];
  const least = zero ? Math.min(0, lo) : lo;
  return [least, hi > least ? hi + 0.08 * (hi - least) : least + (Math.abs(least) || 1)];
}

function selected(u: uPlot, o: ChartOptions): void {
  const { left, width } = u.select;
  if (o.select && width > 3) o.select(u.posToVal(left, "x"), u.posToVal(left + width, "x"));
}

function shade(u: uPlot, marks: { from: number; to: number }[]): void {
  u.ctx.save();
  u.ctx.fillStyle = style("--warn") + "2e";
  for (const mark of marks) {
    const left = Math.max(u.bbox.left, u.valToPos(mark.from, "x", true));
    const right = Math.min(u.bbox.left + u.bbox.width, u.valToPos(mark.to, "x", true));
    if (right >= left) u.ctx.fillRect(left, u.bbox.top, Math.max(2, right - left), u.bbox.height);
  }
  u.ctx.restore();
}

export function chart(o: ChartOptions, x: number[], lines: Line[]): Chart {
  const place = h("div", { class: "plot" });
  place.style.minHeight = `${o.height ?? 180}px`;
  const said = h("span", { class: "said" }, o.said ?? "");
  const element = h("figure", { class: "chart" },
    h("figcaption", null, h("strong", null, o.title), " ", said), place);
  let plot: uPlot | null = null, seen = false, drawn = 0;
  const width = () => Math.max(200, place.clientWidth);
  function draw(): void {
    if (!seen || !place.isConnected) return;
    plot?.destroy();
    drawn = width();
    plot = new uPlot(options(o, lines, drawn), [x, ...lines.map((l) => l.values)] as uPlot.AlignedData, place);
    if (o.pick) plot.over.addEventListener("click", () => {
      const at = plot?.cursor.idx;
      if (at !== null && at !== undefined) o.pick!(at);
    });
  }
  new IntersectionObserver((entries, watch) => {
    if (!entries.some((e) => e.isIntersecting)) return;
    watch.disconnect();
    seen = true;
    draw();
  }, { rootMargin: "200px" }).observe(place);
  new ResizeObserver(() => {
    if (plot && Math.abs(width() - drawn) > 1) plot.setSize({ width: drawn = width(), height: o.height ?? 180 });
  }).observe(place);
  onTheme(draw);
  return {
    element,
    update(newX, newLines, words) {
      const alike = newLines.length === lines.length && newLines.every((l, i) => l.label === lines[i].label);
      x = newX;
      lines = newLines;
      if (words !== undefined) said.textContent = clean(words);
      if (plot && alike) plot.setData([x, ...lines.map((l) => l.values)] as uPlot.AlignedData);
      else draw();
    },
  };
}
