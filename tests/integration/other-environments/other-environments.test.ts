// SPDX-License-Identifier: Apache-2.0
// Other people's environments as their packages have them, 100 episodes each through all services: who knows the answers is paid
// for all of them by the environment's own grading, who does not is not, and what fails is never a reward.
// `make setup-other-environments` installs the packages; without them nothing runs here, unless WHETSTONE_OTHER_ENVIRONMENTS is "required".
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { JsonObject } from "@bufbuild/protobuf";
import { JobService } from "@whetstone/proto/jobs/v1/jobs";
import { createClient } from "@whetstone/rpc";
import { freePort, waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WHET } from "../../support/whet.ts";
import { type LocalRuntime, smallJob, startLocalRuntime } from "../../support/local-runtime.ts";

const ROOT = join(import.meta.dirname, "../../..");
const PYTHON = join(ROOT, ".whetstone/other-environments/bin/python");
const LIMIT_MS = 300_000;
const SOUND = { lost: 0, duplicated: 0, stale: 0, unlabelled: 0, inFlight: 0 };
/** Groups of four. */
const HUNDRED = { steps: 5, groups: 5 };

const isLeftOut = !existsSync(PYTHON) && process.env["WHETSTONE_OTHER_ENVIRONMENTS"] !== "required";

interface Refused {
  readonly error: { readonly violations: readonly { readonly path: string; readonly reason: string }[] };
}

interface Game {
  readonly trajectories: readonly { readonly reward?: number }[];
}

