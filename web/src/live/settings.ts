// settings.ts - what the agent was started with. It is changed in its file or on its command line.
import type { Json } from "../data";
import { add, clear, h, note, section } from "../dom";
import { table } from "../table";
import { get, type Live } from "./get";

const valueOf = (o: Json): string => !o.told ? "" : o.values.every((v: string) => v === "") ? "yes" : o.values.join(", ");

export function settings(): Live {
  const box = h("div");
  let shown = false;
  return { box, refresh: async () => {
    if (shown) return; // they do not change while it runs
    const got = await get("settings"), told = (got.options as Json[]).filter((o) => o.told), rest = (got.options as Json[]).filter((o) => !o.told);
    const list = (of: Json[], name: string) => table(of, [
      { head: "option", left: true, value: (o) => o.name }, ...(name === "given" ? [{ head: "value", left: true, value: valueOf }] : []),
      { head: "what it does", left: true, value: (o) => o.help }], { name, step: 100, filter: of.length > 12 ? "filter" : undefined });
    add(clear(box), [
      note(got.file ? `Options are from ${got.file} and the command line.` : "Options are from the command line alone."),
      section("Given", told.length ? list(told, "given") : note("Nothing was given: all is as it is unless told.")),
      section("As they are unless told", list(rest, "not given")),
    ]);
    shown = true;
  } };
}
