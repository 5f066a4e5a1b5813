// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { ChangeServingRequestSchema, type Serving, ServingKeySchema } from "@whetstone/proto/serving/v1/serving";
import { describe, expect, it } from "vitest";
import { changeServing, foldersOf, newestOf, newServing } from "./serving-record.ts";

type Change = NonNullable<MessageInitShape<typeof ChangeServingRequestSchema>["change"]>;
const key = (name: string, digit = "a") => create(ServingKeySchema, { name, sha256: digit.repeat(64) });
const fresh = (): Serving => newServing({ name: "bot", weight: 1, keys: [key("web")] }, { path: "/w/1" });
/** With the weights that the change brings, if it brings any. */
function apply(serving: Serving, change: Change, path?: string): Serving {
  const request = create(ChangeServingRequestSchema, { name: serving.name, change });
  changeServing(serving, request, path === undefined ? undefined : { path });
  return serving;
}
const source = { kind: { case: "path" as const, value: "/given" } };
const setCanary = { case: "setCanary" as const, value: { source, percent: 10 } };
const setWeights = { case: "setWeights" as const, value: { source } };
const promote = { case: "promote" as const, value: {} };
const rollback = (toVersion?: bigint): Change => ({
  case: "rollback",
  value: toVersion === undefined ? {} : { toVersion },
});
const served = (serving: Serving): string => `${newestOf(serving).version} ${newestOf(serving).path}`;

describe("a serving", () => {
  it("goes from canary to newest, and back, under versions that only grow", () => {
    const serving = fresh();
    expect(served(serving)).toBe("1 /w/1");
    apply(serving, setCanary, "/w/2");
    expect(served(serving)).toBe("1 /w/1");
    expect(serving.canary).toMatchObject({ percent: 10, version: { version: 2n, path: "/w/2" } });
    apply(serving, promote);
    expect(served(serving)).toBe("3 /w/2");
    expect(serving.canary).toBeUndefined();
    apply(serving, rollback());
    expect(served(serving)).toBe("4 /w/1");
    apply(serving, rollback(3n));
    expect(served(serving)).toBe("5 /w/2");
  });

  it("ends its canary when all get other weights", () => {
    const serving = apply(apply(fresh(), setWeights, "/w/2"), setCanary, "/w/3");
    apply(serving, rollback());
    expect(serving.canary).toBeUndefined();
    expect(served(serving)).toBe("4 /w/1");
  });

  it("says what it has where something is not there", () => {
    expect(() => apply(fresh(), promote)).toThrow(/no canary/);
    expect(() => apply(fresh(), rollback())).toThrow(/no earlier version; kept: none/);
    expect(() => apply(apply(fresh(), setWeights, "/w/2"), rollback(9n))).toThrow(/no earlier version 9; kept: 1/);
    expect(() => apply(fresh(), { case: "removeKey", value: { name: "nobody" } })).toThrow(/no key "nobody"/);
  });

  it("keeps ten versions, and the folders of those", () => {
    const serving = fresh();
    for (let count = 2; count <= 14; count++) apply(serving, setWeights, `/w/${count}`);
    apply(serving, setCanary, "/w/canary");
    expect(serving.versions.map(({ path }) => path)[0]).toBe("/w/5");
    expect(foldersOf(serving).size).toBe(11);
    expect(foldersOf(serving).has("/w/canary")).toBe(true);
  });

  it("has keys with names and digests of their own", () => {
    const serving = apply(fresh(), { case: "setKey", value: key("phone", "b") });
    apply(serving, { case: "setKey", value: key("web", "c") });
    expect(serving.keys.map(({ name, sha256 }) => `${name} ${sha256[0]}`)).toEqual(["phone b", "web c"]);
    expect(() => apply(serving, { case: "setKey", value: key("third", "b") })).toThrow(/the same sha256 twice/);
    apply(serving, { case: "removeKey", value: { name: "web" } });
    expect(serving.keys).toHaveLength(1);
  });
});
