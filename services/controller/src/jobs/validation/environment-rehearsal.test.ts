// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { NoRoomError } from "@whetstone/core";
import { EnvironmentService } from "@whetstone/proto/environments/v1/environments";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { TaskSchema } from "@whetstone/proto/types/v1/types";
import { createClient, implement, startServer } from "@whetstone/rpc";
import { silentLogger } from "@whetstone/telemetry";
import { describe, expect, it } from "vitest";
import { rehearseReset } from "./environment-rehearsal.ts";

const spec = create(JobSpecSchema, { name: "j", environment: { kind: "lake" } });
const task = create(TaskSchema, { id: "t" });

/** @param refusals  sessions that find no room, before one that finds the arguments wrong */
async function rehearse(refusals: number) {
  let asked = 0;
  const service = implement(EnvironmentService, {
    describe: () => ({ kinds: [{ kind: "lake" }] }),
    async *session() {
      asked += 1;
      if (asked <= refusals) throw new NoRoomError("all 4 pages are in use");
      const value = { code: "TASK", field: "args.size", message: "too large" };
      yield await Promise.resolve({ kind: { case: "error", value } as const });
    },
  });
  await using host = await startServer({ host: "127.0.0.1", port: 0, services: [service], logger: silentLogger });
  await using client = createClient(EnvironmentService, host.address);
  return { violations: await rehearseReset(client, { spec, task }), asked };
}

describe("the first reset of a submission", () => {
  it("waits for room that others have, and then says what is wrong", async () => {
    const wrong = [{ path: "environment.args.size", reason: "too large" }];
    expect(await rehearse(2)).toEqual({ violations: wrong, asked: 3 });
  });

  it("says nothing of a job where there is no room for it: it is no fault of the job's", async () => {
    expect((await rehearse(Number.POSITIVE_INFINITY)).violations).toBeUndefined();
  });
});
