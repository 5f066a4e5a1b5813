// SPDX-License-Identifier: Apache-2.0
/** What a folder of weights says of itself: manifest.json and blocks.json (docs/weights.md). */
import { WhetstoneError } from "@whetstone/core";
import { z } from "zod";

export const MANIFEST = "manifest.json";
export const BLOCKS = "blocks.json";

const count = z.number().int().nonnegative();
const digest = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256");
/** A version of an adapter has its files in a folder of their own. */
const fileName = z.string().refine((name) => !name.split("/").some((part) => ["", ".", ".."].includes(part)), {
  error: ({ input }) => `${JSON.stringify(input)} is not below the folder`,
});
const FileSchema = z.object({ name: fileName, size: count, sha256: digest });
const TensorSchema = z.object({
  name: z.string(),
  file: fileName,
  dtype: z.string(),
  offset: count,
  size: count,
  sha256: digest,
});
const ManifestSchema = z.object({
  format: z.literal("whetstone.weights/v1"),
  files: z.array(FileSchema),
  /** In the order of their bytes. Folders of older versions list none. */
  tensors: z.array(TensorSchema).default([]),
});
const BlocksSchema = z.object({
  bytes: z.number().int().positive(),
  tensors: z.record(z.string(), z.array(z.string())),
});

export type FileEntry = z.output<typeof FileSchema>;
export type TensorEntry = z.output<typeof TensorSchema>;
export type Manifest = z.output<typeof ManifestSchema>;
/** Digests of the blocks of each tensor, `bytes` long each but the last. */
export type Blocks = z.output<typeof BlocksSchema>;

/** @throws WhetstoneError INVALID_ARGUMENT that names what is wrong in it, as the others here */
export function parseManifest(text: string): Manifest {
  return parsed(ManifestSchema, MANIFEST, text);
}

export function parseBlocks(text: string): Blocks {
  return parsed(BlocksSchema, BLOCKS, text);
}

/** Of a folder, or of one file in it. */
export function broken(reason: string, cause?: unknown): WhetstoneError {
  return new WhetstoneError("INVALID_ARGUMENT", reason, { cause });
}

export function parseJson(name: string, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (cause) {
    throw broken(`${name} is not JSON`, cause);
  }
}

function parsed<T extends z.ZodType>(schema: T, name: string, text: string): z.output<T> {
  const { data, error } = schema.safeParse(parseJson(name, text));
  if (error) {
    const [{ path, message } = { path: [], message: "" }] = error.issues;
    throw broken(`${[name, ...path].join(".")}: ${message}`);
  }
  return data;
}
