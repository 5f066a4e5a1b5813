// SPDX-License-Identifier: Apache-2.0
import { MAX_IMAGE_BYTES } from "@whetstone/core";
import { describe, expect, it } from "vitest";
import type { Environment } from "./base-env.ts";
import { SeenImages } from "./engine/seen-images.ts";
import { resetEnvironment } from "./environment-values.ts";
import { dataUrl, imageFault, MAX_EPISODE_IMAGE_BYTES, MAX_IMAGES } from "./images.ts";

const HEAD = Buffer.from("\u0089PNG\r\n\u001a\n", "latin1");
const PNG = { mediaType: "image/png" as const, data: HEAD };

function png(bytes: number, fill = 0) {
  return { ...PNG, data: Buffer.concat([HEAD, Buffer.alloc(bytes - HEAD.length, fill)]) };
}

describe("a picture", () => {
  it.each([
    ["no object", "pixels", /^ must be an object/u],
    ["of a type that models do not take", { ...PNG, mediaType: "image/svg+xml" }, /^\.mediaType must be one of/u],
    ["without bytes", { ...PNG, data: "text" }, /^\.data must be a Uint8Array/u],
    ["of another type than it says", { ...PNG, mediaType: "image/jpeg" }, /^\.data is no image\/jpeg/u],
    ["that is too large", png(MAX_IMAGE_BYTES + 1), /^\.data has 4194305 bytes/u],
    ["that was damaged on its way", { ...PNG, digest: "0".repeat(64) }, /^\.digest is not that/u],
  ])("%s is refused", (_what, image, fault) => {
    expect(imageFault(image)).toMatch(fault);
  });

  it("is taken at the bound, and is an address for chat APIs", () => {
    expect(imageFault(png(MAX_IMAGE_BYTES))).toBeUndefined();
    expect(dataUrl(PNG)).toBe("data:image/png;base64,iVBORw0KGgo=");
  });
});

describe("an environment's pictures", () => {
  function resetWith(images: unknown) {
    const environment = { reset: () => ({ observation: "", images, info: {} }) } as unknown as Environment;
    return () => resetEnvironment(environment, { seed: 1 });
  }

  it("have their digests when the agent sees them", () => {
    expect(resetWith([PNG])()).toMatchObject({
      images: [{ digest: expect.stringMatching(/^[0-9a-f]{64}$/u) as string }],
    });
    expect(resetWith([])()).toEqual({ observation: "", info: {} });
  });

  it.each([
    ["pixels", /reset\(\) returned images "pixels": it must be a list/u],
    [[PNG, {}], /reset\(\) returned a bad picture: images\[1\]\.data/u],
    [Array(MAX_IMAGES + 1).fill(PNG), /returned 17 images: 16 at most/u],
  ])("that are wrong are the environment's failure", (images, message) => {
    expect(resetWith(images)).toThrow(expect.objectContaining({ failureClass: "ENVIRONMENT" }));
    expect(resetWith(images)).toThrow(message);
  });

  it("have a bound in an episode, where each counts once", () => {
    const seen = new SeenImages();
    const most = MAX_EPISODE_IMAGE_BYTES / MAX_IMAGE_BYTES;
    for (let i = 0; i < most; i += 1) seen.add([png(MAX_IMAGE_BYTES, i)]);
    seen.add([png(MAX_IMAGE_BYTES, 0)]);
    expect(seen.newest).toHaveLength(1);
    seen.add();
    expect(seen.newest).toEqual([]);
    expect(() => seen.add([PNG])).toThrow(/more than 33554432 bytes/u);
  });
});
