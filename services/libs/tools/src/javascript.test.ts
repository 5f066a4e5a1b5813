// SPDX-License-Identifier: Apache-2.0
import { ProcessBackend, type SandboxBackend } from "@whetstone/sandbox";
import { canHaveSandboxes } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { JavaScriptTool } from "./javascript.ts";
import { ToolEnvironment, type ToolOutputs } from "./tool-environment.ts";

const LIMITS = { memoryMiB: 2048, processes: 60 };

/** An environment whose one tool is JavaScript. */
async function opened(backend: SandboxBackend, timeoutMs = 20_000, limits = LIMITS) {
  const environment = new ToolEnvironment({
    task: { question: "?", answer: 1 },
    tools: () => [new JavaScriptTool(backend, { timeoutMs, limits, maxOutputBytes: 400 })],
    rewardFunction: () => ({ reward: 0, isCorrect: false, metadata: {} }),
    maxSteps: 100,
  });
  await environment.reset();
  const run = async (...codes: string[]) => {
    const calls = codes.map((code, i) => ({
      id: `c${i}`,
      name: "javascript",
      argumentsJson: JSON.stringify({ code }),
    }));
    const { observation, info } = await environment.step(calls);
    return { outputs: (observation as ToolOutputs).toolOutputs.map(({ output }) => output), info };
  };
  return { environment, run, [Symbol.asyncDispose]: () => environment.close() };
}

