// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { planSandboxes, type SandboxFacts } from "./plan.ts";
import type { SandboxPod } from "./pods.ts";

const NOW = 1_000_000;
const desired = { warm: 2, max: 4, template: "new" };

function pod(name: string, more: Partial<SandboxPod> = {}): SandboxPod {
  return {
    ...{
      name,
      uid: name,
      resourceVersion: "1",
      pool: "p",
      template: "new",
      ip: "10.0.0.1",
      createdAt: 0,
      startedAt: 0,
    },
    ...{ ready: true, terminating: false, ended: undefined, claim: undefined, trouble: "" },
    ...{ given: false, ofSandbox: false },
    ...more,
  };
}

const claim = (more: object = {}) => ({
  claim: { id: "c", until: NOW + 60_000, owner: "runner", instance: "i", ...more },
});
const ended = (at: number) => ({ ended: { at, reason: "Error", message: "" } });

function plan(pods: readonly SandboxPod[], more: Partial<SandboxFacts> = {}) {
  const { create, remove, warm } = planSandboxes(desired, { pods, isThere: () => true, now: NOW, ...more });
  return { create, remove: remove.map(({ name }) => name), warm: warm.length };
}

describe("a sandbox pool", () => {
  it("keeps so many pods warm, beside those that are claimed", () => {
    expect(plan([])).toEqual({ create: [0, 1], remove: [], warm: 0 });
    expect(plan([pod("s-0"), pod("s-1", claim())])).toEqual({ create: [2], remove: [], warm: 1 });
    expect(plan([pod("s-0"), pod("s-1", { ready: false })])).toEqual({ create: [], remove: [], warm: 1 });
  });

  it("never has more pods than it may, those that leave included (S1)", () => {
    const leaving = pod("s-3", { terminating: true });
    expect(plan([pod("s-0", claim()), pod("s-1", claim()), pod("s-2", claim()), leaving]).create).toEqual([]);
    expect(plan([pod("s-0", claim()), pod("s-1", claim()), pod("s-2", claim())]).create).toEqual([3]);
  });

  it("takes back what it has too many of, the ready ones last", () => {
    expect(plan([pod("s-0"), pod("s-1", { ready: false }), pod("s-2")]).remove).toEqual(["s-1"]);
  });

  it("ends a claimed pod when its time is over, its owner is gone, or it has ended a while ago, and not before (S2)", () => {
    expect(plan([pod("s-0", claim())]).remove).toEqual([]);
    expect(plan([pod("s-0", claim({ until: NOW - 5_000 }))]).remove).toEqual(["s-0"]);
    expect(plan([pod("s-0", claim())], { isThere: () => false }).remove).toEqual(["s-0"]);
    expect(plan([pod("s-0", claim({ owner: "" }))], { isThere: () => false }).remove).toEqual([]);
    expect(plan([pod("s-0", { ...claim(), ...ended(NOW - 1_000) })]).remove).toEqual([]);
    expect(plan([pod("s-0", { ...claim(), ...ended(NOW - 60_000) })]).remove).toEqual(["s-0"]);
  });

  it("makes pods of an older template anew, unless they are claimed (S3)", () => {
    const old = { template: "old" };
    expect(plan([pod("s-0", old), pod("s-1", { ...old, ...claim() })])).toEqual({
      create: [2, 3],
      remove: ["s-0"],
      warm: 0,
    });
  });

  it("replaces one that could not start, but not at once, so that it can be seen why (S4)", () => {
    const failed = (at: number) => pod("s-0", { ...ended(at), ready: false, trouble: "InitContainerFailed: /testbed" });
    expect(plan([failed(NOW - 1_000), pod("s-1")])).toEqual({ create: [], remove: [], warm: 1 });
    expect(plan([failed(NOW - 60_000), pod("s-1")])).toEqual({ create: [2], remove: ["s-0"], warm: 1 });
  });

  it("replaces one that ended before anybody had it", () => {
    expect(plan([pod("s-0", ended(NOW)), pod("s-1")])).toEqual({ create: [2], remove: ["s-0"], warm: 1 });
  });
});
