// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { runAtOnce } from "@whetstone/core";
import { DeadlinePolicy } from "@whetstone/proto/jobs/v1/jobs";
import { EpisodeSummarySchema, FailureClass } from "@whetstone/proto/types/v1/types";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { planBatch as planInSteps } from "./batch.ts";
import type { GroupRule } from "../../jobs/compiled-job.ts";
import { keptSummary } from "../../../test-support/kept-summary.ts";
import type { FindEpisode, SealedEpisode } from "./sealed-episode.ts";

/** `baselines`: dispatched for each group; none: the job's advantage needs none. */
type Job = ReturnType<typeof rules> & { baselines?: readonly number[] };

const planBatch = ({ baselines = [], ...job }: Job, step: number, samples: readonly number[], find: FindEpisode) =>
  runAtOnce(
    planInSteps(
      job,
      { step, samples: [...samples], baselines: [...baselines], groups: samples.map((_, i) => BigInt(2 * step + i)) },
      find,
    ),
  );

const rules = (groupRule: GroupRule) => ({
  name: "j",
  batchGroups: 2,
  groupSize: 3,
  hasBaselines: false,
  maxReplacements: 0,
  groupRule,
  deadlinePolicy: DeadlinePolicy.VOID,
  maxPolicyLag: 0,
});

function sealed(
  failureClass: FailureClass,
  more: { minPolicyVersion?: bigint; unlabelledTokens?: number; notTrainable?: string; reward?: number } = {},
): SealedEpisode {
  const summary = create(EpisodeSummarySchema, { failureClass, sampledTokens: 5, minPolicyVersion: 1n, ...more });
  return { sequence: 1n, summary: keptSummary(summary) };
}

/** Ids of batch 1: groups 2 and 3. */
const world = (overrides: Record<string, SealedEpisode | undefined>) => (id: string) =>
  id in overrides ? overrides[id] : sealed(FailureClass.NONE);

