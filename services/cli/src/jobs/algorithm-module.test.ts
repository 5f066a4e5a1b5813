// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { CliError } from "../cli-error.ts";
import { readAlgorithmModule } from "./algorithm-module.ts";

const CODE = "ESTIMATOR = 1  # ü\n";
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "algorithm-"));
  writeFileSync(join(folder, "mine.py"), CODE);
  writeFileSync(join(folder, "empty.py"), "");
  writeFileSync(join(folder, "large.py"), "#".repeat(64 * 1024 + 1));
  writeFileSync(join(folder, "latin.py"), Uint8Array.of(0x23, 0xfc));
});

afterAll(() => rmSync(folder, { recursive: true }));

function read(policyGradient: Record<string, unknown>): unknown {
  const document: Record<string, unknown> = { algorithm: { policyGradient } };
  readAlgorithmModule(document, folder);
  return document["algorithm"];
}

it("puts text and digest in place of a path that counts from the job file", () => {
  const moduleDigest = createHash("sha256").update(CODE).digest("hex");
  expect(read({ module: "./mine.py" })).toEqual({ policyGradient: { module: CODE, moduleDigest } });
  expect(read({ module: join(folder, "mine.py") })).toEqual({ policyGradient: { module: CODE, moduleDigest } });
});

it("leaves alone what is text already, and jobs without one", () => {
  const text = { module: CODE, moduleDigest: "00" };
  expect(read(text)).toEqual({ policyGradient: text });
  expect(read({ groupSize: 8 })).toEqual({ policyGradient: { groupSize: 8 } });
  expect(() => readAlgorithmModule({ algorithm: "sft" }, folder)).not.toThrow();
});

it.each([
  ["none.py", "does not exist"],
  ["empty.py", "is empty"],
  ["large.py", "has 65537 bytes, at most 65536 are possible"],
  ["latin.py", "is not UTF-8"],
  [".", "cannot be read (EISDIR)"],
])("refuses %s by the setting's path", (module, reason) => {
  const error = caught(() => read({ module }));
  expect(error.violations).toEqual([
    { path: "algorithm.policyGradient.module", reason: expect.stringContaining(reason) },
  ]);
});

function caught(work: () => unknown): CliError {
  try {
    work();
  } catch (error) {
    if (error instanceof CliError) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}
