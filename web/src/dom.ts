// dom.ts - makes elements. Text only ever becomes text: nothing here, nor anywhere else in the
// page, writes markup.

export type Child = Node | string | number | null | undefined | false;

export interface Attributes {
  class?: string;
  on?: Record<string, (event: any) => void>;
  [name: string]: unknown;
}

export function h(tag: string, attributes?: Attributes | null, ...children: Child[]): HTMLElement {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "on")
      for (const [event, call] of Object.entries(value as object)) made.addEventListener(event, call);
    else if (value !== undefined && value !== false && value !== null)
      made.setAttribute(name, value === true ? "" : String(value));
  }
  add(made, children);
  return made;
}

// Controls, and what makes text run the other way: a name must not rearrange what stands beside it.
const OBEYED = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

export function clean(text: string): string {
  return text.replace(OBEYED, "?");
}

export function add(to: HTMLElement, children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    to.append(child instanceof Node ? child : document.createTextNode(clean(String(child))));
  }
}

export function clear(of: HTMLElement): HTMLElement {
  of.textContent = "";
  return of;
}

const FOCUSABLE = "a, button, input, select, summary, [tabindex]";

/** To be called before what is in an element goes. What it returns gives the focus, where it was in
 * there, to what leads to the same, is called the same or says the same by then, else to the first. */
export function holdFocus(of: HTMLElement): () => void {
  const had = document.activeElement;
  if (!had || had === of || !of.contains(had)) return () => undefined;
  const [href, label, text] = [had.getAttribute("href"), had.getAttribute("aria-label"), had.textContent];
  return () => {
    const now = Array.from(of.querySelectorAll<HTMLElement>(FOCUSABLE)), alike = now.filter((e) => e.tagName === had.tagName);
    (alike.find((e) => href && e.getAttribute("href") === href) ?? alike.find((e) => label && e.getAttribute("aria-label") === label)
      ?? alike.find((e) => e.textContent === text) ?? now[0])?.focus({ preventScroll: true });
  };
}

/** Puts these in the place of what is there; the focus stays. */
export function renew(of: HTMLElement, children: Child[]): void {
  const back = holdFocus(of);
  add(clear(of), children);
  back();
}

/** A value of the style sheet: "--ink". */
export function style(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A heading with what is under it. */
export function section(title: string, ...children: Child[]): HTMLElement {
  return h("section", null, h("h2", null, title), ...children);
}

export function note(...children: Child[]): HTMLElement {
  return h("p", { class: "note" }, ...children);
}

const themed: (() => void)[] = [];

/** Called when the colours change: what is drawn on a canvas has to be drawn anew. */
export function onTheme(call: () => void): void {
  themed.push(call);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => themed.forEach((f) => f()));