describe("planBatch", () => {
  it("waits until every dispatched id is sealed", () => {
    const plan = planBatch(rules({ kind: "drop" }), 1, [3, 3], world({ "j/g2/s1": undefined, "j/g3/s0": undefined }));
    expect(plan).toEqual({ kind: "waiting", missing: 2 });
  });

  it.each<[string, GroupRule, number, number]>([
    ["drop", { kind: "drop" }, 3, 3],
    ["partial(2)", { kind: "partial", minSize: 2 }, 5, 1],
    ["partial(3)", { kind: "partial", minSize: 3 }, 3, 3],
  ])("%s with one failed member of six", (_name, rule, entries, voided) => {
    const plan = planBatch(rules(rule), 1, [3, 3], world({ "j/g2/s1": sealed(FailureClass.ENVIRONMENT) }));
    if (plan.kind !== "complete") throw new Error(plan.kind);
    expect([plan.entries.length, plan.voided.length]).toEqual([entries, voided]);
  });

  it("complete asks for one more sample, then trains a full group", () => {
    const failed = { "j/g2/s1": sealed(FailureClass.INFRASTRUCTURE) };
    expect(planBatch(rules({ kind: "complete" }), 1, [3, 3], world(failed))).toEqual({
      kind: "refill",
      samples: [4, 3],
      baselines: [],
    });
    const plan = planBatch(rules({ kind: "complete" }), 1, [4, 3], world(failed));
    if (plan.kind !== "complete") throw new Error(plan.kind);
    expect(plan.entries.map((entry) => entry.episodeId)).toContain("j/g2/s3");
    expect(plan.voided.map((entry) => entry.reason)).toEqual(["RetriesExhausted"]);
  });

  it("complete gives up after a group's worth of refills", () => {
    const failing = Object.fromEntries([0, 1, 2, 3, 4, 5].map((s) => [`j/g2/s${s}`, sealed(FailureClass.GRADER)]));
    const plan = planBatch(rules({ kind: "complete" }), 1, [6, 3], world(failing));
    if (plan.kind !== "complete") throw new Error(plan.kind);
    expect([plan.entries.length, plan.voided.length]).toEqual([3, 6]);
  });

  it.each([1, 2])("complete never trains a group that stays incomplete: %i of 3 sound", (sound) => {
    const failing = [0, 1, 2, 3, 4, 5].slice(sound).map((s) => [`j/g2/s${s}`, sealed(FailureClass.GRADER)] as const);
    const plan = planBatch(rules({ kind: "complete" }), 1, [6, 3], world(Object.fromEntries(failing)));
    if (plan.kind !== "complete") throw new Error(plan.kind);
    expect(plan.entries.filter((entry) => entry.group === "g2")).toEqual([]);
    expect(plan.voided.filter((entry) => entry.reason === "GroupIncomplete")).toHaveLength(sound);
  });

  it.each([
    ["unlabelled tokens (I5)", sealed(FailureClass.NONE, { unlabelledTokens: 1 }), "Unlabelled"],
    ["a stale token (I3)", sealed(FailureClass.NONE, { minPolicyVersion: 0n }), "Stale"],
    ["greedy calls only", sealed(FailureClass.NONE, { notTrainable: "every call was greedy" }), "NotTrainable"],
    ["a deadline", sealed(FailureClass.DEADLINE), "Deadline"],
    ["a broken task", sealed(FailureClass.TASK), "TaskBroken"],
  ])("voids an episode with %s", (_name, episode, reason) => {
    const plan = planBatch(rules({ kind: "partial", minSize: 1 }), 1, [3, 3], world({ "j/g3/s2": episode }));
    if (plan.kind !== "complete") throw new Error(plan.kind);
    expect(plan.voided).toMatchObject([{ episodeId: "j/g3/s2", reason }]);
  });

  const VOIDING = [
    FailureClass.TASK,
    FailureClass.ENVIRONMENT,
    FailureClass.INFRASTRUCTURE,
    FailureClass.GRADER,
    FailureClass.DEADLINE,
  ];
  const POLICIES: [string, GroupRule, (group: string) => readonly string[]][] = [
    ["complete", { kind: "complete" }, (group) => [`j/${group}/s0`, `j/${group}/s2`, `j/${group}/s3`]],
    ["partial", { kind: "partial", minSize: 2 }, (group) => [`j/${group}/s0`, `j/${group}/s2`]],
    ["drop", { kind: "drop" }, () => []],
  ];
  const cases = POLICIES.flatMap(([name, rule, kept]) =>
    VOIDING.map((failureClass) => [name, FailureClass[failureClass], rule, failureClass, kept] as const),
  );

  it.each(cases)("%s: a member that failed as %s is in no manifest", (...[, , rule, failureClass, kept]) => {
    const find = world({ "j/g2/s1": sealed(failureClass) });
    const first = planBatch(rules(rule), 1, [3, 3], find);
    const plan = first.kind === "refill" ? planBatch(rules(rule), 1, first.samples, find) : first;
    if (plan.kind !== "complete") throw new Error(plan.kind);
    const trained = plan.entries.filter((entry) => entry.group === "g2").map((entry) => entry.episodeId);
    expect(trained).toEqual(kept("g2"));
    expect(plan.voided.find((entry) => entry.episodeId === "j/g2/s1")).toMatchObject({ failureClass });
    expect(plan.entries.filter((entry) => entry.group === "g3")).toHaveLength(3);
  });

  it.each([
    [DeadlinePolicy.VOID, 5],
    [DeadlinePolicy.SCORE, 6],
    [DeadlinePolicy.MASK, 6],
  ])("deadline policy %i trains %i of six", (deadlinePolicy, trained) => {
    const job = { ...rules({ kind: "partial", minSize: 2 }), deadlinePolicy };
    const plan = planBatch(job, 1, [3, 3], world({ "j/g2/s1": sealed(FailureClass.DEADLINE) }));
    expect(plan).toMatchObject({ kind: "complete", entries: { length: trained } });
  });

  it("an episode whose policy failed is scored as it is", () => {
    const plan = planBatch(rules({ kind: "drop" }), 1, [3, 3], world({ "j/g2/s1": sealed(FailureClass.POLICY) }));
    expect(plan).toMatchObject({ kind: "complete", entries: { length: 6 }, voided: [] });
  });

  describe("with dynamic sampling", () => {
    const dapo = (maxReplacements: number, rule: GroupRule = { kind: "drop" }) => ({ ...rules(rule), maxReplacements });
    /** Rewards by group; the last sample of each is another if the group has a signal. */
    const rewarded = (signals: string) => (id: string) => {
      const [, group = "", sample = ""] = id.split("/");
      const hasSignal = signals[Number(group.slice(1)) - 2] === "y";
      return sealed(FailureClass.NONE, { reward: hasSignal && sample === "s2" ? 1 : 0 });
    };
    const reasons = (voided: readonly { episodeId: string; reason: string; failureClass: number }[]) =>
      new Set(
        voided.map(({ episodeId, reason, failureClass }) => `${episodeId.slice(2, 4)} ${reason} ${failureClass}`),
      );

    it("asks for a group in place of each without a signal, replacements included", () => {
      expect(planBatch(dapo(4), 1, [3, 3], rewarded("ny"))).toMatchObject({ kind: "refill", samples: [3, 3, 3] });
      expect(planBatch(dapo(4), 1, [3, 3, 3], rewarded("nyn"))).toMatchObject({ samples: [3, 3, 3, 3] });
    });

    it("trains the groups with a signal and voids the others, by no failure", () => {
      const plan = planBatch(dapo(4), 1, [3, 3, 3, 3], rewarded("nyny"));
      if (plan.kind !== "complete") throw new Error(plan.kind);
      expect(new Set(plan.entries.map(({ group }) => group))).toEqual(new Set(["g3", "g5"]));
      expect(plan.voided).toHaveLength(6);
      expect(reasons(plan.voided)).toEqual(new Set(["g2 NoSignal 1", "g4 NoSignal 1"]));
    });

    it("goes on with what has a signal when the replacements are used up", () => {
      const plan = planBatch(dapo(1), 1, [3, 3, 3], rewarded("nyn"));
      expect(plan).toMatchObject({ kind: "complete", entries: { length: 3 }, voided: { length: 6 } });
      const none = planBatch(dapo(1), 1, [3, 3, 3], rewarded("nnn"));
      expect(none).toMatchObject({ kind: "complete", entries: [], voided: { length: 9 } });
    });

    it("keeps groups without a signal where the job does not ask for it", () => {
      expect(planBatch(dapo(0), 1, [3, 3], rewarded("nn"))).toMatchObject({ entries: { length: 6 }, voided: [] });
    });

    it("replaces no group that is incomplete: that has failed", () => {
      const find = (id: string) => (id === "j/g2/s0" ? sealed(FailureClass.GRADER) : rewarded("yy")(id));
      const plan = planBatch(dapo(4), 1, [3, 3], find);
      expect(plan).toMatchObject({ kind: "complete", entries: { length: 3 }, voided: { length: 3 } });
    });

    it("first completes a group, then looks whether it has a signal", () => {
      const rule = { kind: "complete" } as const;
      const find = (id: string) => (id === "j/g2/s0" ? sealed(FailureClass.GRADER) : rewarded("ny")(id));
      expect(planBatch(dapo(4, rule), 1, [3, 3], find)).toMatchObject({ samples: [4, 3] });
      expect(planBatch(dapo(4, rule), 1, [4, 3], find)).toMatchObject({ samples: [4, 3, 3] });
    });
  });

  describe("with a baseline for each group", () => {
    const remax = (groupRule: GroupRule) => ({ ...rules(groupRule), hasBaselines: true });
    const plan = (rule: GroupRule, find: FindEpisode, baselines = [1, 1]) =>
      planBatch({ ...remax(rule), baselines }, 1, [3, 3], find);
    const idsOf = (entries: readonly { episodeId: string }[]) => entries.map(({ episodeId }) => episodeId);

    it("lists it apart from what is trained and what is voided", () => {
      const made = plan({ kind: "drop" }, world({}));
      if (made.kind !== "complete") throw new Error(made.kind);
      expect(made.baselines.map(({ episodeId, group }) => [episodeId, group])).toEqual([
        ["j/b2/s0", "g2"],
        ["j/b3/s0", "g3"],
      ]);
      expect([made.entries.length, made.voided.length]).toEqual([6, 0]);
    });

    it("waits for it", () => {
      expect(plan({ kind: "drop" }, world({ "j/b3/s0": undefined }))).toEqual({ kind: "waiting", missing: 1 });
    });

    it.each([
      ["failed", sealed(FailureClass.INFRASTRUCTURE), "RetriesExhausted"],
      ["is stale (I3)", sealed(FailureClass.NONE, { minPolicyVersion: 0n }), "Stale"],
      ["has unlabelled tokens (I5)", sealed(FailureClass.NONE, { unlabelledTokens: 1 }), "Unlabelled"],
      ["has a reward that is no number", sealed(FailureClass.NONE, { notTrainable: "its reward" }), "NotTrainable"],
    ])("voids the group whose baseline %s, partial groups too", (_name, episode, reason) => {
      for (const rule of [{ kind: "drop" }, { kind: "partial", minSize: 1 }] as const) {
        const made = plan(rule, world({ "j/b2/s0": episode }));
        if (made.kind !== "complete") throw new Error(made.kind);
        expect(idsOf(made.baselines)).toEqual(["j/b3/s0"]);
        expect(made.voided.map((one) => `${one.episodeId} ${one.reason}`)).toEqual([
          ...[0, 1, 2].map((sample) => `j/g2/s${sample} GroupIncomplete`),
          `j/b2/s0 ${reason}`,
        ]);
      }
    });

    it("voids the baseline of a group that is dropped for want of members", () => {
      const made = plan({ kind: "drop" }, world({ "j/g2/s1": sealed(FailureClass.GRADER) }));
      if (made.kind !== "complete") throw new Error(made.kind);
      expect(idsOf(made.baselines)).toEqual(["j/b3/s0"]);
      expect(made.voided).toHaveLength(4);
    });

    it("complete asks for one more, once, and uses that", () => {
      const failed = world({ "j/b2/s0": sealed(FailureClass.GRADER) });
      expect(plan({ kind: "complete" }, failed)).toEqual({ kind: "refill", samples: [3, 3], baselines: [2, 1] });
      const made = plan({ kind: "complete" }, failed, [2, 1]);
      expect(made).toMatchObject({ kind: "complete", entries: { length: 6 }, voided: { length: 1 } });
      expect(made.kind === "complete" && idsOf(made.baselines)).toEqual(["j/b2/s1", "j/b3/s0"]);
      const never = world({ "j/b2/s0": sealed(FailureClass.GRADER), "j/b2/s1": sealed(FailureClass.GRADER) });
      expect(plan({ kind: "complete" }, never, [2, 1])).toMatchObject({ kind: "complete", voided: { length: 5 } });
    });
  });

  it("accounts for every dispatched id exactly once, whatever fails (I2)", () => {
    const rule = fc.constantFrom<GroupRule>({ kind: "drop" }, { kind: "complete" }, { kind: "partial", minSize: 2 });
    const outcomes = fc.array(fc.constantFrom(...[1, 2, 3, 4, 5, 6, 7]), { minLength: 12, maxLength: 12 });
    fc.assert(
      fc.property(rule, outcomes, fc.boolean(), (groupRule, classes, hasBaselines) => {
        let samples: readonly number[] = [3, 3];
        let baselines: readonly number[] = hasBaselines ? [1, 1] : [];
        for (;;) {
          const find = (id: string) =>
            sealed(classes[(id.charCodeAt(3) * 6 + Number(id.slice(6))) % 12] as FailureClass);
          const plan = planBatch({ ...rules(groupRule), hasBaselines, baselines }, 1, samples, find);
          if (plan.kind === "waiting") throw new Error("nothing is missing");
          if (plan.kind === "refill") ({ samples, baselines } = plan);
          else {
            const ids = [...plan.entries, ...plan.baselines, ...plan.voided].map((entry) => entry.episodeId);
            expect(new Set(ids).size).toBe(ids.length);
            expect(ids.length).toBe([...samples, ...baselines].reduce((a, b) => a + b, 0));
            return;
          }
        }
      }),
    );
  });
});
