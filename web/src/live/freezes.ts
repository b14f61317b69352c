// freezes.ts - the traces that the agent froze: the file, and the page of it and a trace for Perfetto,
// which the agent makes when it is asked for. Who says a token has them asked for by the script: links cannot say it.
import type { Json } from "../data";
import { add, clear, h, note, renew } from "../dom";
import { bytes } from "../format";
import { get, type Live } from "./get";
import { ask, hasToken } from "./token";

const NEAR_NS = 2e9; // names of files have whole seconds, and where an incident begins is found more closely later
const HELD_OFF = "freeze_held_off"; // the name of what is told of it
const AGAIN_MS = 1000; // while something is made
const SAVED_MS = 60000; // in which a browser has begun to keep what it is given

/** What is being done with a file: it outlives what is on the screen. */
interface Doing { words: string; page: string } // page: the address of what was made, "" if nothing was

const doings = new Map<string, Doing>();
const utc = (ns: number): string => new Date(ns / 1e6).toISOString().replace("T", " ").slice(0, 19) + " UTC";
const at = (name: string, ending: string): string => `/freezes/${name.replace(/\.eacgm$/, ending)}`;
const doingOf = (name: string): Doing => doings.get(name) ?? { words: "", page: "" };

function show(span: HTMLElement): void {
  const { words, page } = doingOf(span.dataset.frozen!), link = span.querySelector<HTMLAnchorElement>("a.freeze-page")!;
  const status = span.querySelector<HTMLElement>("[role=status]")!;
  if (status.textContent !== words) add(clear(status), [words]);
  if (page && link.getAttribute("href") !== page) {
    link.href = page;
    link.target = "_blank";
  }
}

const showAll = (): void => document.querySelectorAll<HTMLElement>("[data-frozen]").forEach(show);

function say(name: string, words: string, page = doingOf(name).page): void {
  doings.set(name, { words, page });
  showAll();
}

/** What the agent gives, which it may have to make first. */
async function given(path: string): Promise<Blob> {
  let answer = await ask(path);
  for (; answer.status === 202; answer = await ask(path)) await new Promise((done) => setTimeout(done, AGAIN_MS));
  if (!answer.ok) throw new Error((await answer.text()).trim() || String(answer.status));
  return answer.blob();
}

function save(what: Blob, name: string): void {
  const url = URL.createObjectURL(what);
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), SAVED_MS);
}

/** words: while it lasts. done: what is said then. */
async function fetchFor(name: string, words: string, path: string, done: (got: Blob) => void): Promise<void> {
  if (doingOf(name).words.endsWith("...")) return; // it is at it
  say(name, `${words}...`);
  try { done(await given(path)); } catch (e) { say(name, (e as Error).message); }
}

function openPage(name: string): void {
  void fetchFor(name, "the page is being made", at(name, ".html"), (got) => say(name, "the page is made: the link opens it", URL.createObjectURL(got)));
}

function keep(name: string, words: string, ending: string): void {
  void fetchFor(name, words, at(name, ending), (got) => { save(got, name.replace(/\.eacgm$/, ending)); say(name, ""); });
}

const keepFile = (name: string): void => keep(name, "the file is being fetched", ".eacgm");
const keepTrace = (name: string): void => keep(name, "the Perfetto trace is being made", ".perfetto-trace.gz");

function links(f: Json): HTMLElement {
  const instead = (how: (name: string) => void, unless: () => boolean) => (e: Event) => {
    if (!hasToken() || unless()) return;
    e.preventDefault();
    how(f.name);
  };
  const span = h("span", { "data-frozen": f.name },
    h("a", { href: at(f.name, ".html"), class: "freeze-page", on: { click: instead(openPage, () => doingOf(f.name).page !== "") } }, "timeline and report"), ", ",
    h("a", { href: at(f.name, ".eacgm"), download: f.name, class: "freeze-file", on: { click: instead(keepFile, () => false) } }, `the file (${bytes(f.bytes)})`),
    " ", h("button", { type: "button", class: "freeze-trace", on: { click: () => keepTrace(f.name) } }, "Perfetto trace"),
    " ", h("span", { class: "note", role: "status" }));
  show(span);
  return span;
}

const sentence = (text: string): string => `${text[0]!.toUpperCase()}${text.slice(1)}.`;

/** What was frozen of an incident. */
export async function frozenOf(i: Json, _now: number): Promise<HTMLElement | null> {
  const got = await get("freezes"), onset = i.onset_ns + (got.now_realtime_ns - got.now_ns);
  const apart = (f: Json): number => Math.abs(f.time_realtime_ns - onset);
  const has = (f: Json): boolean => f.from_ns === null ? apart(f) < NEAR_NS : f.from_ns <= i.onset_ns && i.onset_ns <= f.until_ns;
  const file = (got.files as Json[]).filter(has).sort((a, b) => apart(a) - apart(b))[0];
  if (file) return h("p", { class: "frozen" }, apart(file) < NEAR_NS ? "The seconds around it were frozen: " : "It lies in the seconds that were frozen around something else: ", links(file));
  const told = (got.told as Json[]).find((t) => t.name === HELD_OFF && Math.abs(t.time_ns - i.onset_ns) < NEAR_NS), near = told && (got.files as Json[]).find((f) => told.text.includes(f.name));
  if (told) return h("p", { class: "frozen" }, `${sentence(told.text)} `, near ? links(near) : null);
  return got.freezes ? null : note("The seconds around an incident become a recording where the agent is started with --freeze FOLDER.");
}

export function freezes(): Live {
  const list = h("ul", { class: "freezes" }), none = note(), told = h("ul", { class: "freezes-told" });
  let shown = "", shownTold = "";
  return { box: h("div", null, none, list, told,
    note("Each is a recording like any other, which eacgm report FILE reads. A Perfetto trace of it is a file that ",
      h("a", { href: "https://ui.perfetto.dev/", target: "_blank", rel: "noopener noreferrer" }, "ui.perfetto.dev"),
      " opens; this page sends nothing there. Timelines and traces are made when they are asked for, which may take some seconds.")), refresh: async () => {
    const got = await get("freezes"), text = JSON.stringify(got.files);
    none.hidden = got.files.length > 0;
    add(clear(none), [got.freezes ? "Nothing was frozen so far." : "Nothing is frozen: start the agent with --freeze FOLDER."]);
    const texts = (got.told as Json[]).map((t) => `${utc(t.time_ns + (got.now_realtime_ns - got.now_ns))}: ${t.text}`);
    if (texts.join("\n") !== shownTold) renew(told, texts.map((t) => h("li", { class: "note" }, t)));
    shownTold = texts.join("\n");
    if (text === shown) { showAll(); return; } // of what was done while another view was on the screen
    shown = text;
    renew(list, got.files.map((f: Json) => h("li", null, h("strong", null, utc(f.time_realtime_ns)), " ", links(f), h("span", { class: "note" }, ` ${f.name}`))));
  } };
}
