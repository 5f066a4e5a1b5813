// SPDX-License-Identifier: Apache-2.0
// R2E-Gym's tools, in a sandbox.
import { ProcessBackend } from "@whetstone/sandbox";
import type { Info } from "@whetstone/sdk";
import { ToolRegistry } from "@whetstone/tools";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RepositorySandbox } from "../instance/repository-sandbox.ts";
import { toolsOf } from "./toolset.ts";

const LONG = [
  "def long(a,",
  "         b):",
  ...Array.from({ length: 120 }, (_, i) => `    a += ${i}`),
  "",
  "",
  "def short():",
  "    return 1",
];

describe.runIf(canHaveSandboxes)("tools of R2E-Gym", () => {
  let backend: ProcessBackend;
  let shell: RepositorySandbox;
  let registry: ToolRegistry;
  beforeAll(async () => {
    backend = await ProcessBackend.start();
    shell = await RepositorySandbox.open(
      backend,
      { state: await backend.prepare("/usr/share/misc"), [Symbol.asyncDispose]: () => Promise.resolve() },
      { root: "/workspace", environment: {} },
    );
    await shell.sandbox.upload([
      { path: "a.py", content: "x = 1\ny = 2\nx_y = x\n" },
      { path: "it's/long.py", content: LONG.join("\n") },
      { path: "it's/.hidden.py", content: "x = 1" },
      { path: "notes.txt", content: "x = 1\n" },
    ]);
    registry = new ToolRegistry(toolsOf("r2e-gym", shell, { timeoutMs: 30_000, maxOutputBytes: 10_000 }));
  });
  afterAll(async () => {
    await shell[Symbol.asyncDispose]();
    await backend[Symbol.asyncDispose]();
  });

  async function run(name: string, args: Info): Promise<string> {
    const call = { id: "c", name, argumentsJson: JSON.stringify(args) };
    return (await registry.run(call, undefined, { maxOutputCharacters: 20_000 })).output;
  }
  const edit = (args: Info): Promise<string> => run("file_editor", { path: "edited.py", ...args });
  const text = async (): Promise<string> =>
    (await shell.run("cat edited.py", { timeoutMs: 30_000, maxOutputBytes: 10_000 })).stdout;

  it("view files with numbers, ranges, and folders", async () => {
    expect(await run("file_editor", { command: "view", path: "a.py" })).toMatch(/\n {5}1\tx = 1\n {5}2\ty = 2\n/u);
    expect(await run("file_editor", { command: "view", path: "/workspace/a.py", view_range: [2, 3] })).toBe(
      "Execution output of [file_editor]:\nLines of /workspace/a.py:\n     2\ty = 2\n     3\tx_y = x",
    );
    const folder = await run("file_editor", { command: "view", path: "." });
    expect(folder).toContain("./it's/long.py");
    expect(folder).not.toContain("hidden");
  });

  it("view a long file without its functions' bodies", async () => {
    const shown = await run("file_editor", { command: "view", path: "it's/long.py" });
    expect(shown).toMatch(
      /2\t {9}b\):\n +… lines 3 to 122 left out …\n +123\t\n +124\t\n +125\tdef short\(\):\n +126\t {4}return 1/u,
    );
    expect(await run("file_editor", { command: "view", path: "it's/long.py", concise: false })).toContain("a += 119");
  });

  it("create, replace, insert, and take all of it back", async () => {
    expect(await edit({ command: "create", file_text: "def f():\n    return 1\n" })).toMatch(/edited\.py was created/u);
    expect(await edit({ command: "create", file_text: "" })).toMatch(/^Error: edited\.py is there already/u);
    expect(await edit({ command: "str_replace", old_str: "    return 1", new_str: "    return $& '2'" })).toContain(
      "return $& '2'",
    );
    await edit({ command: "insert", insert_line: 0, new_str: "# first" });
    expect(await text()).toBe("# first\ndef f():\n    return $& '2'\n");
    await edit({ command: "undo_edit" });
    await edit({ command: "undo_edit" });
    expect(await text()).toBe("def f():\n    return 1\n");
    await edit({ command: "undo_edit" });
    expect(await edit({ command: "view" })).toBe("Error: edited.py is not there.");
    expect(await edit({ command: "undo_edit" })).toMatch(/^Error: There is no edit/u);
  });

  it.each([
    [{ command: "str_replace", old_str: "x" }, /more than once/u],
    [{ command: "str_replace", old_str: "no" }, /does not stand in the file/u],
    [{ command: "str_replace" }, /str_replace needs old_str/u],
    [{ command: "insert", new_str: "z", insert_line: 9 }, /the file has the lines 1 to 4/u],
    [{ command: "view", view_range: [3, 9] }, /the file has the lines 1 to 4/u],
    [{ command: "remove" }, /arguments\.command/u],
    [{ command: "view", path: "/etc/shadow" }, /is not there/u],
    [{ command: "create", path: "/usr/x", file_text: "" }, /cannot be written/u],
    [{ command: "insert", path: ".", new_str: "", insert_line: 0 }, /is a folder/u],
  ])("answer %j with what is wrong", async (args, message) => {
    expect(await run("file_editor", { path: "a.py", ...args })).toMatch(new RegExp(`^Error: .*${message.source}`, "u"));
  });

  it("search in files and folders", async () => {
    expect(await run("search", { search_term: "x", path: "a.py" })).toMatch(/\n1:x = 1\n3:x_y = x$/u);
    expect(await run("search", { search_term: "x = 1" })).toMatch(/with "x = 1":\n\.\/a\.py \(1 lines\)$/u);
    expect(await run("search", { search_term: "nowhere" })).toMatch(/No Python file/u);
    expect(await run("search", { search_term: "x", path: "gone" })).toMatch(/^Error: gone is neither/u);
    expect(await run("search", { search_term: "'; rm -rf /workspace/a.py; '" })).toMatch(/No Python file/u);
  });

  it("run commands, and say how they ended", async () => {
    expect(await run("execute_bash", { cmd: "echo a; echo b >&2; exit 3" })).toBe(
      "Exit code: 3\nExecution output of [execute_bash]:\n[STDOUT]\na\n[STDERR]\nb",
    );
    expect(await run("execute_bash", { cmd: "seq 1000" })).toMatch(/\n39\n… \(923 lines left out\) …\n963\n/u);
  });
});
