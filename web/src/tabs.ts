// tabs.ts - the views of the page: one is seen at a time, named by the address's fragment, so that
// links and the browser's own keys work. 1 to 9, and 0 for the tenth, choose one, "/" goes to its filter.
import { add, h, type Child } from "./dom";

export interface View {
  id: string;
  title: string;
  make: () => Child[];
  at?: () => string; // the fragment that leads to it; its id unless told
}

/** The address's fragment in two: "#incidents/12" is the view "incidents", and "12" of it. */
export function fragment(): { view: string; rest: string } {
  const [view, ...rest] = location.hash.slice(1).split("/");
  return { view, rest: rest.join("/") };
}

export function tabs(views: View[]): { nav: HTMLElement; main: HTMLElement; remake: (id?: string) => void } {
  const made = new Map<string, HTMLElement>();
  const place = (v: View) => v.at?.() ?? v.id;
  const links = views.map((v) => h("a", { href: `#${place(v)}`, id: `tab-${v.id}` }, v.title));
  const nav = h("nav", { "aria-label": "views" }, ...links);
  const main = h("main", { id: "view", tabindex: "-1" });
  const wanted = () => views.find((v) => v.id === fragment().view) ?? views[0];

  function show(): void {
    const view = wanted();
    let panel = made.get(view.id);
    if (!panel) {
      panel = h("div", { class: "view", id: `view-${view.id}` }, h("h1", { class: "unseen" }, view.title));
      add(panel, view.make());
      made.set(view.id, panel);
    }
    for (const child of Array.from(main.children)) if (child !== panel) child.remove();
    if (panel.parentElement !== main) main.append(panel);
    links.forEach((link, i) => link.setAttribute("href", `#${place(views[i])}`));
    links.forEach((link, i) => views[i] === view ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current"));
    const at = links[views.indexOf(view)];
    nav.scrollLeft = at.offsetLeft - (nav.clientWidth - at.offsetWidth) / 2; // in the middle, where they do not all fit
  }
  function key(event: KeyboardEvent): void {
    const on = event.target as HTMLElement;
    if (event.ctrlKey || event.altKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(on.tagName)) return;
    const view = /^[0-9]$/.test(event.key) ? views[(Number(event.key) + 9) % 10] : undefined;
    if (view) location.hash = place(view);
    else if (event.key === "/") {
      main.querySelector<HTMLInputElement>("input[type=search]")?.focus();
      event.preventDefault();
    }
  }
  addEventListener("hashchange", () => { show(); scrollTo(0, 0); });
  addEventListener("keydown", key);
  queueMicrotask(show);
  return { nav, main, remake: (id) => { if (id) made.delete(id); else made.clear(); show(); } };
}
