// token.ts - asks the agent, with its token where it wants one (docs/agent.md, Safety). The token is
// said to who served the page alone, by the page's policy, and kept by this tab alone until it is closed.
import { add, clear, h } from "../dom";

const KEY = "eacgm-token";
const WRONG = "The agent does not take this token.";
const TOKEN = /^[A-Za-z0-9._~+/=-]+$/;

let token: string | null = null; // null: not looked for yet
let wanted = (_wrong: boolean): void => undefined;

function said(): string {
  if (token !== null) return token;
  let kept = "";
  try { kept = sessionStorage.getItem(KEY) ?? ""; } catch { /* this browser keeps nothing: it is asked for again */ }
  return token = TOKEN.test(kept) ? kept : "";
}

function keep(text: string): void {
  token = text;
  try { if (text) sessionStorage.setItem(KEY, text); else sessionStorage.removeItem(KEY); } catch { /* likewise */ }
}

/** Links cannot say it: what they lead to has to be asked for. */
export const hasToken = (): boolean => said() !== "";

/** Any answer but 401, for which the token is asked for (gate). */
export async function ask(path: string, signal?: AbortSignal): Promise<Response> {
  const now = said();
  const answer = await fetch(path, { cache: "no-store", redirect: "error", signal, headers: now ? { Authorization: `Bearer ${now}` } : {} });
  if (answer.status !== 401) return answer;
  if (now === said()) wanted(now !== ""); // else another was given meanwhile
  throw new Error("the agent asks for a token");
}

/** The field that asks for it, in place of what is behind it; opened: the agent took one. */
export function gate(behind: HTMLElement[], closed: () => void, opened: () => void): { element: HTMLElement; shut: () => boolean } {
  // No password field: browsers would offer to keep it.
  const field = h("input", { id: "token", class: "secret", type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false",
    "aria-describedby": "token-why" }) as HTMLInputElement;
  const why = h("div", { id: "token-why" });
  const element = h("form", { class: "gate", hidden: true, on: { submit: (e: Event) => { e.preventDefault(); void enter(field.value.trim()); } } },
    h("h1", null, "This agent asks for a token"),
    h("p", null, "It is the line in the file that the agent was started with: --token-file, or token_file in its file of options."),
    h("div", { class: "row" }, h("label", { for: "token" }, "Token"), field, h("button", { type: "submit" }, "Show the page")), why,
    h("p", { class: "note" }, "This tab keeps it until it is closed, and says it to this agent alone."));
  let busy = false;

  function show(words: string): void {
    if (element.hidden) closed();
    element.hidden = false;
    for (const part of behind) part.hidden = true;
    add(clear(why), [words && h("p", { class: "alert", role: "alert" }, words)]);
    field.focus();
    field.select();
  }
  async function enter(text: string): Promise<void> {
    if (busy) return;
    if (!TOKEN.test(text)) { show(WRONG); return; }
    busy = true;
    token = text;
    try {
      const answer = await ask("/api/v1/state");
      if (answer.ok) { keep(text); open(); } else refuse(`The agent says ${answer.status}. Try again.`);
    } catch {
      if (said()) refuse("The agent does not answer. Try again.");
    }
    busy = false;
  }
  function refuse(words: string): void { keep(""); show(words); }
  function open(): void {
    element.hidden = true;
    field.value = "";
    clear(why);
    for (const part of behind) part.hidden = false;
    opened();
  }
  wanted = (wrong) => {
    if (wrong) refuse(WRONG);
    else if (element.hidden) show("");
  };
  return { element, shut: () => !element.hidden };
}
