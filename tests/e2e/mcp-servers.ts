// SPDX-License-Identifier: Apache-2.0
// Jobs with tools of MCP servers in pods: one that episodes share, which is a Deployment of the chart, and one of a volume that each episode
// starts in a sandbox of its own, where the node has the profile. Servers and env-runners are killed while they train; the policy knows
// every answer, so all that is played must be paid.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { JsonObject } from "@bufbuild/protobuf";
import { UNSTEADY_SERVER, WORDS } from "../support/scripted-episodes.ts";
import { command, kubectl } from "./cluster.ts";
import { finish } from "./faults.ts";
import { type Jobs, meanSuccess } from "./jobs.ts";
import { wantedSandbox } from "./own-sandbox.ts";
import { deleteNow, type Pod, pods, podsOfPool } from "./pods.ts";
import { IMAGES, NAMESPACE, RELEASE } from "./release.ts";
import { inFolder, submitScripted } from "./scripted-job.ts";

const SHARED = "words";
const PORT = 8080;
const INSTALLED = "e2e-mcp-servers";
/** They go on until the last pod was killed, however fast they are. */
const STEPS = 400;
const STEPS_AFTER_KILLS = 2;
const BETWEEN_KILLS_MS = 5_000;
const JOB_MS = 600_000;

/** Who has a server of its own needs a sandbox of level A or B. */
export const KINDS: readonly Kind[] = wantedSandbox().backend === undefined ? ["shared", "own"] : ["shared"];
type Kind = "shared" | "own";

const ARGUMENTS: Readonly<Record<Kind, JsonObject>> = {
  shared: { url: `http://${RELEASE}-mcp-${SHARED}:${PORT}/mcp`, episodeHeader: "X-Episode", callTimeoutMs: 5_000 },
  own: { command: ["node", "{servers}/server.mjs", "unsteady"], callTimeoutMs: 3_000 },
};

/** Brings the installed server, before the release whose pods mount it. @returns values of the chart */
export function makeMcpServers(): string[] {
  const { files } = UNSTEADY_SERVER as { files: JsonObject };
  const metadata = { name: INSTALLED, namespace: NAMESPACE };
  const volume = { apiVersion: "v1", kind: "ConfigMap", metadata, data: files };
  command("kubectl", ["apply", "-f", "-"], JSON.stringify(volume));
  return mcpSettings();
}

/** What is not the release's own. */
export function removeMcpServers(): void {
  kubectl("-n", NAMESPACE, "delete", "configmap", INSTALLED, "--ignore-not-found");
}

/** The program of the shared server comes as a variable, in letters that need no quotes. */
function mcpSettings(): string[] {
  const program = readFileSync(join(import.meta.dirname, "shared-mcp-server.mjs")).toString("base64");
  return [
    `mcpServers.${SHARED}.image=${IMAGES.envRunner}`,
    `mcpServers.${SHARED}.port=${PORT}`,
    `mcpServers.${SHARED}.command={node,-e,eval(atob(process.env.PROGRAM))}`,
    `mcpServers.${SHARED}.env.PROGRAM=${program}`,
    `envRunner.mcpServersVolume.configMap.name=${INSTALLED}`,
  ];
}

export function mcpJob(kind: Kind): string {
  return `e2e-mcp-${kind}`;
}

/** @throws when less than all was paid */
export async function trainWithMcp(kind: Kind, jobs: Jobs): Promise<string> {
  const name = mcpJob(kind);
  const use = { kind: "mcp", args: ARGUMENTS[kind], tasks: WORDS } as const;
  await inFolder((folder) => {
    submitScripted(folder, use, { name, steps: STEPS });
  });
  await jobs.reaches(name, 1, JOB_MS);
  const victims = [() => podsOfPool("default"), ...(kind === "shared" ? [() => pods(`mcp-${SHARED}`)] : [])];
  for (const find of victims) {
    deleteNow(find()[0] as Pod);
    await delay(BETWEEN_KILLS_MS);
  }
  const atKills = await jobs.step(name);
  await jobs.reaches(name, atKills + STEPS_AFTER_KILLS, JOB_MS);
  const ended = await finish(jobs, name);
  const paid = await meanSuccess(jobs, name);
  if (paid < 0.999) throw new Error(`a policy that knows every answer was paid for ${paid} of its episodes`);
  return `${ended}, all of it paid; ${victims.length} pods killed by step ${atKills}`;
}
