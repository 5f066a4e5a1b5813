// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { create, toBinary } from "@bufbuild/protobuf";
import { RolloutTaskSchema } from "@whetstone/proto/events/v1/events";
import { EpisodeSchema, FailureClass } from "@whetstone/proto/types/v1/types";
import { createStep, createTrajectory, type Episode, NO_FAILURE } from "@whetstone/sdk";
import { describe, expect, it } from "vitest";
import { nothingPlayed, seal } from "./seal.ts";

const task = create(RolloutTaskSchema, { episodeId: "job/g0/s0", job: "job" });

function sealed(fields: Partial<Episode>) {
  const timing = { totalMs: 1, modelMs: 0, environmentMs: 0, waitingMs: 0 };
  const ended = { terminationReason: "ENV_DONE", failure: NO_FAILURE, startedAtMs: 0, timing } as const;
  const episode = seal({ task, attempt: 1, waitingMs: 0 }, { ...nothingPlayed(task), ...ended, ...fields }, []);
  toBinary(EpisodeSchema, episode);
  return episode;
}

/** The first bytes tell the type. */
const data = Buffer.from("\u0089PNG\r\n\u001a\n", "latin1");
const PICTURE = { mediaType: "image/png" as const, data, digest: createHash("sha256").update(data).digest("hex") };

const withStep = (fields: object): Partial<Episode> => ({
  trajectories: [createTrajectory({ steps: [createStep(fields)] })],
});

describe("seal", () => {
  it.each([
    ["reward", { reward: Number.NaN }],
    ["metrics.m", { metrics: { m: Infinity } }],
    ["trajectories[0].steps[0].reward", withStep({ reward: Number.NaN })],
    ["trajectories[0].steps[0].mcReturn", withStep({ mcReturn: -Infinity })],
    ["trajectories[0].steps[0].info.n", withStep({ info: { n: Number.NaN } })],
    ["trajectories[0].steps[0].images[0]", withStep({ images: [{ mediaType: "image/png", data: "no bytes" }] })],
  ])("never stores a %s that is not finite: the episode has failed", (path, fields) => {
    const { failure, reward, trajectories } = sealed(fields);
    expect(failure?.failureClass).toBe(FailureClass.GRADER);
    expect(failure?.message).toContain(`cannot be sealed: ${path}`);
    expect([reward, trajectories]).toEqual([0, []]);
  });

  it("stores a picture once, however many steps show it", () => {
    const images = [PICTURE];
    const steps = [createStep({ images }), createStep({ images })];
    const episode = sealed({ trajectories: [createTrajectory({ steps })] });
    expect(episode.images).toMatchObject([PICTURE]);
    expect(episode.trajectories[0]?.steps.map(({ imageDigests }) => imageDigests)).toEqual([
      [PICTURE.digest],
      [PICTURE.digest],
    ]);
  });

  it("stores an action that is no JSON as text", () => {
    const [trajectory] = sealed(withStep({ action: 10n })).trajectories;
    expect(trajectory?.steps[0]?.action).toBe("10n");
  });
});
