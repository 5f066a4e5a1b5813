// SPDX-License-Identifier: Apache-2.0
// A task of SWE-bench whose repository lies in an image, in pods. The image is built (DOCKER_HOST) and brought to the cluster
// (E2E_LOAD_IMAGE).
import { execFileSync } from "node:child_process";
import { waitFor } from "@whetstone/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { SANDBOX_POOLS } from "../../services/controller/src/operator/sandbox-pool/schema.ts";
import { sweBenchEnvironment } from "../../services/env-runner/src/environments/repository.ts";
import { Sandboxes } from "../../services/env-runner/src/sandboxes/sandboxes.ts";
import { makeStates, removeStates, REPAIR } from "../../services/libs/swe/test-support/small-repository.ts";
import { buildRepositoryImage, playCommand, REPOSITORY_IMAGE, REPOSITORY_TASK } from "../support/repository-image.ts";
import { openSandboxPools, type TestSandboxPools } from "../support/sandbox-pools.ts";

const LOAD = process.env["E2E_LOAD_IMAGE"];
if (!LOAD) console.log("E2E_LOAD_IMAGE is not set: the image that these tests need cannot be brought to the cluster");

describe.skipIf(!LOAD)("a repository in an image, in pods", () => {
  const stack = new AsyncDisposableStack();
  const states = makeStates();
  let pools: TestSandboxPools;
  let swe: ReturnType<typeof sweBenchEnvironment>;
  const play = (command: string, more: object = {}) =>
    playCommand(swe, { ...REPOSITORY_TASK, sandbox: { backend: "kubernetes" }, ...more }, command);

  beforeAll(async () => {
    buildRepositoryImage(states);
    execFileSync("sh", ["-c", `${LOAD} ${REPOSITORY_IMAGE}`], { stdio: "pipe" });
    pools = stack.use(await openSandboxPools("images", { memoryMiB: 1024 }));
    swe = sweBenchEnvironment(stack.use(new Sandboxes({ source: pools.source })));
    await pools.pool("python");
    await pools.pool("repository", { image: REPOSITORY_IMAGE, imageFolders: ["/testbed"], warm: 2 });
  }, 180_000);

  afterAll(async () => {
    await stack.disposeAsync();
    removeStates(states);
  });

  it("is repaired where it lies, in a pool that is found by the image, by a user that the image does not know", async () => {
    const { said, reward, info } = await play(`pwd; id -u; test -h .venv/link && cat .venv/same; ${REPAIR}`);
    expect(said).toMatch(/\/testbed.*10001.*addopts/u);
    expect(reward, JSON.stringify(info)).toBe(1);
    expect(await play(REPAIR, { sandbox: { backend: "kubernetes", pool: "repository" } })).toMatchObject({ reward: 1 });
  });

  it("is not repaired by what does nothing, nor by tests that were edited", async () => {
    expect(await play("ls")).toMatchObject({ reward: 0 });
    expect(await play("sed -i 's/== 10/== 12/' tests/*.py; echo '#' >>tally/core.py")).toMatchObject({ reward: 0 });
  });

  it("may be written within the limits, and nothing else of the image may", async () => {
    const { said } = await play(
      "head -c 100000000 /dev/zero >big; wc -c <big; rm big; touch /site/x; touch /usr/bin/x",
    );
    expect(said).toMatch(/No space left.*6\d{7}|6\d{7}.*No space left/u);
    expect(said.match(/Read-only file system/gu)).toHaveLength(2);
  });

  it("is refused by name where no pool has its image, or may write its folder, until the pool is changed", async () => {
    await expect(play("ls", { image: "localhost/other:1" })).rejects.toThrow(
      /no sandbox pool has the image "localhost\/other:1".*python \(.*repository \(/u,
    );
    const python = { sandbox: { backend: "kubernetes", pool: "python" } };
    await expect(play("ls", python)).rejects.toThrow(/pool "python" has none: its pods have the image/u);
    await expect(play("ls", { repository: "/site" })).rejects.toThrow(/\/site of the image.*the pool's imageFolders/u);
    await pools.pool("repository", { image: REPOSITORY_IMAGE, imageFolders: ["/testbed", "/site"] });
    await waitFor(async () => (await play("pwd", { repository: "/site" }).catch(() => undefined)) !== undefined, {
      what: "the pool to have /site",
      timeoutMs: 30_000,
    });
  });

  it("says which folder its image does not have", async () => {
    const wrongly = { image: REPOSITORY_IMAGE, imageFolders: ["/nowhere"] };
    await pools.pool("wrong", { ...wrongly, warm: 0 });
    const claim = pools.claims("wrong").claim({ ttlMs: 60_000, signal: AbortSignal.timeout(30_000) });
    await expect(claim).rejects.toThrow(/do not start: InitContainerFailed: .*imageFolders: .*\/nowhere/u);
    const { kube } = pools.cluster;
    await kube.patch(SANDBOX_POOLS, "wrong", { spec: { warm: 1 } });
    const degraded = async () =>
      (await kube.get(SANDBOX_POOLS, "wrong"))?.status?.conditions?.find(({ type }) => type === "Degraded");
    await waitFor(async () => (await degraded())?.reason === "PodsFailing", { what: "the pool to say so" });
    expect((await degraded())?.message).toContain("/nowhere");
    for (const folder of ["/workspace/x", "/etc", "/../etc", "testbed", "/a/.."])
      await expect(pools.pool("refused", { imageFolders: [folder] })).rejects.toThrow(/imageFolders/u);
  });
});
