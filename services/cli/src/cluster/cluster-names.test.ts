// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";

import { chooseRelease, objectName } from "./cluster-names.ts";

describe("objectName", () => {
  it("is what the chart makes of it, also of long names", () => {
    expect(objectName("whetstone", "controller")).toBe("whetstone-controller");
    expect(objectName(`${"a".repeat(39)}-b`, "nats")).toBe(`${"a".repeat(39)}-nats`);
  });
});

describe("chooseRelease", () => {
  const [a, b, c] = [
    { namespace: "x", release: "a" },
    { namespace: "x", release: "b" },
    { namespace: "y", release: "c" },
  ];
  const choice = { context: "gpu", namespace: "x" };

  it("takes the only one of the namespace, or the one that is named", () => {
    expect(chooseRelease([a, c], choice)).toEqual(a);
    expect(chooseRelease([a, b, c], { ...choice, release: "b" })).toEqual(b);
  });

  it.each([
    ["several", [a, b], choice, /a, b.*--release/],
    ["another name", [a], { ...choice, release: "z" }, /no release z, but a/],
    ["another namespace", [c], choice, /there is one in y.*--namespace/],
    ["none at all", [], choice, /whet install --kube --context gpu --namespace x/],
  ])("says what to do: %s", (_, found, wanted, advice) => {
    expect(chooseRelease(found, wanted)).toEqual({ advice: expect.stringMatching(advice) as string });
  });
});
