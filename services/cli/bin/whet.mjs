#!/usr/bin/env node
// Plain JavaScript: an older system Node runs this file only to find the Node that the workspace pins.
import { spawn } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import * as module from "node:module";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const NEEDED_MAJOR = 24;
const here = dirname(fileURLToPath(import.meta.url));
keepCompiledCode();

if (Number(process.versions.node.split(".")[0]) >= NEEDED_MAJOR) {
  // In a checkout Node runs the sources; the npm package holds them bundled.
  const isPackage = existsSync(join(here, "..", "dist", "whet.js"));
  await import(isPackage ? "../dist/whet.js" : "../src/main.ts");
} else {
  runWithPinnedNode(findPinnedNode(here));
}

/**
 * Half of what a start costs is compiling: this command and the services that it starts keep what Node made of our code.
 * Not where there is no home folder to keep it in: Node 24 waits for ever for a folder that cannot be made.
 */
function keepCompiledCode() {
  try {
    accessSync(homedir(), constants.W_OK);
  } catch {
    return;
  }
  process.env.NODE_COMPILE_CACHE ??= join(homedir(), ".whetstone", "compile-cache");
  module.enableCompileCache?.(process.env.NODE_COMPILE_CACHE);
}

/** The npm package `node`, installed in a folder above. */
function findPinnedNode(folder) {
  const path = join(folder, "node_modules", ".bin", "node");
  if (existsSync(path) || dirname(folder) === folder) return path;
  return findPinnedNode(dirname(folder));
}

function runWithPinnedNode(node) {
  if (!existsSync(node) || process.env.WHETSTONE_REEXEC === "1") {
    console.error(
      `whet needs Node ${NEEDED_MAJOR}, this is ${process.versions.node}. Run \`npm install node@${NEEDED_MAJOR}\` in your project.`,
    );
    process.exit(1);
  }
  // setpriv makes the real command die with this one, even by kill -9.
  const setpriv = "/usr/bin/setpriv";
  const prefix = process.platform === "linux" && existsSync(setpriv) ? [setpriv, "--pdeathsig", "TERM"] : [];
  const [command, ...args] = [...prefix, node, fileURLToPath(import.meta.url), ...process.argv.slice(2)];
  const child = spawn(command, args, { stdio: "inherit", env: { ...process.env, WHETSTONE_REEXEC: "1" } });
  // The terminal sends Ctrl-C to both; the child decides. A signal sent to this process alone is passed on.
  process.on("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("exit", (code, signal) => process.exit(signal ? 1 : (code ?? 1)));
}