describe.runIf(canHaveSandboxes)("javascript", () => {
  let backend: ProcessBackend;
  beforeAll(async () => {
    backend = await ProcessBackend.start();
  });
  afterAll(async () => {
    await backend[Symbol.asyncDispose]();
  });

  it("keeps names from call to call, and shows the last expression", async () => {
    await using javascript = await opened(backend);
    expect((await javascript.run("let x = 20; function f(n) { return n * 2 }")).outputs).toEqual([""]);
    expect((await javascript.run("console.log('hi'); f(x) + 2", "let y = x")).outputs).toEqual(["hi\n42\n", ""]);
    expect(await javascript.run("y")).toMatchObject({
      outputs: ["20\n"],
      info: { sandboxLevel: backend.level, toolCalls: 4 },
    });
    const shown = ["let x = 1; x", "'text'", "({ a: [1, 2n] })", "new Map([[1, -0]])", "null", "undefined"];
    expect((await javascript.run(...shown)).outputs).toEqual([
      ...["1\n", "'text'\n", "{ a: [ 1, 2n ] }\n", "Map(1) { 1 => -0 }\n", "null\n", ""],
    ]);
  });

  it("awaits at the top level, and has Node's modules", async () => {
    await using javascript = await opened(backend);
    const { outputs } = await javascript.run(
      "const later = await new Promise((done) => setTimeout(done, 20, 6)); later * 7",
      "const { createHash } = require('node:crypto'); createHash('sha256').update('').digest('hex').slice(0, 4)",
      "Promise.resolve(later)",
    );
    expect(outputs).toEqual(["42\n", "'e3b0'\n", "Promise { 6 }\n"]);
  });

  it("shows what went wrong as a console does, without what runs it", async () => {
    await using javascript = await opened(backend);
    const { outputs } = await javascript.run(
      "function f() {\n  return nope\n}",
      "f()",
      "let y =",
      "throw 3",
      "await Promise.reject(new TypeError('bad'))",
      "setTimeout(() => { throw new Error('later') }, 1); await new Promise((done) => setTimeout(done, 100))",
      "'still here'",
    );
    expect(outputs[1]).toBe("Uncaught ReferenceError: nope is not defined\n    at f (call-1:2:3)\n    at call-2:1:1\n");
    expect(outputs[2]).toBe("Uncaught SyntaxError: Unexpected end of input\n");
    expect(outputs[3]).toBe("Uncaught 3\n");
    expect(outputs[4]).toMatch(/^Uncaught TypeError: bad\n/u);
    expect(outputs[5]).toMatch(/^Uncaught Error: later\n/u);
    expect(outputs[6]).toBe("'still here'\n");
  });

  it("ends code at its deadline, and keeps names where it can", async () => {
    await using javascript = await opened(backend, 1000);
    const kept = /^Error: [^]*took longer than 1000 ms; names are kept/u;
    await javascript.run("let x = 1");
    const loops = ["console.log('a'); for (;;) x += 1", "await new Promise(() => undefined)"];
    for (const code of [...loops, "(async () => { await null; for (;;); })(); 1"]) {
      expect((await javascript.run(code)).outputs[0]).toMatch(kept);
      expect((await javascript.run("x > 0")).outputs).toEqual(["true\n"]);
    }
    const stubborn = "setInterval(() => { for (;;); }, 1); await new Promise(() => undefined)";
    await javascript.run(stubborn);
    await javascript.run("1");
    expect((await javascript.run("typeof x")).outputs[0]).toMatch(/'undefined'\n$/u);
  });

  it("says how the interpreter was ended", async () => {
    await using javascript = await opened(backend);
    expect((await javascript.run("let x = 1; process.exit(7)", "x")).outputs).toEqual([
      "Uncaught 'process.exit(7)'\n",
      "1\n",
    ]);
    expect((await javascript.run("process.kill(process.pid)")).outputs[0]).toMatch(/exit code 143\. Names are lost/u);
    expect((await javascript.run("typeof x")).outputs[0]).toMatch(/started anew: [^]*\n'undefined'\n$/u);
    const flood = "for (;;) require('node:fs').writeSync(1, 'x'.repeat(10_000))";
    expect((await javascript.run(flood)).outputs[0]).toMatch(/printed too much/u);
    expect((await javascript.run("2")).outputs[0]).toMatch(/started anew: [^]*\n2\n$/u);
  });

  it("is ended when it takes more memory than it may", async () => {
    if (backend.level !== "A") return; // Elsewhere Node needs far more than it uses.
    await using javascript = await opened(backend, 20_000, { memoryMiB: 256, processes: 60 });
    const grown = "const all = []; for (;;) all.push({ some: [all.length] })";
    expect((await javascript.run(grown)).outputs[0]).toMatch(/ended with exit code 13\d\. Names are lost/u);
    expect((await javascript.run("new Array(1e8).fill(1).length")).outputs[0]).toMatch(/Names are lost/u);
    expect((await javascript.run("1")).outputs[0]).toMatch(/started anew: [^]*\n1\n$/u);
  });

  it("bounds an output: its beginning and its end, errors among it", async () => {
    await using javascript = await opened(backend);
    const { outputs } = await javascript.run("for (let i = 0; i < 5000; i += 1) console.log(i)");
    expect(outputs[0]).toMatch(/^0\n1\n[^]*\n… \d+ bytes of output left out …\n[^]*\n4999\n$/u);
    expect(outputs[0]?.length).toBeLessThan(500);
    const child =
      "require('node:child_process').spawnSync('sh', ['-c', 'echo out; echo err >&2; cat'], { stdio: 'inherit' }).status";
    expect((await javascript.run("console.error('err')", child)).outputs).toEqual(["err\n", "out\nerr\n0\n"]);
  });

  it("reaches no network and no file of the machine, and is nobody else's", async () => {
    await using one = await opened(backend);
    await using other = await opened(backend);
    const { outputs } = await one.run(
      "globalThis.secret = 1; require('node:fs').writeFileSync(process.env.HOME + '/secret', '1')",
      "await fetch('http://127.0.0.1:1').then(() => 'reached', () => 'refused')",
      "await require('node:dns/promises').lookup('example.com').catch(({ code }) => typeof code)",
      `require('node:fs').existsSync(${JSON.stringify(import.meta.filename)})`,
      "require('node:fs').readdirSync('/etc').includes('passwd')",
      "Object.keys(process.env).some((name) => name.startsWith('WHETSTONE'))",
    );
    expect(outputs.slice(1)).toEqual(["'refused'\n", "'string'\n", "false\n", "false\n", "false\n"]);
    const seen = "[typeof secret, require('node:fs').readdirSync(process.env.HOME).includes('secret')]";
    expect((await other.run(seen)).outputs).toEqual(["[ 'undefined', false ]\n"]);
    await one.environment.close();
    await one.environment.close();
  });

  it.each(["B", "C"] as const)("runs at level %s, too", async (level) => {
    const weaker: SandboxBackend = {
      level,
      prepare: (folder) => backend.prepare(folder),
      open: (options) => backend.open({ ...options, level }),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
    await using javascript = await opened(weaker);
    const codes = [
      "const all = []; for (let i = 0; i < 1e6; i += 1) all.push({ i }); all.length",
      "await null; all[7]",
    ];
    expect(await javascript.run(...codes)).toMatchObject({
      outputs: ["1000000\n", "{ i: 7 }\n"],
      info: { sandboxLevel: level },
    });
  });

  it("I6: a sandbox without Node is not the policy's fault", async () => {
    const withoutNode: SandboxBackend = {
      level: backend.level,
      prepare: (folder) => backend.prepare(folder),
      open: async (options) => {
        const sandbox = await backend.open(options);
        const exec = sandbox.exec.bind(sandbox);
        sandbox.exec = (command, more) => exec(command, { ...more, env: { PATH: "/nowhere" } });
        return sandbox;
      },
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
    await using javascript = await opened(withoutNode);
    await expect(javascript.run("1")).rejects.toMatchObject({
      failureClass: "INFRASTRUCTURE",
      message: expect.stringContaining("the sandbox cannot run node") as string,
    });
  });
});
