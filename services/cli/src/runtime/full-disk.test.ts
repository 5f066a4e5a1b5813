// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { canMountVolumes, smallVolume, waitFor } from "@whetstone/testkit";
import { expect, it } from "vitest";

import { standIn } from "../../test-support/stand-in-table.ts";
import { dataPaths } from "./layout.ts";
import { openLogFile } from "./log-file.ts";
import { Runtime } from "./runtime.ts";
import { readState } from "./state-file.ts";

const needsMounts = it.skipIf(!canMountVolumes());

needsMounts("a log that meets a full disk drops what it must, and says how much once there is space", () => {
  using volume = smallVolume(1);
  const path = join(volume.path, "a.log");
  const log = openLogFile(path);
  log.write(Buffer.from("before\n"));
  volume.fill();
  for (let i = 0; i < 10; i++) log.write(Buffer.alloc(8192, "x"));
  volume.free();
  log.write(Buffer.from("after\n"));
  log.close();
  const text = readFileSync(path, "utf8");
  expect(text).toMatch(/^before\n/);
  const dropped = Number(/\[whet\] (\d+) bytes of this log were dropped: the disk was full\nafter\n$/.exec(text)?.[1]);
  expect(dropped).toBeGreaterThan(8 * 8192);
});

needsMounts("the runtime lives on a full disk, and writes its state once there is space", async () => {
  using volume = smallVolume(4);
  const paths = dataPaths(join(volume.path, "data"));
  const runtime = new Runtime({ paths, model: "none", services: async () => [await standIn("a")] });
  await runtime.start();
  try {
    volume.fill();
    const pid = runtime.states()[0]?.pid ?? 0;
    process.kill(pid, "SIGKILL");
    const isBack = (): boolean => runtime.states()[0]?.phase === "ready" && runtime.states()[0]?.pid !== pid;
    await waitFor(isBack);
    expect(readState(paths.state)?.services[0]?.crashes).toBe(0);
    volume.free();
    await waitFor(() => readState(paths.state)?.services[0]?.crashes === 1);
  } finally {
    await runtime.stop();
  }
});
