// SPDX-License-Identifier: Apache-2.0
// What coding command lines are started with; tests/integration/coding-clis plays real ones.
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { codingCliAgentIn } from "./coding-cli.ts";
import { CODING_CLI_NAMES } from "./coding-clis.ts";

let folder: string;
let program: string;
/** Stands in for the program: writes down what it was started with. */
const NOTES = `#!/bin/sh
{ printf '<%s>' "$@"; echo; env; } > "$NOTES"
echo done`;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "coding-cli-test-"));
  program = join(folder, "program");
  writeFileSync(program, NOTES);
  chmodSync(program, 0o755);
  // For mini-swe-agent's record.
  writeFileSync(join(folder, "python"), "#!/bin/sh\necho done");
  chmodSync(join(folder, "python"), 0o755);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const PROMPT = `What's "6 * 7"?\n$(touch harm) \`touch harm\``;

async function play(args: Record<string, unknown>, payload: Record<string, unknown> = { question: PROMPT }) {
  const endpoint = { baseUrl: "http://gateway/s/1/v1", apiKey: "the-key", model: "the-model" };
  const now = { seed: 1, try: 1, signal: AbortSignal.timeout(10_000), deadline: Date.now() + 10_000 };
  const run = codingCliAgentIn().create({ program, cwd: folder, env: { NOTES: join(folder, "notes") }, ...args });
  return await run({ ...endpoint, ...now, task: { id: "t", payload }, args: {}, episodeId: "e" });
}

it.each(CODING_CLI_NAMES)("%s gets the prompt as it is, model, key and where the gateway is", async (cli) => {
  expect(await play({ cli })).toEqual({ output: "done" });
  const notes = readFileSync(join(folder, "notes"), "utf8");
  expect(notes).toContain(`<${PROMPT}>`);
  expect(existsSync(join(folder, "harm"))).toBe(false);
  for (const told of ["the-model", "the-key", "http://gateway/s/1"]) expect(notes).toContain(told);
});

it("claude-code's base URL is without /v1, and opencode's settings are JSON", async () => {
  await play({ cli: "claude-code" });
  expect(readFileSync(join(folder, "notes"), "utf8")).toMatch(/^ANTHROPIC_BASE_URL=http:\/\/gateway\/s\/1$/m);
  await play({ cli: "opencode" });
  const [, settings = ""] =
    /^OPENCODE_CONFIG_CONTENT=(.*?\n.*?\n.*?)$/m.exec(readFileSync(join(folder, "notes"), "utf8")) ?? [];
  expect(JSON.parse(settings)).toMatchObject({ model: "whetstone/the-model" });
});

it("takes the prompt from the field that the job names, and says where there is none", async () => {
  await play({ cli: "codex", promptField: "issue" }, { issue: "Mend it." });
  expect(readFileSync(join(folder, "notes"), "utf8")).toContain("<Mend it.>");
  await expect(play({ cli: "codex" }, { issue: "Mend it." })).rejects.toMatchObject({
    failureClass: "TASK",
    message: expect.stringContaining("payload.question") as string,
  });
});

it.each([
  [{ cli: "vim" }, "cli"],
  [{ cli: "codex", program: "codex" }, "program"],
  [{ cli: "codex", command: ["true"] }, "command"],
])("%j is refused with its path", async (args, path) => {
  await expect(play(args)).rejects.toThrow(path);
});

it("fails where the program does, also where something comes after it", async () => {
  writeFileSync(program, "#!/bin/sh\necho broken >&2; exit 3");
  for (const cli of CODING_CLI_NAMES)
    await expect(play({ cli })).rejects.toMatchObject({ failureClass: "INFRASTRUCTURE", message: /broken/ });
});
