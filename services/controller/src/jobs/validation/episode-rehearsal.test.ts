// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { JobSpecSchema } from "@whetstone/proto/jobs/v1/jobs";
import { ReplayResponseSchema, type ReplayRequest } from "@whetstone/proto/rollouts/v1/rollouts";
import { FailureClass, type FailureSchema, TaskSchema } from "@whetstone/proto/types/v1/types";
import { describe, expect, it } from "vitest";
import { rehearseEpisode } from "./episode-rehearsal.ts";

const spec = create(JobSpecSchema, {
  name: "j",
  agent: { kind: "own" },
  environment: { kind: "lake" },
  roles: [{ name: "judge" }],
  limits: { maxSteps: 30 },
});
const task = create(TaskSchema, { id: "t" });

/** @param outcome  how the episode fails, or what the call is refused with */
async function rehearse(outcome: MessageInitShape<typeof FailureSchema> | WhetstoneError) {
  let asked: ReplayRequest | undefined;
  const rollouts = {
    replay: (request: ReplayRequest) => {
      asked = request;
      if (outcome instanceof WhetstoneError) return Promise.reject(outcome);
      return Promise.resolve(create(ReplayResponseSchema, { replayed: { failure: outcome } }));
    },
  } as unknown as Parameters<typeof rehearseEpisode>[0];
  const module = { digest: "d", code: new Uint8Array([1]) };
  return { violations: await rehearseEpisode(rollouts, { spec, module, task }), asked };
}

describe("the rehearsal of a submission", () => {
  it("plays a short episode of the job's own code with scripted answers", async () => {
    const { asked, violations } = await rehearse({ failureClass: FailureClass.NONE });
    expect(violations).toEqual([]);
    expect(asked?.task).toMatchObject({ module: { digest: "d" }, limits: { maxSteps: 2, retryLimit: 0 } });
    expect(asked?.task?.limits?.episodeTimeout?.seconds).toBe(20n);
    expect(new Set(asked?.recorded?.calls.map(({ role }) => role))).toEqual(new Set(["agent", "judge"]));
  });

  it.each([
    [FailureClass.TASK, "agent", "TASK model: no board"],
    [FailureClass.ENVIRONMENT, "environment", "ENVIRONMENT model: no board"],
    [FailureClass.GRADER, "environment", "GRADER model: no board"],
  ])("shows a failure of class %s of the user's code", async (failureClass, path, reason) => {
    const { violations } = await rehearse({ failureClass, phase: "model", message: "no board" });
    expect(violations).toMatchObject([{ path, reason: expect.stringContaining(reason) as string }]);
  });

  it("names an argument by its path", async () => {
    const message = "args.size: unknown setting";
    const { violations } = await rehearse({ failureClass: FailureClass.TASK, message });
    expect(violations).toEqual([{ path: "agent.args.size", reason: "unknown setting" }]);
  });

  it.each([
    { failureClass: FailureClass.INFRASTRUCTURE },
    { failureClass: FailureClass.DEADLINE },
    { failureClass: FailureClass.POLICY },
    new WhetstoneError("FAILED_PRECONDITION", "a rollout"),
    new WhetstoneError("DEADLINE_EXCEEDED", "slow"),
  ])("is no verdict where the job is not to blame", async (outcome) => {
    expect((await rehearse(outcome)).violations).toEqual([]);
  });
});
