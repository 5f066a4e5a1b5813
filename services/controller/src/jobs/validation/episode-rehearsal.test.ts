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

type Outcome = MessageInitShape<typeof FailureSchema> | WhetstoneError;

/** @param outcomes  how episodes fail one after the other, the last for ever, or what the call is refused with */
async function rehearse(...outcomes: Outcome[]) {
  let asked: ReplayRequest | undefined;
  let played = 0;
  const rollouts = {
    replay: (request: ReplayRequest) => {
      asked = request;
      const outcome = outcomes[Math.min(played++, outcomes.length - 1)];
      if (outcome instanceof WhetstoneError) return Promise.reject(outcome);
      return Promise.resolve(create(ReplayResponseSchema, { replayed: { failure: outcome } }));
    },
  } as unknown as Parameters<typeof rehearseEpisode>[0];
  const module = { digest: "d", code: new Uint8Array([1]) };
  return { violations: await rehearseEpisode(rollouts, { spec, module, task }), asked, played };
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

  it("takes an environment that failed once and plays then, and refuses one that fails three times", async () => {
    const failing = { failureClass: FailureClass.ENVIRONMENT, message: "its server ended" };
    const passed = await rehearse(failing, failing, { failureClass: FailureClass.NONE });
    expect(passed).toMatchObject({ violations: [], played: 3 });
    expect(await rehearse(failing)).toMatchObject({ violations: [{ path: "environment" }], played: 3 });
    expect(await rehearse({ ...failing, failureClass: FailureClass.TASK })).toMatchObject({ played: 1 });
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
