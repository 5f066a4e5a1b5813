// SPDX-License-Identifier: Apache-2.0
// What runs inside the sandboxes of tasks of npm packages, beside `whetstone_tasks`, which starts it: bundled into one file, for
// any Node from 18 on. `changes` and `names` read a source from standard input and print JSON; `run` plays one file of tests, and writes its records to a descriptor.
import { readFileSync } from "node:fs";
import { changesIn } from "./changes.ts";
import { runTape } from "./run-tape.ts";
import { tamperingNames } from "./tampering.ts";

const [word, file = "", descriptor = "3", isWatched] = process.argv.slice(2);

switch (word) {
  case "changes":
    process.stdout.write(JSON.stringify(changesIn(readFileSync(0, "utf8"))));
    break;
  case "names":
    process.stdout.write(JSON.stringify(tamperingNames(readFileSync(0, "utf8"))));
    break;
  case "run":
    runTape(file, { descriptor: Number(descriptor), isWatched: isWatched === "watch" });
    break;
  default:
    throw new Error("usage: changes | names | run FILE DESCRIPTOR [watch]");
}
