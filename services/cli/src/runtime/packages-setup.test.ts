// SPDX-License-Identifier: Apache-2.0
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { INSTALLATION } from "./layout.ts";
import { setupPackages } from "./packages-setup.ts";
import type { RunProgram } from "./python-setup.ts";

describe("setupPackages", () => {
  let folder: string;
  beforeEach(() => {
    folder = join(mkdtempSync(join(tmpdir(), "packages-setup-")), "math-verify");
  });
  afterEach(() => {
    rmSync(join(folder, ".."), { recursive: true });
  });

  /** pip that writes one file, as far as `isWhole`. */
  function pip(isWhole: boolean, ran: string[] = []): RunProgram {
    return async (_program, args) => {
      ran.push(args.join(" "));
      const target = args[args.indexOf("--target") + 1] as string;
      mkdirSync(target);
      writeFileSync(join(target, isWhole ? "new" : "half"), "");
      return isWhole;
    };
  }
  const setup = () => ({ python: "py", folder, requirements: INSTALLATION.mathVerifyRequirements });

  it("installs pinned wheels, and replaces what was there", async () => {
    mkdirSync(folder);
    writeFileSync(join(folder, "old"), "");
    const ran: string[] = [];
    await setupPackages(setup(), pip(true, ran));
    expect(["old", "new"].map((name) => existsSync(join(folder, name)))).toEqual([false, true]);
    expect(ran[0]).toContain("--require-hashes --no-deps --only-binary :all:");
    expect(existsSync(setup().requirements)).toBe(true);
  });

  it("keeps what was there when pip fails, and begins anew after that", async () => {
    await setupPackages(setup(), pip(true));
    await expect(setupPackages(setup(), pip(false))).rejects.toThrow(/pip install .* failed/u);
    expect(existsSync(join(folder, "new"))).toBe(true);
    await setupPackages(setup(), pip(true));
    expect(existsSync(join(folder, "half"))).toBe(false);
  });
});
