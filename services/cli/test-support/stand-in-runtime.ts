// SPDX-License-Identifier: Apache-2.0
/** A supervisor process of its own, so that a test can interrupt or kill it: `node stand-in-runtime.ts DATA`. */
import { dataPaths } from "../src/runtime/layout.ts";
import { Runtime } from "../src/runtime/runtime.ts";
import { natsSpec, standIn } from "./stand-in-table.ts";

const paths = dataPaths(process.argv[2] as string);
const services = async () => [
  await natsSpec(paths),
  await standIn("engine", []),
  await standIn("gateway", ["engine"]),
  await standIn("controller", ["nats", "gateway"]),
];
const runtime = new Runtime({ paths, model: "none", services });
const stop = async (): Promise<void> => {
  await runtime.stop();
  process.exit(0);
};
process.on("SIGINT", () => void stop());
process.on("SIGTERM", () => void stop());
await runtime.start();
console.log("ready");
