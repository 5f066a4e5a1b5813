// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { ServedNameSchema } from "@whetstone/proto/inference/v1/inference";
import { describe, expect, it } from "vitest";
import { chooseWeights, ServedNames } from "./served-names.ts";

const sha256 = (key: string): string => createHash("sha256").update(key).digest("hex");
const told = (percent: number, limits: { requestsPerMinute?: number } = {}) =>
  create(ServedNameSchema, {
    name: "bot",
    policy: "serve.bot",
    ...(percent > 0 && { canaryPolicy: "serve.bot.canary", canaryPercent: percent }),
    keys: [{ name: "web", sha256: sha256("secret"), ...limits }],
  });
const talk = (...texts: string[]) => ({
  model: "bot",
  messages: texts.map((content, index) => ({ role: index % 2 === 0 ? "user" : "assistant", content })),
});
const always = (): boolean => true;

describe("ServedNames", () => {
  it("knows the holder of a key, and nobody else", () => {
    const names = new ServedNames();
    expect(names.find("secret")).toBeUndefined();
    names.put([told(0)], 0);
    expect(names.find("secret")).toMatchObject({ name: "web", serving: { name: "bot", policy: "serve.bot" } });
    expect(names.find(sha256("secret"))).toBeUndefined();
    names.put([], 0);
    expect(names.find("secret")).toBeUndefined();
  });

  it("goes on with what a key has used up when it is told again", () => {
    const names = new ServedNames();
    names.put([told(0, { requestsPerMinute: 1 })], 0);
    names.find("secret")?.limits.begin(0);
    names.put([told(10, { requestsPerMinute: 1 })], 0);
    expect(() => names.find("secret")?.limits.begin(0)).toThrow(/1 requests a minute/);
    expect(names.find("secret")?.serving.canary).toEqual({ policy: "serve.bot.canary", percent: 10 });
  });
});

describe("chooseWeights", () => {
  const canary = { policy: "serve.bot.canary", percent: 25 };
  const serving = { name: "bot", policy: "serve.bot", canary };

  it("gives the canary its share of the conversations", () => {
    const chosen = Array.from({ length: 4000 }, (_, index) => chooseWeights(serving, talk(`hello ${index}`), always));
    const share = chosen.filter((weights) => weights === "canary").length / chosen.length;
    expect(share).toBeGreaterThan(0.22);
    expect(share).toBeLessThan(0.28);
  });

  it("leaves a conversation with the weights that it began with", () => {
    for (let index = 0; index < 200; index++) {
      const first = chooseWeights(serving, talk(`hello ${index}`), always);
      const later = talk(`hello ${index}`, "an answer", "and then?", "another", "more");
      expect(chooseWeights(serving, later, always)).toBe(first);
    }
  });

  it("gives them the newest weights where no engine serves the canary, or there is none", () => {
    for (let index = 0; index < 50; index++) {
      expect(chooseWeights(serving, talk(`hello ${index}`), () => false)).toBe("newest");
      expect(chooseWeights({ ...serving, canary: undefined }, talk(`hello ${index}`), always)).toBe("newest");
    }
  });

  it("refuses other models by name", () => {
    expect(() => chooseWeights(serving, { ...talk("hello"), model: "job" }, always)).toThrow(/for the model "bot"/);
  });
});
