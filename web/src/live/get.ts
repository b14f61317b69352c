// get.ts - asks the agent: docs/api.yaml says what it answers.
import type { Json } from "../data";
import { ns } from "../format";
import { ask } from "./token";

/** What is on the screen of a view, and how it is brought up to date. */
export interface Live { box: HTMLElement; refresh: () => Promise<void> }

/** The sentence of an answer that says no. */
async function said(answer: Response): Promise<string | null> {
  const told = answer.status === 404 ? null : await answer.json().catch(() => null);
  return typeof told?.error === "string" ? told.error : null;
}

export async function get(path: string): Promise<Json> {
  const answer = await ask(`/api/v1/${path}`);
  if (!answer.ok) throw new Error(await said(answer) ?? `${path}: ${answer.status}`);
  return answer.json();
}

/** A number of seconds in words. */
export const seconds = (v: number | null | undefined): string => v === null || v === undefined ? "–" : ns(v * 1e9);

export const jobName = (j: Json): string => `${j.script ?? j.comm} (${j.pid})`;
