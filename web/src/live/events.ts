// events.ts - server-sent events (html.spec.whatwg.org, 9.2) by fetch: the browser's own EventSource
// cannot say a token. What they are of is for who listens; ids of events are not kept.
import { ask } from "./token";

const RETRY_MS = 3000; // unless the stream tells

interface Stream { feed: (piece: string) => void; retryMs: () => number }

/** Pieces go in, events come out. A line ends in \n, \r\n or \r, and pieces end anywhere. */
function stream(told: (event: string, data: string) => void): Stream {
  let rest = "", event = "", data: string[] = [], retry = RETRY_MS;
  function line(text: string): void {
    if (!text) {
      if (data.length) told(event || "message", data.join("\n"));
      event = "";
      data = [];
      return;
    }
    const [, field, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(text)!;
    if (field === "data") data.push(value ?? "");
    else if (field === "event") event = value ?? "";
    else if (field === "retry" && /^\d{1,6}$/.test(value ?? "")) retry = Number(value);
  }
  return { retryMs: () => retry, feed: (piece) => {
    const lines = (rest + piece).split(/\r\n|\n|\r(?!$)/); // \r at the end may be half of \r\n
    rest = lines.pop()!;
    lines.forEach(line);
  } };
}

/** Listens until it is told to end. lost: why nothing comes now; it is tried again. */
export async function listen(path: string, end: AbortSignal, told: (event: string, data: string) => void, lost: (why: string) => void): Promise<void> {
  while (!end.aborted) {
    const parts = stream(told);
    let why = "the agent does not answer; trying again";
    try {
      const answer = await ask(path, end);
      if (answer.ok && answer.body) {
        const reader = answer.body.getReader(), decoder = new TextDecoder();
        for (let got = await reader.read(); !got.done; got = await reader.read()) parts.feed(decoder.decode(got.value, { stream: true }));
      } else why = `the agent says ${answer.status}; trying again`;
    } catch { /* what happened is that nothing comes any more */ }
    if (end.aborted) return;
    lost(why);
    await new Promise((done) => setTimeout(done, parts.retryMs()));
  }
}
