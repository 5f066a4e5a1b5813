// SPDX-License-Identifier: Apache-2.0
/** `node deploy/pack/pack.ts <folder>`: the npm tarballs of the libraries for authors and of @whetstone/cli. */
import { execFileSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { buildCli, buildLibrary, LIBRARIES } from "./packages.ts";
import { ROOT } from "./workspaces.ts";

const target = process.argv[2];
if (target === undefined) {
  console.log("usage: node deploy/pack/pack.ts <folder for the tarballs>");
  process.exit(2);
}
const destination = resolve(target);
const build = join(ROOT, ".whetstone/pack");
mkdirSync(destination, { recursive: true });
for (const name of LIBRARIES) await buildLibrary(join(build, name), name);
await buildCli(join(build, "cli"));
for (const name of [...LIBRARIES, "cli"]) {
  const args = ["pack", "--silent", "--ignore-scripts", "--pack-destination", destination];
  const file = execFileSync("npm", args, { cwd: join(build, name), encoding: "utf8" }).trim();
  console.log(join(destination, file));
}
