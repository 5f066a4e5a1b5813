// SPDX-License-Identifier: Apache-2.0
import type { Nats } from "@whetstone/messaging";
import type { Notice } from "@whetstone/proto/trainer/v1/trainer";
import { startNats, type TestNats } from "@whetstone/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { StoreWatch } from "./store-watch.ts";

let server: TestNats;
let nats: Nats;
beforeAll(async () => {
  server = await startNats();
  nats = await server.connect();
});
afterAll(async () => {
  await nats[Symbol.asyncDispose]();
  await server[Symbol.asyncDispose]();
});

it("says why episodes wait for the object store, and no more once they do not", async () => {
  let now: readonly Notice[] = [];
  using _watch = new StoreWatch(nats, (notices) => (now = notices));
  await nats.flush();
  const tell = (isFull: boolean, message: string): void =>
    nats.publish("ws-store.trouble", JSON.stringify({ isFull, message }));
  tell(true, "no space left in the object store: s3://b/p: QuotaExceeded: 5 GB");
  await expect
    .poll(() => now)
    .toMatchObject([
      {
        reason: "ObjectStoreFull",
        message: "No space left in the object store: s3://b/p: QuotaExceeded: 5 GB. Free some; episodes wait for it.",
      },
    ]);
  tell(false, "the object store fails: s3://b/p: AccessDenied: no");
  await expect.poll(() => now[0]?.reason).toBe("ObjectStoreFailing");
  tell(false, "");
  await expect.poll(() => now).toEqual([]);
});
