// SPDX-License-Identifier: Apache-2.0
/** `node deploy/pack/pack.ts <folder>`: the npm tarballs of @whetstone/sdk and @whetstone/cli. */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildCli, buildSdk } from "./packages.ts";
import { ROOT } from "./workspaces.ts";

const target = process.argv[2];
if (target === undefined) {
  console.log("usage: node deploy/pack/pack.ts <folder for the tarballs>");
  process.exit(2);
}
const destination = resolve(target);
const build = join(ROOT, ".whetstone/pack");
mkdirSync(destination, { recursive: true });
await buildSdk(join(build, "sdk"));
await buildCli(join(build, "cli"));
for (const name of ["sdk", "cli"]) {
  const args = ["pack", "--silent", "--ignore-scripts", "--pack-destination", destination];
  const file = execFileSync("npm", args, { cwd: join(build, name), encoding: "utf8" }).trim();
  console.log(join(destination, file));
}
