// format.ts - numbers as the program's text has them: three digits and a unit.

function digits(v: number): string {
  const size = Math.abs(v);
  return size >= 100 ? v.toFixed(0) : size >= 10 ? v.toFixed(1) : v.toFixed(2);
}

function scaled(v: number, steps: [number, string][]): string {
  const size = Math.abs(v);
  for (const [least, unit] of steps) if (size >= least) return `${digits(v / least)} ${unit}`;
  return v === 0 ? "0" : v.toPrecision(3);
}

export function ns(v: number | null | undefined): string {
  if (v === null || v === undefined || !isFinite(v)) return "–";
  if (v === 0) return "0 s";
  const size = Math.abs(v);
  if (size < 1e3) return `${v.toFixed(0)} ns`;
  if (size < 1e6) return `${digits(v / 1e3)} µs`;
  if (size < 1e9) return `${digits(v / 1e6)} ms`;
  if (size < 120e9) return `${digits(v / 1e9)} s`;
  const s = Math.round(v / 1e9);
  if (s < 7200) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
}

export function bytes(v: number | null | undefined): string {
  if (v === null || v === undefined || !isFinite(v)) return "–";
  return Math.abs(v) < 1e3 ? `${v.toFixed(0)} B`
    : scaled(v, [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]);
}

/** Floating-point operations a second. */
export function flops(v: number): string {
  return v < 1e3 ? `${v.toFixed(0)} FLOP/s`
    : `${scaled(v, [[1e15, "PFLOP"], [1e12, "TFLOP"], [1e9, "GFLOP"], [1e6, "MFLOP"], [1e3, "kFLOP"]])}/s`;
}

export function count(v: number | null | undefined): string {
  if (v === null || v === undefined || !isFinite(v)) return "–";
  return Math.round(v).toLocaleString("en-US");
}

export function percent(v: number | null | undefined): string {
  if (v === null || v === undefined || !isFinite(v)) return "–";
  const p = 100 * v;
  if (p !== 0 && Math.abs(p) < 0.05) return p > 0 ? "<0.1 %" : ">−0.1 %";
  return `${Math.abs(p) >= 9.95 || p === 0 ? p.toFixed(0) : p.toFixed(1)} %`;
}

/** A value of a counter, by the unit that the program names. */
export function value(v: number | null | undefined, unit: string | null | undefined): string {
  if (v === null || v === undefined || !isFinite(v)) return "–";
  switch (unit) {
    case "ns": return ns(v);
    case "bytes": return bytes(v);
    case "bytes/s": return `${bytes(v)}/s`;
    case "ratio": return percent(v);
    case "1/s": return `${number(v)}/s`;
    case null: case undefined: case "": case "count": return number(v);
    default: return `${number(v)} ${unit}`;
  }
}

export function number(v: number): string {
  const size = Math.abs(v);
  if (size >= 1e6) return scaled(v, [[1e12, "T"], [1e9, "G"], [1e6, "M"]]);
  if (Number.isInteger(v)) return v.toLocaleString("en-US");
  return size >= 1000 ? count(v) : size >= 0.01 ? String(+v.toPrecision(3)) : v.toPrecision(2);
}

export function plural(n: number, one: string, many = one + "s"): string {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/** Seconds of the Unix epoch, by the reader's clock. */
export function moment(s: number): string {
  return new Date(s * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: s % 60 ? "2-digit" : undefined });
}
