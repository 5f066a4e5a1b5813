// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { create } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { GetArtifactResponseSchema, ReadFileResponseSchema } from "@whetstone/proto/artifacts/v1/artifacts";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { type ArtifactSource, OwnModels } from "./own-models.ts";

const top = mkdtempSync(join(tmpdir(), "whetstone-own-"));
afterAll(() => rmSync(top, { recursive: true }));
let root: string;
beforeEach(() => (root = mkdtempSync(join(top, "data-"))));

const { signal } = new AbortController();
const digestOf = (letter: string): string => letter.repeat(64);
const pathOf = (letter: string): string => `/data/artifacts/sha256/${digestOf(letter)}/files`;
const FILES = { "config.json": "{}", "deep/model.safetensors": "weights" };

/** A controller that is away for the first calls, and may change what it sends. */
function controller({ away = 0, sent = (text: string) => text } = {}): ArtifactSource & { asked: number } {
  const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");
  const files = Object.entries(FILES).map(([path, text]) => ({
    path,
    size: BigInt(text.length),
    sha256: sha256(text),
  }));
  return {
    asked: 0,
    getArtifact() {
      this.asked += 1;
      if (this.asked <= away) return Promise.reject(new WhetstoneError("UNAVAILABLE", "not yet"));
      return Promise.resolve(create(GetArtifactResponseSchema, { artifact: { files } }));
    },
    async *readFile({ path = "" }) {
      await Promise.resolve();
      for (const part of sent(FILES[path as keyof typeof FILES]).match(/.{1,3}/g) ?? [])
        yield create(ReadFileResponseSchema, { content: Buffer.from(part) });
    },
  };
}

describe("models of a pod that shares no data folder", () => {
  it("are fetched once, and found below its own folder", async () => {
    const source = controller();
    const models = new OwnModels(root, source);
    const folder = await models.bring(pathOf("a"), signal);
    expect(folder).toBe(join(root, "artifacts/sha256", digestOf("a"), "files"));
    expect(readFileSync(join(folder, "deep/model.safetensors"), "utf8")).toBe("weights");
    expect(await models.bring(`${pathOf("a")}/deep`, signal)).toBe(join(folder, "deep"));
    expect(source.asked).toBe(1);
    expect(await models.bring("/models/other", signal)).toBe("/models/other");
  });

  it("wait for a controller that is away", async () => {
    const folder = await new OwnModels(root, controller({ away: 1 })).bring(pathOf("a"), signal);
    expect(existsSync(join(folder, "config.json"))).toBe(true);
  });

  it("are refused where they did not arrive as they are stored, and nothing of them counts", async () => {
    const damaged = new OwnModels(root, controller({ sent: (text) => text.toUpperCase() }));
    await expect(damaged.bring(pathOf("a"), signal)).rejects.toThrow(
      `deep/model.safetensors of sha256:${digestOf("a")} did not arrive as it is stored`,
    );
    expect(readdirSync(join(root, "artifacts/sha256"))).toEqual([`${digestOf("a")}.draft`]);
    await new OwnModels(root, controller()).bring(pathOf("a"), signal);
    expect(readdirSync(join(root, "artifacts/sha256"))).toEqual([digestOf("a")]);
  });

  it("are kept while they are among the last four that were used", async () => {
    const models = new OwnModels(root, controller());
    mkdirSync(join(root, "artifacts/sha256"), { recursive: true });
    for (const letter of "abcdae") {
      await models.bring(pathOf(letter), signal);
      await new Promise((done) => setTimeout(done, 10));
    }
    const kept = readdirSync(join(root, "artifacts/sha256")).map((name) => name[0]);
    expect(kept.toSorted()).toEqual(["a", "c", "d", "e"]);
  });
});
