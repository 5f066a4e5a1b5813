// SPDX-License-Identifier: Apache-2.0
/** Bundles and loads a file in plain Node, as services do; prints what came of it as JSON. */
import { WhetstoneError } from "@whetstone/core";
import { BaseAgent } from "@whetstone/sdk";
import { bundleModule } from "../src/bundle.ts";
import { loadModule, NOWHERE, placeOf, placeOfFunction } from "../src/load-module.ts";

const [path = "", raw] = process.argv.slice(2);
try {
  const code = raw === undefined ? (await bundleModule(path)).code : new TextEncoder().encode(raw);
  const exports = await loadModule(code, { folder: NOWHERE });
  const { step } = (exports["default"] as { prototype?: { step?: object } } | undefined)?.prototype ?? {};
  const stepAt = step && placeOfFunction(step, NOWHERE);
  const ownError = (exports["ToolError"] as { prototype: object } | undefined)?.prototype;
  const hasHostsCore = ownError && ownError instanceof WhetstoneError;
  console.log(JSON.stringify({ exports, hasHostsSdk: exports["BaseAgent"] === BaseAgent, hasHostsCore, stepAt }));
} catch (error) {
  console.log(JSON.stringify({ message: (error as Error).message, place: placeOf(error, NOWHERE) }));
}
