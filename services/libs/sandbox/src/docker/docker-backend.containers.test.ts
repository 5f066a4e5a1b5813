// SPDX-License-Identifier: Apache-2.0
// Sandboxes in containers of a real engine: used, lost, expired, orphaned, and gone afterwards.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { daemonProgram } from "../../test-support/daemon-program.ts";
import { describePromises } from "../../test-support/promises.ts";
import { LABELS } from "./container-settings.ts";
import { DockerBackend, type DockerBackendOptions } from "./docker-backend.ts";
import { machineId } from "./reaper.ts";

const IMAGE = process.env["WHETSTONE_TEST_SANDBOX_IMAGE"] ?? "python:3.11-slim-bookworm";
const SOCKET = (process.env["DOCKER_HOST"] ?? "unix:///var/run/docker.sock").replace(/^unix:\/\//u, "");
const sh = (script: string): string[] => ["sh", "-c", script];
const docker = (...args: string[]): string => execFileSync("docker", args, { encoding: "utf8" }).trim();

/** Names of containers of sandboxes, in whatever state. @param part  of the name */
function containers(part = ""): string[] {
  const args = ["ps", "--all", "--filter", `label=${LABELS.sandbox}`, "--format", "{{.Names}}"];
  return docker(...args)
    .split("\n")
    .filter((name) => name !== "" && name.includes(part));
}

const stack = new AsyncDisposableStack();
let options: DockerBackendOptions;
let backend: DockerBackend;

beforeAll(async () => {
  options = { daemonPath: daemonProgram(), image: IMAGE };
  backend = stack.use(await DockerBackend.start(options));
});

afterAll(async () => {
  await stack.disposeAsync();
});

describe("a sandbox in a container", () => {
  describePromises({
    backend: () => backend,
    limits: { memoryMiB: 100, diskMiB: 20, processes: 40 },
    memory: () => ({ exitCode: 137, failure: "MEMORY" }),
    processes: () => "PROCESSES",
  });

  it("says its level, and refuses another", async () => {
    await using own = await backend.open();
    expect(own.level).toBe("container");
    await expect(backend.open({ level: "A" })).rejects.toMatchObject({ failure: "UNAVAILABLE" });
  });

  it("is gone when it is closed", async () => {
    const own = await backend.open();
    expect(containers()).toContain(own.id);
    await own.close();
    expect(containers()).not.toContain(own.id);
  });

  it("that somebody else removes is a loss", async () => {
    await using own = await backend.open();
    const execution = own.exec(sh("echo up; sleep 60"));
    await execution.chunks()[Symbol.asyncIterator]().next();
    docker("rm", "--force", own.id);
    await expect(execution.result).rejects.toMatchObject({ failure: "LOST" });
  });

  it("whose files fill its memory is ended by name", async () => {
    await using own = await backend.open({ limits: { memoryMiB: 64, diskMiB: 512 } });
    const fill = sh("while true; do head -c 200000000 /dev/zero > f$$; sleep 0.1; done");
    expect(await own.exec(fill, { deadlineMs: 20_000 }).result).toMatchObject({ failure: "MEMORY" });
  });

  describe.runIf(process.getuid?.() === 0)("whose first process is killed", () => {
    const hog = ["python3", "-c", "x = bytearray(400_000_000)"];

    /** What a command says whose sandbox was killed. */
    async function outcome(runsOut: boolean, kill: (id: string) => void): Promise<unknown> {
      await using own = await backend.open({ limits: { memoryMiB: 64 } });
      if (runsOut) expect(await own.exec(hog).result).toMatchObject({ failure: "MEMORY" });
      kill(own.id);
      const { failure } = await own.exec(["true"]).result.catch((error: unknown) => error as { failure: unknown });
      return failure;
    }

    /** As the kernel does where commands have left no other process to end. */
    const byKernel = (id: string): unknown =>
      process.kill(Number(docker("inspect", "--format", "{{.State.Pid}}", id)), "SIGKILL");

    it("for want of memory is no loss of ours", async () => {
      expect(await outcome(true, byKernel)).toBe("MEMORY");
    });

    it("for no such reason, or by somebody, is one", async () => {
      expect(await outcome(false, byKernel)).toBe("LOST");
      expect(await outcome(true, (id) => docker("kill", id))).toBe("LOST");
    });
  });

  it("whose time is over is gone though nobody asks", async () => {
    const own = await backend.open({ ttlMs: 1500 });
    await waitFor(() => !containers().includes(own.id), { what: "its container to go", timeoutMs: 20_000 });
    await own.close();
  });

  it("is of an image that is there, and whose size is bounded", async () => {
    const missing = DockerBackend.start({ ...options, image: "localhost/no-such-image:1" });
    await expect(missing).rejects.toThrow(/no image "localhost\/no-such-image:1": docker pull/u);
    await expect(backend.open({ image: "localhost/no-such-image:1" })).rejects.toMatchObject({
      failure: "UNAVAILABLE",
    });
    const id = docker("create", IMAGE, "true");
    docker("commit", "--change", "VOLUME /data", id, "localhost/ws-docker-volume:1");
    docker("rm", id);
    try {
      const volume = backend.open({ image: "localhost/ws-docker-volume:1" });
      await expect(volume).rejects.toThrow(/declares a volume \(\/data\)/u);
    } finally {
      docker("rmi", "localhost/ws-docker-volume:1");
    }
  });

  it("is refused where too many are open, or without a daemon", async () => {
    await using small = await DockerBackend.start({ ...options, maxSandboxes: 1 });
    await using _one = await small.open();
    await expect(small.open()).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
    const none = DockerBackend.start({ ...options, daemonPath: "/nowhere/sandboxd" });
    await expect(none).rejects.toThrow(/make -C services\/sandbox-daemon/u);
    const nobody = DockerBackend.start({ ...options, socketPath: "/nowhere/docker.sock" });
    await expect(nobody).rejects.toMatchObject({ failure: "UNAVAILABLE" });
  });
});

describe("what a killed owner leaves", () => {
  it("is nothing", async () => {
    const program = `import { DockerBackend } from "${import.meta.dirname}/docker-backend.ts";
      const backend = await DockerBackend.start(${JSON.stringify(options)});
      const sandbox = await backend.open();
      const execution = sandbox.exec(["sh", "-c", "echo up; setsid sleep 600 & sleep 600"]);
      await execution.chunks()[Symbol.asyncIterator]().next();
      console.log("up");
      setInterval(() => undefined, 1000);`;
    const owner = spawn(process.execPath, ["--input-type=module", "--eval", program], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let said = "";
    owner.stdout.on("data", (data) => (said += String(data)));
    await waitFor(() => said.includes("up"), { what: "its command to run", timeoutMs: 60_000 });
    const name = `whetstone-sandbox-${owner.pid}-`;
    expect(containers(name)).toHaveLength(1);
    owner.kill("SIGKILL");
    await waitFor(() => containers(name).length === 0, { what: "its container to go", timeoutMs: 20_000 });
  });

  it("is removed where it had not started, and nothing of others", async () => {
    const { pid: gone } = spawnSync("true");
    const make = (name: string, machine: string, expiresAt: number): string => {
      const labels = { [LABELS.sandbox]: "1", [LABELS.machine]: machine, [LABELS.expires]: String(expiresAt) };
      const flags = Object.entries(labels).flatMap(([label, value]) => ["--label", `${label}=${value}`]);
      docker("create", "--name", name, ...flags, IMAGE, "true");
      return name;
    };
    const later = Date.now() + 600_000;
    const left = make(`whetstone-sandbox-${gone}-1-1`, machineId(), later);
    const late = make(`whetstone-sandbox-${gone}-1-2`, "another", Date.now() - 60_000);
    const others = make(`whetstone-sandbox-${gone}-1-3`, "another", later);
    try {
      await using _next = await DockerBackend.start(options);
      expect(containers(`whetstone-sandbox-${gone}-`)).toEqual([others]);
      expect(containers()).not.toContain(left);
      expect(containers()).not.toContain(late);
    } finally {
      docker("rm", "--force", others);
    }
  });
});

/** An engine's socket whose first answer to a creation is lost on its way. */
async function forgetfulEngine(path: string): Promise<AsyncDisposable & { readonly lost: () => number }> {
  let lost = 0;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const engine = connect(SOCKET);
    for (const socket of [client, engine]) {
      sockets.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => [client, engine].forEach((each) => each.destroy()));
    }
    client.on("data", (data) => {
      const isCreation = String(data).startsWith("POST /containers/create");
      if (isCreation && lost === 0) {
        lost += 1;
        engine.removeAllListeners("data");
        engine.on("data", () => client.destroy());
      }
      engine.write(data);
    });
    engine.on("data", (data) => client.write(data));
  });
  await new Promise<void>((resolve) => void server.listen(path, resolve));
  return {
    lost: () => lost,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

it("a container whose making was not heard of is adopted", async () => {
  const folder = mkdtempSync(join(tmpdir(), "whetstone-engine-"));
  try {
    await using engine = await forgetfulEngine(join(folder, "docker.sock"));
    await using own = await DockerBackend.start({ ...options, socketPath: join(folder, "docker.sock") });
    const before = containers().length;
    await using sandbox = await own.open();
    expect(engine.lost()).toBe(1);
    expect((await sandbox.exec(["echo", "well"]).result).stdout).toBe("well\n");
    expect(containers()).toHaveLength(before + 1);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
