// table.ts - a table that is sorted by its heads and filtered by a text, both by keyboard too. Of
// long ones so many rows are drawn, and more when they are asked for.
import { h, clear } from "./dom";
import { count } from "./format";

export interface Column<Row> {
  head: string;
  title?: string;
  value: (row: Row) => number | string | null | undefined;
  text?: (row: Row) => string;
  left?: boolean; // words
}

export interface TableOptions {
  filter?: string; // the label of a field that filters
  sort?: number; // the column that it is sorted by at first, the largest first
  step?: number; // rows that are drawn at first
  name: string; // what it is of, for who does not see it
}

const STEP = 100;

export function table<Row>(rows: Row[], columns: Column<Row>[], o: TableOptions): HTMLElement {
  let sorted = o.sort, down = true, shown = o.step ?? STEP, wanted = "";
  const body = h("tbody"), heads = h("tr"), said = h("p", { class: "note", "aria-live": "polite" });
  const more = h("button", { type: "button", on: { click: () => { shown += 10 * STEP; draw(); } } }, "show more");

  const textOf = (c: Column<Row>, row: Row) => c.text ? c.text(row) : String(c.value(row) ?? "–");
  const order = (a: Row, b: Row) => {
    const x = columns[sorted!].value(a), y = columns[sorted!].value(b);
    if (x === y) return 0;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return (x < y ? -1 : 1) * (down ? -1 : 1);
  };
  function chosen(): Row[] {
    const found = wanted
      ? rows.filter((r) => columns.some((c) => c.left && textOf(c, r).toLowerCase().includes(wanted)))
      : rows.slice();
    return sorted === undefined ? found : found.sort(order);
  }
  function draw(): void {
    const found = chosen();
    clear(body).append(...found.slice(0, shown).map((row) => h("tr", null, ...columns.map((c) =>
      h("td", { class: c.left ? "left" : undefined, "data-head": c.head }, textOf(c, row))))));
    more.hidden = found.length <= shown;
    said.textContent = found.length > shown || wanted
      ? `${count(Math.min(shown, found.length))} of ${count(rows.length)} rows` : "";
    Array.from(heads.children).forEach((th, i) =>
      th.setAttribute("aria-sort", i !== sorted ? "none" : down ? "descending" : "ascending"));
  }
  columns.forEach((c, i) => heads.append(h("th", { class: c.left ? "left" : undefined, scope: "col" },
    h("button", { type: "button", title: c.title, on: { click: () => {
      down = i === sorted ? !down : !c.left;
      sorted = i;
      draw();
    } } }, c.head))));
  draw();
  return h("div", { class: "table" },
    o.filter && h("label", { class: "filter" }, o.filter, " ",
      h("input", { type: "search", autocomplete: "off", spellcheck: "false", on: { input: (e: Event) => {
        wanted = (e.target as HTMLInputElement).value.toLowerCase();
        draw();
      } } })),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": o.name },
      h("table", null, h("caption", { class: "unseen" }, o.name), h("thead", null, heads), body)),
    said, more);
}
