// SPDX-License-Identifier: Apache-2.0
// A program that names no roles: its rollout is told apart from what it asks the model beside it.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { FakeEngine } from "../test/fake-engine.ts";
import { calls, type Gateway, post, serve, startGateway } from "../test/harness.ts";
import { FIRST_MARK, idsOf, templatedModel } from "../test/templated-model.ts";

let folder: string;
let engine: FakeEngine;
let gateway: Gateway;
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "whetstone-conversations-"));
  engine = await FakeEngine.start();
  engine.maxModelLen = 1 << 20;
  engine.ends.add(FIRST_MARK);
  engine.label = "job:1";
  engine.script = () => [...idsOf("qwen2.5", "Good."), FIRST_MARK];
  gateway = await startGateway();
  await serve(gateway, "e0", engine.url, templatedModel(folder, "qwen2.5"));
});
afterAll(async () => {
  await gateway.close();
  await engine.kill();
  rmSync(folder, { recursive: true, force: true });
});

interface Asked {
  readonly system?: string;
  /** In turn the user's words and the model's. */
  readonly said: readonly string[];
  readonly tools?: readonly string[];
  readonly role?: string;
}

let sessions = 0;
/** The roles of calls, in the order in which they were made. */
async function rolesOf(asked: readonly Asked[]): Promise<string[]> {
  const session = `s${sessions++}`;
  for (const { system, said, tools = [], role = "" } of asked) {
    const turns = said.map((content, i) => ({ role: i % 2 === 0 ? "user" : "assistant", content }));
    const messages = [...(system === undefined ? [] : [{ role: "system", content: system }]), ...turns];
    const offered = tools.map((name) => ({ type: "function", function: { name, parameters: {} } }));
    const body = { model: "job", messages, ...(tools.length > 0 ? { tools: offered } : {}) };
    const headers = { "x-whetstone-role": role };
    const { status } = await post(gateway, `/s/${session}/v1/chat/completions`, body, { headers });
    expect(status).toBe(200);
  }
  return (await calls(gateway, session)).calls.map((call) => call.role);
}

const CODER = { system: "Be a coder.", tools: ["bash", "read"] };
const TITLE = { system: "Write a title.", said: ["Mend it."] };

it("a title asked for before the rollout is beside it", async () => {
  const again = { ...CODER, said: ["Mend it.", "Good.", "Go on."] };
  expect(await rolesOf([TITLE, { ...CODER, said: ["Mend it."] }, again])).toEqual(["side", "agent", "agent"]);
  expect(await rolesOf([TITLE, { ...CODER, said: ["Mend it."] }])).toEqual(["side", "agent"]);
});

it("a sub-agent has tools, another task and other instructions", async () => {
  const scout = { system: "Look around.", tools: ["read"], said: ["Where is it?"] };
  expect(await rolesOf([{ ...CODER, said: ["Mend it."] }, scout])).toEqual(["agent", "subagent"]);
});

it("a sub-agent with the same tools and instructions begins while the rollout goes on", async () => {
  const on = { ...CODER, said: ["Mend it.", "Good.", "Go on."] };
  const clone = { ...CODER, said: ["Where is it?"] };
  expect(await rolesOf([{ ...CODER, said: ["Mend it."] }, clone, on])).toEqual(["agent", "subagent", "agent"]);
  expect(await rolesOf([{ said: ["Mend it."] }, { said: ["Where?"] }, { said: on.said }])).toEqual([
    "agent",
    "subagent",
    "agent",
  ]);
});

it("a summary of the rollout is beside it, and what goes on from it is not", async () => {
  const summary = { system: CODER.system, said: ["Mend it.", "Good.", "Sum it up."] };
  const shorter = { ...CODER, said: ["So far: good."] };
  expect(await rolesOf([{ ...CODER, said: ["Mend it."] }, summary, shorter])).toEqual(["agent", "side", "agent"]);
});

it("tools that are loaded on the way, and instructions that change, make no other conversation", async () => {
  const loaded = { ...CODER, tools: ["bash", "read", "search"], said: ["Mend it.", "Good.", "Go on."] };
  const dated = { ...CODER, system: "Be a coder. It is noon.", said: ["Mend it.", "Rewritten.", "Go on."] };
  expect(await rolesOf([{ ...CODER, said: ["Mend it."] }, loaded, dated])).toEqual(["agent", "agent", "agent"]);
});

it("without tools the rollout is the conversation with most calls", async () => {
  const turns = [["Mend it."], ["Mend it.", "Good.", "Go on."]];
  const rollout = turns.map((said) => ({ system: "Be a coder.", said }));
  const title = { ...TITLE, said: ["Mend it. Title?"] };
  expect(await rolesOf([title, ...rollout])).toEqual(["side", "agent", "agent"]);
});

it("prompts of their own without instructions and tools are one conversation", async () => {
  expect(await rolesOf([{ said: ["2 + 2?"] }, { said: ["3 + 3?"] }])).toEqual(["agent", "agent"]);
});

it("a role that the client names stays, also where a call without one goes on from it", async () => {
  const judge = { ...TITLE, role: "judge" };
  const on = { ...TITLE, said: ["Mend it.", "Good.", "Shorter."] };
  expect(await rolesOf([judge, on, { ...CODER, said: ["Mend it."] }])).toEqual(["judge", "judge", "agent"]);
});
