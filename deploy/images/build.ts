// SPDX-License-Identifier: Apache-2.0
/** `node deploy/images/build.ts <folder>`: for each service a folder with its program and the packages that it needs. */
import { copyFileSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildLibrary, buildService, SERVICES } from "../pack/packages.ts";
import { ROOT } from "../pack/workspaces.ts";
import { copyDependencies } from "./dependencies.ts";

const target = process.argv[2];
if (target === undefined) {
  console.log("usage: node deploy/images/build.ts <folder>");
  process.exit(2);
}
const out = resolve(target);
const sdk = join(out, "sdk");
await buildLibrary(sdk, "sdk", { types: false });
for (const service of SERVICES) {
  const folder = join(out, service);
  await buildService(folder, service);
  copyDependencies(folder, { sdk });
  copyFileSync(join(ROOT, "LICENSE"), join(folder, "LICENSE"));
}
rmSync(sdk, { recursive: true });
