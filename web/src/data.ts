// data.ts - what the program puts into the page (src/report/report_html.c) or answers
// (docs/api.yaml). The report is that of `eacgm report --json`: docs/report.md names its keys.

export type Json = any;

export interface Steps {
  pid: number;
  tid: number;
  kind: string;
  count: number;
  each: number; // steps in a point: the longest of them is shown
  index: number[];
  start_s: number[];
  ms: number[];
  phases: Record<string, number[]>; // ms; those that are 0 everywhere are not there
}

export interface Series {
  entity: string;
  kind: string;
  name: string;
  unit: string | null;
  mean: (number | null)[];
  max?: (number | null)[]; // where a point stands for several values
}

export interface Counters {
  bucket_s: number;
  points: number;
  series: Series[];
}

export interface Flame {
  kind: string;
  title: string;
  unit: string;
  total: number;
  names: string[];
  parent: number[]; // of each frame but the root, which is number 0
  name: number[];
  is: number[]; // an index into KINDS of flame.ts
  value: number[];
}

/** src/report/report_html_timeline.c: the whole time, and a moment of it with each span. */
export interface Timeline {
  lanes: { of: "gpu" | "steps" | "calls"; pid: number; title: string; spans: number }[];
  names: string[];
  views: TimelineView[];
}

export interface TimelineView {
  from_s: number;
  to_s: number;
  lanes: { start_us: number[]; us: number[]; name: number[]; count: number[] }[]; // in the order of the timeline's
}

/** src/report/report_judged.c: what a detector judged of a layer, with all features. */
export interface JudgedLayer {
  layer: string;
  features: { name: string; unit: string; what: string }[];
  x: number; // those that show most
  y: number;
  mixture: { columns: number[]; weights: number[]; means: number[]; covariances: number[] }; // columns: features
  rows: Json[]; // start_ns, end_ns, pid, gpu, alarmed, score, features
}

export interface LeftOut {
  what: string;
  shown: number;
  of: number;
}

export interface About {
  version: string;
  left_out: LeftOut[];
  owners: Record<string, string>; // words of an account's owners
}

/** A block of data in the page; undefined: there is none. */
export function block<T>(id: string): T | undefined {
  const text = document.getElementById(id)?.textContent;
  return text ? (JSON.parse(text) as T) : undefined;
}
