// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { checkTensors, readShapes, verifyFiles } from "./weight-folder.ts";

const root = mkdtempSync(join(tmpdir(), "whetstone-weights-"));
afterAll(() => rmSync(root, { recursive: true }));

const TENSORS = { "a.weight": [2, 3], "b.weight": [4] };

/** A folder with one file of zeros in safetensors' layout. */
function folder(tensors: Record<string, number[]> = TENSORS, config: object = {}): string {
  const path = mkdtempSync(join(root, "f-"));
  writeFileSync(join(path, "config.json"), JSON.stringify(config));
  writeTensors(join(path, "model.safetensors"), tensors);
  return path;
}

function writeTensors(path: string, tensors: Record<string, number[]>): void {
  let end = 0;
  const entries = Object.entries(tensors).map(([name, shape]) => {
    const begin = end;
    end += 4 * shape.reduce((product, size) => product * size, 1);
    return [name, { dtype: "F32", shape, data_offsets: [begin, end] }];
  });
  const header = Buffer.from(JSON.stringify({ __metadata__: { format: "pt" }, ...Object.fromEntries(entries) }));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  writeFileSync(path, Buffer.concat([length, header, Buffer.alloc(end)]));
}

function writeManifest(path: string, names = ["model.safetensors"]): void {
  const files = names.map((name) => {
    const bytes = readFileSync(join(path, name));
    return { name, size: bytes.length, sha256: createHash("sha256").update(bytes).digest("hex") };
  });
  writeFileSync(join(path, "manifest.json"), JSON.stringify({ format: "whetstone.weights/v1", version: 1, files }));
}

async function check(path: string, served = folder()): Promise<void> {
  await verifyFiles(path);
  await checkTensors(path, await readShapes(served));
}

describe("a folder of weights before vLLM loads it", () => {
  it("passes when its tensors are those of the served model, in one file or several", async () => {
    await check(folder());
    const sharded = folder();
    rmSync(join(sharded, "model.safetensors"));
    const map = { "a.weight": "model-1.safetensors", "b.weight": "model-2.safetensors" };
    for (const [name, file] of Object.entries(map))
      writeTensors(join(sharded, file), { [name]: TENSORS[name as keyof typeof TENSORS] });
    writeFileSync(join(sharded, "model.safetensors.index.json"), JSON.stringify({ weight_map: map }));
    await check(sharded);
    rmSync(join(sharded, "model-2.safetensors"));
    await expect(check(sharded)).rejects.toThrow(/model-2.safetensors is missing/);
  });

  it.each([
    ["a tensor is missing", { "a.weight": [2, 3] }, /b.weight is missing/],
    ["one has another shape", { ...TENSORS, "b.weight": [5] }, /b.weight has shape \[5\], expected \[4\]/],
    ["one is unknown", { ...TENSORS, "c.weight": [1] }, /c.weight is no tensor/],
  ])("is refused when %s", async (_what, tensors, said) => {
    await expect(check(folder(tensors as Record<string, number[]>))).rejects.toThrow(said);
  });

  it("is refused when it is cut short, no folder, or empty", async () => {
    const cut = folder();
    truncateSync(join(cut, "model.safetensors"), readFileSync(join(cut, "model.safetensors")).length - 4);
    await expect(check(cut)).rejects.toThrow(/truncated/);
    truncateSync(join(cut, "model.safetensors"), 5);
    await expect(check(cut)).rejects.toThrow(/truncated/);
    await expect(check(join(root, "nowhere"))).rejects.toThrow(/neither/);
  });

  it("is what its manifest says, where it has one", async () => {
    const path = folder();
    writeManifest(path);
    await check(path);
    const bytes = readFileSync(join(path, "model.safetensors"));
    bytes[bytes.length - 1] = 1;
    writeFileSync(join(path, "model.safetensors"), bytes);
    await expect(check(path)).rejects.toThrow(/digest/);
  });

  it("may hold an adapter in a folder of its own, which has to be what the manifest says, too", async () => {
    const path = folder();
    mkdirSync(join(path, "adapter"));
    writeTensors(join(path, "adapter/adapter_model.safetensors"), { "base_model.model.a.lora_A.weight": [1, 3] });
    writeManifest(path, ["model.safetensors", "adapter/adapter_model.safetensors"]);
    await check(path);
    writeFileSync(join(path, "adapter/adapter_model.safetensors"), "cut");
    await expect(check(path)).rejects.toThrow(/adapter\/adapter_model.safetensors is not \d+ bytes long/);
    const files = [{ name: "adapter/../../model.safetensors", size: 1, sha256: "" }];
    writeFileSync(join(path, "manifest.json"), JSON.stringify({ format: "whetstone.weights/v1", version: 1, files }));
    await expect(check(path)).rejects.toThrow(/is not below the folder/);
  });

  it("may leave out an output layer only where it is tied to the embedding", async () => {
    const withHead = { ...TENSORS, "lm_head.weight": [9] };
    await check(folder(), folder(withHead, { tie_word_embeddings: true }));
    await check(folder(withHead), folder(TENSORS, { tie_word_embeddings: true }));
    await expect(check(folder(), folder(withHead))).rejects.toThrow(/lm_head.weight is missing/);
  });
});
