// SPDX-License-Identifier: Apache-2.0
import { execFileSync, spawnSync } from "node:child_process";

import { describe, expect, it } from "vitest";

import { fakeTerminal } from "../../test-support/fake-terminal.ts";
import { buildProgram, treeOf } from "../program.ts";
import { completionScript } from "./completion.ts";

const signal = new AbortController().signal;
const context = { terminal: fakeTerminal(), environment: {}, signal, force: signal };
const tree = treeOf(buildProgram(context, [], { exitCode: 0 }, new AsyncDisposableStack()));

/** Bash's own answer to `<line><TAB>`. */
function complete(line: string): string[] {
  const words = line.split(" ");
  const script = `${completionScript("bash", tree)}
COMP_WORDS=(${words.map((word) => `'${word}'`).join(" ")}); COMP_CWORD=${words.length - 1}
_whet; printf '%s\\n' "\${COMPREPLY[@]}"`;
  return execFileSync("bash", ["-c", script], { encoding: "utf8" }).split("\n").filter(Boolean);
}

describe("completion", () => {
  it.each(["bash", "zsh", "fish"] as const)("%s accepts its script, where the shell is installed", (shell) => {
    const { error, status, stderr } = spawnSync(shell, ["-n"], {
      input: completionScript(shell, tree),
      encoding: "utf8",
    });
    if (error) return; // not installed here
    expect(stderr).toBe("");
    expect(status).toBe(0);
  });

  it("completes commands, commands of a group, and options", () => {
    expect(complete("whet tr")).toEqual(["train"]);
    expect(complete("whet jobs a")).toEqual(["audit"]);
    expect(complete("whet jobs audit --j")).toEqual(["--json"]);
    expect(complete("whet episodes show x --tok")).toEqual(["--tokens"]);
  });

  it("knows every command in every shell", () => {
    for (const shell of ["bash", "zsh", "fish"] as const) {
      const script = completionScript(shell, tree);
      for (const word of ["up", "down", "status", "doctor", "train", "eval", "checkpoints", "import"])
        expect(script).toContain(word);
    }
  });
});
