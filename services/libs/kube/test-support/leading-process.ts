// SPDX-License-Identifier: Apache-2.0
// A process that leads; a line "block MS" on its input stops its main loop for so long, "stop" ends it.
import { createInterface } from "node:readline";
import { createLogger } from "@whetstone/telemetry";
import { elect, openKube } from "../src/index.ts";

const { server, namespace, lease, identity, times } = JSON.parse(process.argv[2] ?? "{}") as {
  server?: string;
  namespace: string;
  lease: string;
  identity: string;
  times?: object;
};
const logger = createLogger({ component: "leading-process" });
using kube = openKube({ logger, namespace, ...(server !== undefined && { server }) });
const stop = new AbortController();
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const input = createInterface({ input: process.stdin }).on("line", (line) => {
  const [command, ms] = line.split(" ");
  if (command === "stop") stop.abort();
  else Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Number(ms));
  say(`${command} done`);
});
const onLead = async ({ signal, assert }: { signal: AbortSignal; assert: () => void }): Promise<void> => {
  say("leading");
  input.on("line", (line) => {
    try {
      assert();
      say(`leads after ${line}`);
    } catch {
      say(`lost after ${line}`);
    }
  });
  await new Promise((resolve) => signal.addEventListener("abort", resolve));
};
await elect({
  ...{ kube, lease, identity, logger, signal: stop.signal, ...(times && { times }) },
  onLead: (lead) => onLead({ signal: lead.signal, assert: () => lead.assert() }),
}).then(
  () => process.exit(0),
  () => process.exit(3),
);
