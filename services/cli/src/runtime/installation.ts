// SPDX-License-Identifier: Apache-2.0
/** What `whet` runs from: a checkout, where Node runs the sources, or the npm package that deploy/pack makes. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";

export interface Installation {
  readonly kind: "checkout" | "package";
  readonly root: string;
  /** The program of `whet` itself. */
  readonly main: string;
  /** The program of a service, by its folder below services/. */
  readonly service: (folder: string) => string;
  /** Where Python finds our packages and the generated contract. */
  readonly pythonSources: readonly string[];
  /** The program for sandboxes of npm's libraries: its source, or what was made of it. */
  readonly javascriptTool: string;
  /** What the Python side needs beside PyTorch, pinned with hashes. */
  readonly requirements: string;
  /** The same for Math-Verify alone, and for MiniWoB++. */
  readonly mathVerifyRequirements: string;
  readonly miniwobRequirements: string;
  /** Projects that `whet init` copies. */
  readonly templates: string;
  /** Folder of the helm charts. */
  readonly charts: string;
  /** Virtual environments that come with it. */
  readonly virtualEnvironments: readonly string[];
  /** What to do when Python or nats-server is missing. */
  readonly setupAdvice: string;
  /** What to do when Node is too old. */
  readonly nodeAdvice: string;
}

/** `here` is the folder of the running code: src/runtime/ in a checkout, dist/ in the package. */
export function installation(here: string): Installation {
  const root = resolve(here, "..");
  return existsSync(join(root, "python", "requirements.txt")) ? packaged(root) : checkout(resolve(here, "../../../.."));
}

function packaged(root: string): Installation {
  const dist = (name: string): string => join(root, "dist", `${name}.js`);
  return {
    kind: "package",
    root,
    main: dist("whet"),
    service: dist,
    pythonSources: [join(root, "python")],
    javascriptTool: join(root, "javascript", "tool.cjs"),
    requirements: join(root, "python", "requirements.txt"),
    mathVerifyRequirements: join(root, "python", "math-verify-requirements.txt"),
    miniwobRequirements: join(root, "python", "miniwob-requirements.txt"),
    templates: join(root, "templates"),
    charts: join(root, "charts"),
    virtualEnvironments: [],
    setupAdvice: "run `whet setup`",
    nodeAdvice: "install Node 24 or newer, or add the package `node` to your project",
  };
}

function checkout(root: string): Installation {
  return {
    kind: "checkout",
    root,
    main: join(root, "services", "cli", "src", "main.ts"),
    service: (folder) => join(root, "services", folder, "src", "main.ts"),
    pythonSources: [join(root, "python-trainer", "src"), join(root, "proto", "gen", "python")],
    javascriptTool: join(root, "services", "libs", "swe", "src", "javascript", "main.ts"),
    requirements: join(root, "python-trainer", "requirements.txt"),
    mathVerifyRequirements: join(root, "python-trainer", "math-verify-requirements.txt"),
    miniwobRequirements: join(root, "python-trainer", "miniwob-requirements.txt"),
    templates: join(root, "services", "cli", "templates"),
    charts: join(root, "charts"),
    virtualEnvironments: [join(root, ".venv")],
    setupAdvice: `run \`make setup\` in ${root}`,
    nodeAdvice: `run \`npm install\` in ${root}`,
  };
}
