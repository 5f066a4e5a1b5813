// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { WhetstoneError } from "@whetstone/core";
import { GetArtifactResponseSchema, ReadFileResponseSchema } from "@whetstone/proto/artifacts/v1/artifacts";
import { beforeEach, expect, it } from "vitest";
import { ArtifactFiles, type ArtifactSource } from "./artifact-files.ts";

const DIGEST = "ab".repeat(32);
const FOLDER = `/data/artifacts/sha256/${DIGEST}/files`;
const FILES: Readonly<Record<string, string>> = { "tokenizer.json": "{}", "sub/tokenizer.json": "[]", other: "x" };

const asked: string[] = [];
let isAway = false;
let damage = "";
beforeEach(() => {
  asked.length = 0;
  [isAway, damage] = [false, ""];
});

const source: ArtifactSource = {
  getArtifact: ({ of }) => {
    asked.push(of?.value as string);
    if (isAway) return Promise.reject(new WhetstoneError("UNAVAILABLE", "no controller"));
    const files = Object.entries(FILES).map(([path, text]) => ({
      path,
      size: BigInt(text.length),
      sha256: createHash("sha256").update(text).digest("hex"),
    }));
    return Promise.resolve(create(GetArtifactResponseSchema, { artifact: { files } }));
  },
  async *readFile({ path = "" }) {
    asked.push(path);
    for (const byte of Buffer.from((FILES[path] ?? "") + damage))
      yield await Promise.resolve(create(ReadFileResponseSchema, { content: Uint8Array.of(byte) }));
  },
};
const NAMES = ["tokenizer.json", "chat_template.jinja"];

it("reads what is there of an artifact, once, and nothing else of it", async () => {
  const files = new ArtifactFiles(source);
  expect(await files.read(FOLDER, NAMES)).toEqual(["{}", undefined]);
  expect(await files.read(FOLDER.replace("/data", "/elsewhere"), NAMES)).toEqual(["{}", undefined]);
  expect(asked).toEqual([DIGEST, "tokenizer.json"]);
  expect(await files.read(`${FOLDER}/sub`, NAMES)).toEqual(["[]", undefined]);
});

it("leaves other folders alone", () => {
  expect(new ArtifactFiles(source).read("/data/models/policy", NAMES)).toBeUndefined();
  expect(new ArtifactFiles(source).read(`${FOLDER}x`, NAMES)).toBeUndefined();
});

it("says what failed, and asks again the next time", async () => {
  const files = new ArtifactFiles(source);
  isAway = true;
  await expect(files.read(FOLDER, NAMES)).rejects.toThrow("no controller");
  isAway = false;
  damage = "!";
  await expect(files.read(FOLDER, NAMES)).rejects.toThrow(
    /tokenizer.json of sha256:(ab)+ did not arrive as it is stored/,
  );
  damage = "";
  expect(await files.read(FOLDER, NAMES)).toEqual(["{}", undefined]);
});
