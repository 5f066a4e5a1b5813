// SPDX-License-Identifier: Apache-2.0
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { FleetService } from "@whetstone/proto/inference/v1/inference";
import { createClient } from "@whetstone/rpc";
import { TINY } from "../test/harness.ts";

/** A gateway that serves the policy "job" with an engine that answers at once, each in a process of its own. */
export interface ServedGateway extends AsyncDisposable {
  readonly url: string;
  readonly process: ChildProcess;
}

interface Options {
  /** Of Node, for the gateway. */
  readonly nodeArgs?: readonly string[];
  /** Longest context that the engine tells. */
  readonly maxModelLen?: number;
}

export async function serveGateway({ nodeArgs = [], maxModelLen = 1024 }: Options = {}): Promise<ServedGateway> {
  const engine = start([path("bench-engine.ts"), String(maxModelLen)]);
  const engineUrl = await firstLine(engine.stdout, "http");
  const env = { WHETSTONE_HTTP_PORT: "0", WHETSTONE_GRPC_PORT: "0", WHETSTONE_ENGINES: `e0=${engineUrl}` };
  const gateway = start([...nodeArgs, path("../src/main.ts")], { ...env, WHETSTONE_SUPERVISED: "1" });
  const ready = JSON.parse(await firstLine(gateway.stderr, '"ready"')) as { httpUrl: string; grpcAddress: string };
  await using fleet = createClient(FleetService, ready.grpcAddress);
  await fleet.unfenceEngine({
    id: "e0",
    policy: { policy: "job", policyVersion: 1n, label: "job:1", modelPath: TINY },
  });
  return {
    url: ready.httpUrl,
    process: gateway,
    async [Symbol.asyncDispose]() {
      for (const child of [gateway, engine]) {
        child.stdin?.end();
        if (child.exitCode === null) await once(child, "exit");
      }
    },
  };
}

export const path = (relative: string): string => fileURLToPath(new URL(relative, import.meta.url));

function start(args: string[], env: Record<string, string> = {}): ChildProcess {
  return spawn(process.execPath, args, { env: { ...process.env, ...env }, stdio: ["pipe", "pipe", "pipe"] });
}

export async function firstLine(stream: NodeJS.ReadableStream | null, matches: string): Promise<string> {
  if (stream === null) throw new Error("no stream");
  for await (const line of createInterface({ input: stream })) {
    if (line.includes(matches)) return line;
  }
  throw new Error(`the process ended without "${matches}"`);
}
