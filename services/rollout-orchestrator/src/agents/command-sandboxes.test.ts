// SPDX-License-Identifier: Apache-2.0
import { chmodSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { canHaveSandboxes } from "@whetstone/testkit";
import type { SandboxedCommand } from "@whetstone/sdk";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CommandSandboxes } from "./command-sandboxes.ts";

const folder = realpathSync(mkdtempSync(join(tmpdir(), "whetstone-programs-")));
const paths: (string | undefined)[] = [];
const gateway = createServer(({ url }: IncomingMessage, response) => {
  paths.push(url);
  response.end("answer");
});
let commands: CommandSandboxes;
let port: number;

beforeAll(async () => {
  await new Promise<void>((resolve) => gateway.listen(0, "127.0.0.1", resolve));
  ({ port } = gateway.address() as AddressInfo);
  const connectGateway = () => connect({ host: "127.0.0.1", port, allowHalfOpen: true });
  commands = new CommandSandboxes({ connectGateway, programFolders: [folder], memoryMiB: 512 });
  chmodSync(folder, 0o755);
  writeFileSync(join(folder, "secret"), "secret", { mode: 0o644 });
});

afterAll(async () => {
  await commands[Symbol.asyncDispose]();
  gateway.closeAllConnections();
  gateway.close();
  rmSync(folder, { recursive: true });
});

const ASKS = `
import json, os, urllib.request
task = json.load(open(os.environ["TASK"]))
answer = urllib.request.urlopen(os.environ["URL"] + "/chat").read().decode()
json.dump({"reward": task["n"], "answer": answer}, open("result.json", "w"))`;

function command(program: string, more: Partial<SandboxedCommand> = {}): SandboxedCommand {
  return {
    command: ["python3", "-c", program],
    cwd: undefined,
    env: (inside, baseUrl) => ({ TASK: `${inside}/task.json`, URL: baseUrl }),
    files: { "task.json": '{"n": 7}' },
    resultFile: "result.json",
    maxResultBytes: 20_000,
    baseUrl: `http://gateway.invalid:1/s/one/v1`,
    deadline: Date.now() + 60_000,
    sandbox: { backend: "process", network: [], readable: [] },
    ...more,
  };
}

const run = (given: SandboxedCommand, signal = new AbortController().signal) => commands.run(given, signal);
const reads = `print(open("${folder}/secret").read())`;
const reading = (readable: string[]): Partial<SandboxedCommand> => ({
  sandbox: { backend: "process", network: [], readable },
});

describe.runIf(canHaveSandboxes)("a command in a sandbox", () => {
  it("reaches the gateway by the URL it is told, and leaves its result", async () => {
    const { end, result } = await run(command(ASKS));
    expect(end).toMatchObject({ exitCode: 0, stderr: "" });
    expect(JSON.parse(result ?? "")).toEqual({ reward: 7, answer: "answer" });
    expect(paths).toEqual(["/s/one/v1/chat"]);
  });

  it("reads the folders that its job names, where the service allows them, and no others", async () => {
    expect((await run(command(reads))).end.exitCode).toBe(1);
    expect((await run(command(reads, reading([folder])))).end.stdout).toBe("secret\n");
    expect((await run(command('print(open("secret").read())', { cwd: folder }))).end.stdout).toBe("secret\n");
    for (const path of ["/etc", `${folder}x`, `${folder}/..`, join(folder, "nothing")])
      await expect(run(command(reads, reading([path])))).rejects.toMatchObject({ failureClass: "TASK" });
  });

  it("reaches nothing else of the machine", async () => {
    const program = `import socket; socket.create_connection(("127.0.0.1", ${port}), 5)`;
    expect((await run(command(program))).end.stderr).toContain("Connection refused");
  });

  it("says which limit it ran into, and ends with the episode", async () => {
    const bomb = command("x = bytearray(2_000_000_000); print(len(x))");
    await expect(run(bomb)).rejects.toMatchObject({ failureClass: "INFRASTRUCTURE", message: /MEMORY/ });
    const controller = new AbortController();
    setTimeout(() => controller.abort(new Error("cancelled")), 2_000);
    await expect(run(command("import time; time.sleep(60)"), controller.signal)).rejects.toThrow("cancelled");
  });

  it("that leaves a result too large is told so", async () => {
    const program = `open("result.json", "w").write("x" * 100_000)`;
    await expect(run(command(program))).rejects.toMatchObject({ failureClass: "TASK", message: /larger than 20000/ });
  });
});
