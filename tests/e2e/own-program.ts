// SPDX-License-Identifier: Apache-2.0
// An agent that is a program (`agent.kind: command`), in the orchestrator's pod: it calls the gateway, and looks for what is the pod's.
import type { JsonObject } from "@bufbuild/protobuf";

import { type Jobs, runJob } from "./jobs.ts";
import { ownCodeRan, wantedSandbox } from "./own-sandbox.ts";
import { shortJob } from "./training.ts";

/** Exit code 3 is the task's fault here: one that sees what it must not fails the job, with what it saw. */
const PROGRAM = `
const fs = require("fs"), net = require("net");
const reaches = ([host, port]) => new Promise((done) => {
  const socket = net.connect({ host, port: Number(port), timeout: 2000 });
  socket.once("connect", () => done(true)).once("error", () => done(false)).once("timeout", () => done(false));
}).then((is) => is ? [host] : []);
(async () => {
  const { SANDBOXED, TARGETS, OPENAI_BASE_URL, OPENAI_API_KEY, WHETSTONE_MODEL, WHETSTONE_TASK_FILE } = process.env;
  if (SANDBOXED) {
    const files = ["/tls", "/nats", "/var/run/secrets", "/app"].filter((path) => fs.existsSync(path));
    const variables = Object.keys(process.env).filter((name) => /^WHETSTONE_(NATS|TLS|GATEWAY)|^KUBERNETES/.test(name));
    const reached = (await Promise.all(TARGETS.split(",").map((target) => reaches(target.split("/"))))).flat();
    const seen = [...files, ...variables, ...reached];
    if (seen.length > 0) { console.error("a program sees " + seen.join(", ")); process.exit(3); }
  }
  const task = JSON.parse(fs.readFileSync(WHETSTONE_TASK_FILE, "utf8"));
  const messages = [{ role: "user", content: "task " + task.id }];
  const answer = await fetch(OPENAI_BASE_URL + "/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json", authorization: "Bearer " + OPENAI_API_KEY },
    body: JSON.stringify({ model: WHETSTONE_MODEL, messages }),
  });
  if (!answer.ok) throw new Error("the gateway said " + answer.status + " " + await answer.text());
  const text = (await answer.json()).choices[0].message.content;
  fs.writeFileSync(process.env.WHETSTONE_RESULT_FILE, JSON.stringify({ reward: text.length % 3, output: text }));
})().catch((error) => { console.error(error); process.exit(1); });
`;

const TARGETS = ["whetstone-nats/4222", "whetstone-controller/9083", "10.96.0.1/443", "169.254.169.254/80"];
const EPISODES = 2 * 8 * 4; // Steps, groups, tries.

/** Two steps; every try must have been played by the program. */
export async function trainProgram(name: string, jobs: Jobs): Promise<string> {
  const sandbox = wantedSandbox();
  const env = { TARGETS: TARGETS.join(","), ...(sandbox.backend !== "none" && { SANDBOXED: "1" }) };
  const args = { command: ["node", "-e", PROGRAM], env, exitCodes: { "3": "TASK" }, sandbox };
  const { environment: _, ...job } = shortJob(name, 2);
  const spec: JsonObject = { ...job, agent: { kind: "command", args } };
  const { job: ended } = await runJob(jobs, spec);
  const { trained, voided } = ended.status?.episodes ?? {};
  if (Number(trained) !== EPISODES || Number(voided) !== 0) throw new Error(`${trained} trained, ${voided} voided`);
  return `${trained} tries of a program, ${ownCodeRan}`;
}
