// check.mjs - holds the objects of YAML files against Kubernetes's own schemas, as kubernetes-models
// has them: by its validators (types, what has to be there) and by its types (fields that do not
// exist). Prints a line for each fault, and "# ..." for each object that is none. usage: node check.mjs FILE..., where node_modules is
import fs from "node:fs";
import yaml from "js-yaml";
import ts from "typescript";

const DRAFT = "check.ts";
let draft = "";
const places = []; // [where an object begins in the draft, whose it is]
for (const file of process.argv.slice(2)) {
  for (const object of yaml.loadAll(fs.readFileSync(file, "utf8"))) {
    const where = `${file}: ${object?.kind} ${object?.metadata?.name}`;
    try {
      const from = `kubernetes-models/${object.apiVersion}`;
      const { [object.kind]: Model } = await import(from);
      new Model(object).validate();
      const n = draft.length;
      places.push([n, where]);
      draft += `import type { I${object.kind} as I${n} } from "${from}";\n` +
        `export const of${n}: I${n} = ${JSON.stringify(object, null, 1)};\n`;
      console.log(`# ${where}`);
    } catch (e) {
      console.log(`${where}: ${e.message}`);
    }
  }
}
fs.writeFileSync(DRAFT, draft);
const program = ts.createProgram([DRAFT], {
  noEmit: true, strict: true, skipLibCheck: true, types: [], target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext,
});
for (const found of ts.getPreEmitDiagnostics(program)) {
  const [, where] = places.findLast(([n]) => n <= (found.start ?? 0)) ?? [0, DRAFT];
  console.log(where + ": " + ts.flattenDiagnosticMessageText(found.messageText, " ").replace(/\s+/g, " "));
}
