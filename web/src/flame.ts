// flame.ts - a flame graph, from the root at the top down, on a canvas. A click or Enter zooms to a
// frame, arrows walk, Escape goes back; what is under the pointer is said in words below it.
import { clean, h, onTheme, style } from "./dom";
import type { Flame } from "./data";
import { percent, value } from "./format";

/** In the order of the program's enum calltree_kind. */
const KINDS = ["native", "python", "kernel", "operator", "gpu", "other"];
const ROW = 18, MOST_ROWS = 120, FONT = "12px system-ui, sans-serif";

interface Box { frame: number; row: number; x: number; width: number }

export function flameGraph(f: Flame): HTMLElement {
  const children: number[][] = f.parent.map(() => []);
  for (let i = 1; i < f.parent.length; i++) children[f.parent[i]].push(i);
  for (const list of children) list.sort((a, b) => (f.names[f.name[a]] < f.names[f.name[b]] ? -1 : 1));
  let root = 0, at = 0, wanted = "", boxes: Box[] = [];
  const canvas = h("canvas", { class: "flame", tabindex: "0", role: "img", "aria-label":
    `${f.title}: a flame graph; arrows walk, Enter zooms, Escape goes back` }) as HTMLCanvasElement;
  const words = h("p", { class: "flame-words", "aria-live": "polite" });
  const nameOf = (i: number) => i ? clean(f.names[f.name[i]]) : "all";

  function path(to: number): number[] {
    const up: number[] = [];
    for (let i = to; i; i = f.parent[i]) up.unshift(i);
    return [0, ...up];
  }
  function lay(width: number): void {
    boxes = [];
    const above = path(root);
    above.forEach((frame, row) => boxes.push({ frame, row, x: 0, width }));
    const under: Box[] = [{ frame: root, row: above.length - 1, x: 0, width }];
    for (let box = under.pop(); box; box = under.pop()) {
      let x = box.x;
      for (const frame of children[box.frame]) {
        const part = (box.width * f.value[frame]) / (f.value[box.frame] || 1);
        if (part >= 0.5 && box.row + 1 < MOST_ROWS) {
          const made = { frame, row: box.row + 1, x, width: part };
          boxes.push(made);
          under.push(made);
        }
        x += part;
      }
    }
  }
  function draw(): void {
    if (!canvas.isConnected) return;
    const width = canvas.parentElement!.clientWidth, scale = devicePixelRatio || 1;
    if (!width) return;
    lay(width);
    const rows = boxes.reduce((most, b) => Math.max(most, b.row), 0) + 1;
    canvas.width = width * scale;
    canvas.height = rows * ROW * scale;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${rows * ROW}px`;
    const ink = canvas.getContext("2d")!;
    ink.scale(scale, scale);
    ink.font = FONT;
    ink.textBaseline = "middle";
    const colours = KINDS.map((k) => style(`--flame-${k}`)), text = style("--flame-ink");
    for (const b of boxes) {
      const name = nameOf(b.frame), hit = wanted !== "" && name.toLowerCase().includes(wanted);
      ink.fillStyle = hit ? style("--hit") : colours[f.is[b.frame]] ?? colours[5];
      ink.globalAlpha = wanted && !hit ? 0.35 : 1;
      ink.fillRect(b.x, b.row * ROW, Math.max(0.5, b.width - 0.6), ROW - 1);
      ink.globalAlpha = 1;
      if (b.frame === at) {
        ink.strokeStyle = style("--ink");
        ink.lineWidth = 1.5;
        ink.strokeRect(b.x + 0.75, b.row * ROW + 0.75, Math.max(1, b.width - 2), ROW - 2.5);
      }
      const room = Math.floor((b.width - 6) / 6.6);
      if (room < 3) continue;
      ink.fillStyle = text;
      ink.fillText(name.length > room ? name.slice(0, room - 1) + "…" : name, b.x + 3, b.row * ROW + ROW / 2);
    }
    say();
  }
  function say(): void {
    const share = f.total ? f.value[at] / f.total : 0;
    words.textContent = `${nameOf(at)}: ${value(f.value[at], f.unit)}, ${percent(share)} of all`
      + (at ? `, ${KINDS[f.is[at]] ?? ""}` : "");
  }
  function go(frame: number): void {
    at = frame;
    draw();
  }
  function zoom(frame: number): void {
    root = at = frame;
    draw();
  }
  function find(event: MouseEvent): Box | undefined {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left;
    const row = Math.floor((event.clientY - box.top) / ROW);
    return boxes.find((b) => b.row === row && x >= b.x && x < b.x + b.width);
  }
  function key(event: KeyboardEvent): void {
    const under = children[at].filter((c) => boxes.some((b) => b.frame === c));
    const beside = at ? children[f.parent[at]].filter((c) => boxes.some((b) => b.frame === c)) : [];
    const place = beside.indexOf(at);
    const largest = under.slice().sort((a, b) => f.value[b] - f.value[a])[0];
    if (event.key === "ArrowDown" && largest !== undefined) go(largest);
    else if (event.key === "ArrowUp") go(f.parent[at] ?? 0);
    else if (event.key === "ArrowRight" && place >= 0 && place + 1 < beside.length) go(beside[place + 1]);
    else if (event.key === "ArrowLeft" && place > 0) go(beside[place - 1]);
    else if (event.key === "Enter") zoom(at);
    else if (event.key === "Escape") zoom(0);
    else return;
    event.preventDefault();
  }
  canvas.addEventListener("mousemove", (e) => { const b = find(e); if (b && b.frame !== at) go(b.frame); });
  canvas.addEventListener("click", (e) => { const b = find(e); if (b) zoom(b.frame); });
  canvas.addEventListener("keydown", key);
  onTheme(draw);
  const place = h("div", { class: "flame-place" }, canvas);
  new ResizeObserver(draw).observe(place);
  return h("div", { class: "flame-graph" },
    h("div", { class: "row" },
      h("label", { class: "filter" }, "search ", h("input", { type: "search", spellcheck: "false", on: {
        input: (e: Event) => { wanted = (e.target as HTMLInputElement).value.toLowerCase(); draw(); } } })),
      h("button", { type: "button", on: { click: () => zoom(0) } }, "show all")),
    words, place, legend(f));
}

function legend(f: Flame): HTMLElement {
  const used = new Set(f.is.slice(1));
  return h("p", { class: "note" }, ...KINDS.map((kind, i) => used.has(i)
    && h("span", { class: "key" }, h("span", { class: `swatch flame-${kind}`, "aria-hidden": "true" }), kind)));
}
