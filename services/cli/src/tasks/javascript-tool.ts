// SPDX-License-Identifier: Apache-2.0
/** The program in Node that runs in sandboxes of npm's libraries: in a checkout made of its sources, in the package there. */
import { readFile } from "node:fs/promises";

import { INSTALLATION } from "../runtime/layout.ts";

export async function javascriptTool(): Promise<string> {
  const { javascriptTool: path } = INSTALLATION;
  return path.endsWith(".ts") ? await bundleJavaScriptTool(path) : await readFile(path, "utf8");
}

/** One file that needs nothing but Node, of any version from 18 on. */
export async function bundleJavaScriptTool(entry: string): Promise<string> {
  const { build } = await import("esbuild");
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    format: "cjs",
    platform: "node",
    target: "node18",
    legalComments: "inline",
    logLevel: "silent",
  });
  return outputFiles[0]?.text ?? "";
}
