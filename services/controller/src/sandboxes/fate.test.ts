// SPDX-License-Identifier: Apache-2.0
import { SandboxFate } from "@whetstone/proto/sandboxes/v1/sandboxes";
import { describe, expect, it } from "vitest";
import { CLAIM_NOTES, SANDBOX_LABELS, sandboxFact } from "../operator/sandbox-pool/pods.ts";
import { fateOf } from "./fate.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");

function fate(status: object, metadata: object = {}): SandboxFate {
  const labels = { [SANDBOX_LABELS.pool]: "p", [SANDBOX_LABELS.claim]: "c" };
  const annotations = { "whetstone.dev/claimed-until": new Date(NOW + 1000).toISOString() };
  const own = { name: "s", uid: "u", resourceVersion: "1", labels, annotations, ...metadata };
  return fateOf(sandboxFact({ metadata: own, status }), NOW).fate;
}

const ended = (terminated: object) => ({ phase: "Failed", containerStatuses: [{ state: { terminated } }] });

describe("the end of a pod", () => {
  it("is not hidden by another that agent-sandbox makes in its place", () => {
    const labels = { [SANDBOX_LABELS.pool]: "p" };
    const until = new Date(NOW + 1000).toISOString();
    const annotations = { [CLAIM_NOTES.claim]: "c", [CLAIM_NOTES.until]: until };
    expect(fate({ phase: "Running" }, { labels, annotations })).toBe(SandboxFate.GONE);
    expect(fate({ phase: "Running" }, { annotations })).toBe(SandboxFate.THERE);
  });

  it("is the policy's only where that is sure", () => {
    expect(fate(ended({ reason: "OOMKilled", exitCode: 137 }))).toBe(SandboxFate.MEMORY);
    const eviction = {
      phase: "Failed",
      reason: "Evicted",
      message: 'Usage of EmptyDir volume "files" exceeds the limit',
    };
    expect(fate(eviction)).toBe(SandboxFate.DISK);
    expect(fate({ ...eviction, message: "The node was low on resource: memory." })).toBe(SandboxFate.GONE);
    expect(fate(ended({ reason: "Error", exitCode: 137 }))).toBe(SandboxFate.GONE);
    expect(fate({ phase: "Running" }, { deletionTimestamp: "2026-01-01T00:00:00Z" })).toBe(SandboxFate.GONE);
    expect(fateOf(undefined, NOW).fate).toBe(SandboxFate.GONE);
  });

  it("is by the clock where its daemon ended well, or Kubernetes' clock or ours says so", () => {
    expect(fate(ended({ reason: "Completed", exitCode: 0 }))).toBe(SandboxFate.EXPIRED);
    expect(fate({ phase: "Failed", reason: "DeadlineExceeded" })).toBe(SandboxFate.EXPIRED);
    expect(
      fateOf({ ...sandboxOf(), given: true, claim: { id: "c", until: NOW, owner: "", instance: "" } }, NOW).fate,
    ).toBe(SandboxFate.EXPIRED);
    expect(fate({ phase: "Running" })).toBe(SandboxFate.THERE);
  });
});

function sandboxOf() {
  const metadata = { name: "s", uid: "u", resourceVersion: "1", labels: { [SANDBOX_LABELS.pool]: "p" } };
  const fact = sandboxFact({ metadata, status: { phase: "Running" } });
  if (!fact) throw new Error("it is a pod of a pool");
  return fact;
}
