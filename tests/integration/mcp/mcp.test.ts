// SPDX-License-Identifier: Apache-2.0
// MCP servers of others, in sandboxes of episodes, through a real env-runner.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fromJsonString, type JsonObject } from "@bufbuild/protobuf";
import { TaskSchema } from "@whetstone/proto/types/v1/types";
import { canHaveSandboxes, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import {
  type EnvRunnerProcess,
  startEnvRunner,
} from "../../../services/rollout-orchestrator/test-support/env-runner-process.ts";
import { Episodes, installed, newer, odd, processesWith, SERVERS } from "./episodes.ts";

const env = { WHETSTONE_MCP_SERVERS_PATH: SERVERS };
/** No other run of this file has it on a command line; `sleep` takes it for a number. */
const MARKER = `4712.${process.pid}`;

describe.runIf(canHaveSandboxes)("MCP servers in sandboxes", { timeout: 120_000 }, () => {
  let runner: EnvRunnerProcess;
  let episodes: Episodes;
  beforeAll(async () => {
    runner = await startEnvRunner({ env });
    episodes = new Episodes(runner.address);
  });
  afterAll(async () => {
    await episodes[Symbol.asyncDispose]();
    await runner[Symbol.asyncDispose]();
  });

  it("everything: texts, structured results, resources and links; images beside their text", async () => {
    const episode = episodes.open(installed("everything", "stdio"));
    const { tools, message } = await episode.reset();
    expect([message, tools]).toEqual(["", expect.arrayContaining(["echo", "get-sum", "get-tiny-image"])]);
    expect((await episode.call("echo", { message: "hello" })).output).toBe("Echo: hello");
    const { info, output } = await episode.call("get-structured-content", { location: "Chicago" });
    expect(JSON.parse(output)).toMatchObject({ temperature: expect.any(Number) as number });
    expect(info).toMatchObject({ mcpServer: expect.stringContaining("everything") as string, toolCalls: 2 });
    expect((await episode.call("get-resource-links", { count: 2 })).output).toMatch(/demo:\/\/resource/u);
    const resource = await episode.call("get-resource-reference", { resourceType: "Text", resourceId: 1 });
    expect(resource.output).toMatch(/demo:\/\/resource.*\n/u);
    const image = await episode.call("get-tiny-image");
    expect(image).toMatchObject({ isError: false, output: expect.stringContaining("[image 1]") as string });
    expect(image.images).toMatchObject([
      { mediaType: "image/png", digest: expect.stringMatching(/^[0-9a-f]{64}$/u) as string },
    ]);
    expect(await episode.answer("right")).toMatchObject({ reward: 1 });
    expect(await episode.close()).toBe("closed");
  });

  it("filesystem: sees the folder of its sandbox and nothing of the machine; an error is for the model to read", async () => {
    const files = { "notes.txt": "tea is 3" };
    const episode = episodes.open({ ...installed("filesystem", "/"), files, tools: ["read_text_file"] });
    expect((await episode.reset()).tools).toEqual(["read_text_file"]);
    expect((await episode.call("read_text_file", { path: "/workspace/notes.txt" })).output).toBe("tea is 3");
    for (const path of ["/etc/hostname", join(SERVERS, "../package.json"), "/workspace/none"])
      expect((await episode.call("read_text_file", { path })).isError).toBe(true);
    expect((await episode.call("write_file", { path: "/workspace/a", content: "" })).output).toContain(
      "there is no tool",
    );
    expect((await episode.call("read_text_file", { path: 7 })).output).toMatch(/^Error: arguments\.path/u);
    expect(await episode.answer("wrong")).toMatchObject({ reward: 0 });
    await episode.close();
  });

  it("examples/mcp: a price that only a file says", async () => {
    const folder = join(import.meta.dirname, "../../../examples/mcp");
    const job = parse(readFileSync(join(folder, "job.yaml"), "utf8")) as { environment: { args: JsonObject } };
    const tasks = readFileSync(join(folder, "train.jsonl"), "utf8").trimEnd().split("\n");
    const [task] = tasks.map((line) => fromJsonString(TaskSchema, line));
    const episode = episodes.open({ ...job.environment.args, ...task?.payload });
    expect((await episode.reset()).message).toBe("");
    const { output } = await episode.call("read_text_file", { path: "/workspace/prices.csv" });
    expect(await episode.answer(`\\boxed{${/tea,(\d+)/u.exec(output)?.[1]}}`)).toMatchObject({ reward: 1 });
    await episode.close();
  });

  it("memory: each episode has its own", async () => {
    const args = { ...installed("memory"), env: { MEMORY_FILE_PATH: "/workspace/memory.json" } };
    const [one, other] = [episodes.open(args), episodes.open(args)];
    await Promise.all([one.reset(), other.reset()]);
    const entities = [{ name: "tea", entityType: "drink", observations: ["hot"] }];
    expect((await one.call("create_entities", { entities })).isError).toBe(false);
    expect((await one.call("read_graph")).output).toContain("tea");
    expect((await other.call("read_graph")).output).not.toContain("tea");
    await Promise.all([one.close(), other.close()]);
  });

  it("speaks the newer generation of the protocol with those that do", async () => {
    const episode = episodes.open(newer());
    expect(await episode.reset()).toMatchObject({ message: "", tools: ["double"] });
    const { output, info } = await episode.call("double", { a: 21 });
    expect([JSON.parse(output), info["mcpProtocol"]]).toEqual([{ twice: 42 }, "2026-07-28"]);
    await episode.close();
  });

  describe("is the environment's failure, never a reward:", () => {
    it.each([
      ["dies", /exit code 3/u],
      ["hangs", /after say took too long.*time/iu],
      ["wrong-result", /not what its outputSchema says/u],
      ["no-result", /to call say/u],
      ["huge", /message of more than 100000 bytes/u],
      ["prints", /"hello".*|no message of MCP/u],
      ["breaks", /disk on fire/u],
    ])("a server that %s", async (mode, message) => {
      // Only who hangs is found out at a call's deadline; of the others it is known at once.
      const callTimeoutMs = mode === "hangs" ? 2000 : 600_000;
      const episode = episodes.open(odd(mode, MARKER, { callTimeoutMs, maxMessageBytes: 100_000 }));
      expect((await episode.reset()).message).toBe("");
      const failed = await episode.call("say", { word: "a" });
      expect(failed).toMatchObject({ failed: "ENVIRONMENT", message: expect.stringMatching(message) as string });
      expect(failed.reward).toBeUndefined();
    });

    it("a server whose tools change once the model has seen them", async () => {
      const episode = episodes.open(odd("changes", MARKER));
      await episode.reset();
      expect((await episode.call("say", { word: "a" })).output).toBe("changed");
      expect(await episode.call("say", { word: "a" })).toMatchObject({
        failed: "ENVIRONMENT",
        message: expect.stringContaining("tool say: it changed within the episode") as string,
      });
    });

    it.each([
      ["wrong-schema", /to list its tools/u],
      ["silent", /to be connected/u],
    ])("a server that begins %s", async (mode, message) => {
      const answer = await episodes.open(odd(mode, MARKER, { startTimeoutMs: 8000 })).reset();
      expect(answer).toMatchObject({ failed: "ENVIRONMENT", message: expect.stringMatching(message) as string });
    });

    it.each([
      ["is late", "late", 15_000],
      ["does not answer what it does not know", "reticent", 6_000],
    ])("a server that %s is waited for, and plays", async (_name, mode, startTimeoutMs) => {
      const episode = episodes.open(odd(mode, MARKER, { startTimeoutMs }));
      expect(await episode.reset()).toMatchObject({ message: "", tools: ["say"] });
      expect((await episode.call("say", { word: "tea" })).output).toBe("tea");
      expect(await episode.close()).toBe("closed");
    });

    it("a server that is not there", async () => {
      const { failed, message } = await episodes.open({ command: ["no-such-server"] }).reset();
      expect([failed, message]).toEqual(["ENVIRONMENT", expect.stringMatching(/exit code 127.*no-such-server/u)]);
    });
  });

  it.each([
    ["slow", /^Error: say took longer than 2000 ms/u],
    ["refuses-arguments", /^Error: .*not this one/u],
  ])("the model reads it when a server %s", async (mode, output) => {
    const episode = episodes.open(odd(mode, MARKER, { callTimeoutMs: 2000 }));
    await episode.reset();
    const seen = await episode.call("say", { word: "a" });
    expect(seen).toMatchObject({ isError: true, output: expect.stringMatching(output) as string });
    await episode.close();
  });

  it("leaves no process after close, however stubborn the server is", async () => {
    const marker = `${MARKER}1`;
    const episode = episodes.open(odd("stubborn", marker));
    expect((await episode.reset()).message).toBe("");
    expect(processesWith(`sleep\0${marker}`).length).toBeGreaterThan(0);
    expect((await episode.call("say", { word: "here" })).output).toBe("here");
    expect(await episode.close()).toBe("closed");
    expect(processesWith(marker)).toEqual([]);
  });

  it("leaves no process when its env-runner is killed", async () => {
    const marker = `${MARKER}2`;
    const own = await startEnvRunner({ env });
    await using others = new Episodes(own.address);
    const episode = others.open(odd("stubborn", marker));
    expect((await episode.reset()).message).toBe("");
    expect(processesWith(`sleep\0${marker}`).length).toBeGreaterThan(0);
    await own.kill();
    await waitFor(() => processesWith(marker).length === 0, { what: "the server to end", timeoutMs: 10_000 });
  });
});
