// live.ts - the page of an agent: what it answers under /api/v1/, brought up to date by its events.
import { add, clear, h } from "./dom";

export function live(): void {
  add(clear(document.getElementById("page")!), [h("p", null, "There is no report in this page.")]);
}