describe.skipIf(isLeftOut)("other people's environments", () => {
  let runtime: LocalRuntime;
  let folder: string;
  let server: ChildProcess;
  let url: string;

  beforeAll(async () => {
    // Inside the repository, so that the SDK is found as it is in a project that has it installed.
    mkdirSync(join(ROOT, ".whetstone"), { recursive: true });
    folder = mkdtempSync(join(ROOT, ".whetstone/other-environments-"));
    server = spawn(PYTHON, [join(import.meta.dirname, "openenv_server.py"), "64"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    process.env["WHETSTONE_ENV_PYTHON"] = PYTHON;
    process.env["PYTHONPATH"] = import.meta.dirname; // Where verifiers finds verifiers_sums.
    const packages = ["gymnasium", "reasoning-gym", "textarena", "verifiers"].flatMap((name) => ["--python-env", name]);
    runtime = await startLocalRuntime(...packages);
    const [port] = (await once(server.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
    url = `http://127.0.0.1:${port.toString().trim()}`;
  }, LIMIT_MS);
  afterAll(async () => {
    delete process.env["WHETSTONE_ENV_PYTHON"];
    delete process.env["PYTHONPATH"];
    server.kill("SIGKILL");
    await runtime[Symbol.asyncDispose]();
    rmSync(folder, { recursive: true, force: true });
  });

  function train(name: string, kind: string, environment: JsonObject, size = HUNDRED) {
    const job = {
      ...smallJob(name, runtime.model, size),
      agent: { kind },
      environment,
      module: { path: join(import.meta.dirname, "policies.ts") },
      limits: { maxSteps: 12, maxPromptTokens: 256, maxResponseTokens: 256, episodeTimeout: "120s", retryLimit: 0 },
    };
    const file = join(folder, `${name}.json`);
    writeFileSync(file, JSON.stringify(job));
    return runtime.whet("train", file);
  }

  /** Share of the episodes that succeeded, by the environments' own word, step by step. */
  async function rates(name: string): Promise<number[]> {
    await using jobs = createClient(JobService, runtime.address("controller"));
    const found: number[] = [];
    for await (const { event } of jobs.streamMetrics({ name, follow: false }))
      if (event.case === "step") found.push(event.value.metrics["rollout/success"] ?? Number.NaN);
    return found;
  }

  const gymnasium = {
    kind: "gymnasium",
    pool: "python",
    args: { id: "FrozenLake-v1", is_slippery: false, actions: ["left", "down", "right", "up"] },
  };
  const reasoning = { kind: "reasoning-gym", pool: "python", args: { dataset: "chain_sum" } };
  const textarena = { kind: "textarena", pool: "python", args: { game: "GuessTheNumber-v0" } };
  const verifiers = { kind: "verifiers", pool: "python", args: { taskset: "verifiers_sums" } };
  const openenv = (): JsonObject => ({ kind: "openenv", args: { url, reset: { highest: 9 }, callTimeoutMs: 3000 } });

  it.each([
    ["lake", "gymnasium", () => gymnasium],
    ["sums", "reasoning-gym", () => reasoning],
    ["sums", "verifiers", () => verifiers],
    ["guesses", "textarena", () => textarena],
    ["numbers", "openenv", openenv],
  ] as const)(
    "pays %s, who knows how, for a hundred episodes of %s",
    async (agent, kind, environment) => {
      const name = `${agent}-${kind}`;
      const { status, output } = train(name, agent, environment());
      expect(status, output).toBe(0);
      expect(runtime.whet("jobs", "audit", name).json).toMatchObject({ ...SOUND, trained: 100, voided: 0 });
      expect(await rates(name)).toEqual([1, 1, 1, 1, 1]);
    },
    LIMIT_MS,
  );

  it.each([
    ["drunkard", "gymnasium", () => gymnasium],
    ["nonsense", "reasoning-gym", () => reasoning],
    ["nonsense", "verifiers", () => verifiers],
    ["nonsense", "textarena", () => textarena],
    ["nonsense", "openenv", openenv],
  ] as const)(
    "does not pay %s in %s, and voids nothing of it: what is no action is the environment's to judge",
    async (agent, kind, environment) => {
      const name = `${agent}-${kind}`;
      const { status, output } = train(name, agent, environment(), { steps: 1, groups: 5 });
      expect(status, output).toBe(0);
      expect(runtime.whet("jobs", "audit", name).json).toMatchObject({ ...SOUND, trained: 20, voided: 0 });
      expect(Math.max(...(await rates(name)))).toBeLessThanOrEqual(0.3);
    },
    LIMIT_MS,
  );

  it(
    "voids what an OpenEnv server gets wrong, and pays for the rest",
    async () => {
      const { status, output } = train("trouble", "trouble", openenv());
      expect(status, output).toBe(0);
      const audit = runtime.whet("jobs", "audit", "trouble").json as { trained: number; voided: number };
      expect(audit).toMatchObject(SOUND);
      expect(audit.voided).toBeGreaterThan(5);
      expect(audit.trained + audit.voided).toBe(100);
      expect(await rates("trouble")).toEqual([1, 1, 1, 1, 1]);
    },
    LIMIT_MS,
  );

  it(
    "plays a game for two against itself: both sides are trained",
    async () => {
      const environment = { ...textarena, args: { game: "TicTacToe-v0", players: 2 } };
      const { status, output } = train("self-play", "self-play", environment);
      expect(status, output).toBe(0);
      expect(runtime.whet("jobs", "audit", "self-play").json).toMatchObject({ ...SOUND, voided: 0 });
      const file = join(folder, "games.jsonl");
      expect(runtime.whet("episodes", "export", "self-play", "--jsonl", file).status).toBe(0);
      const games = readFileSync(file, "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as Game);
      expect(games.length).toBe(100);
      const rewards = games.map(({ trajectories }) => trajectories.map(({ reward = 0 }) => reward).toSorted());
      for (const pair of rewards)
        expect([
          [-1, 1],
          [0, 0],
        ]).toContainEqual(pair);
      expect(rewards.flat()).toContain(1);
    },
    LIMIT_MS,
  );

  it(
    "trains examples/openenv as it stands, but for its port",
    async () => {
      const port = await freePort();
      const own = (name: string): string => {
        const file = join(folder, name);
        const text = readFileSync(join(ROOT, "examples/openenv", name), "utf8");
        writeFileSync(file, text.replaceAll("8000", String(port)));
        return file;
      };
      const example = spawn(PYTHON, [own("server.py")], { stdio: ["ignore", "ignore", "inherit"] });
      try {
        const served = `http://127.0.0.1:${port}`;
        await waitFor(
          () =>
            fetch(`${served}/health`).then(
              ({ ok }) => ok,
              () => false,
            ),
          { timeoutMs: 120_000 },
        );
        const checked = runtime.whet("envs", "check", served, "--timeout", "20");
        expect(checked.status, checked.output).toBe(0);
        const short = ["--model", runtime.model, "--set", "loop.steps=1", "--set", "loop.batchGroups=2"];
        const { status, output } = runtime.whet("train", own("job.yaml"), ...short);
        expect(status, output).toBe(0);
        expect(runtime.whet("jobs", "audit", "openenv").json).toMatchObject({ ...SOUND, trained: 16, voided: 0 });
      } finally {
        example.kill("SIGKILL");
      }
    },
    LIMIT_MS,
  );

  it(
    "serves frozenlake to openenv-core's own client, the same episode for the same seed",
    async () => {
      const flags = ["--args", '{"size": 4}', "--listen", "127.0.0.1:0", "--data", runtime.data, "--json"];
      const serving = spawn(process.execPath, [WHET, "envs", "serve", "frozenlake", ...flags], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      const ended = once(serving, "exit");
      try {
        const [said] = (await once(serving.stdout, "data")) as [Buffer];
        const { url: served } = JSON.parse(said.toString()) as { url: string };
        const { stdout } = await promisify(execFile)(PYTHON, [join(import.meta.dirname, "openenv_client.py"), served]);
        expect(JSON.parse(stdout)).toEqual({ same: true, sides: 4, over: true, refused: "VALIDATION_ERROR", state: 1 });
      } finally {
        serving.kill("SIGTERM");
      }
      expect(await ended).toEqual([0, null]);
    },
    LIMIT_MS,
  );

  it.each([
    [
      { ...gymnasium, args: { id: "FrozenLake-v9" } },
      "environment.args.id",
      /`v9` for environment `FrozenLake` doesn't exist/,
    ],
    [{ ...gymnasium, args: {} }, "environment.args.id", /is required/],
    [{ ...reasoning, args: { dataset: "chain" } }, "environment.args.dataset", /it has .*chain_sum/],
    [
      { ...reasoning, args: { dataset: "chain_sum", config: { min_terms: -1 } } },
      "environment.args.config",
      /min_terms must be positive/,
    ],
    [{ ...textarena, args: { game: "TicTacToe-v0" } }, "environment.args.players", /has to be 2/],
    [{ ...verifiers, args: { taskset: "nowhere" } }, "environment.args.taskset", /'nowhere' not found/],
    [
      { ...verifiers, args: { taskset: "verifiers_sums", config: { cont: 2 } } },
      "environment.args.config",
      /taskset\.cont/,
    ],
    [
      { kind: "openenv", args: { url: "http://127.0.0.1:9" } },
      "environment.args",
      /OpenEnv server .*: (bad port|connect ECONNREFUSED)/,
    ],
    [{ kind: "openenv", args: { url: "nowhere" } }, "environment.args.url", /URL/i],
  ])(
    "refuses %j before anything starts",
    (environment, path, reason) => {
      const { status, json } = train("refused", "lake", environment);
      expect(status).toBe(2);
      expect((json as Refused).error.violations).toMatchObject([
        { path, reason: expect.stringMatching(reason) as string },
      ]);
    },
    60_000,
  );
});
