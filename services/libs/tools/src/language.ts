// SPDX-License-Identifier: Apache-2.0
import { type SandboxBackend, SandboxError } from "@whetstone/sandbox";

/** What runs a language's code. */
export interface Language {
  readonly program: string;
  /**
   * The driver: it reads a request a line, `{"code", "seconds", "end"}`, and writes what the code prints, the value of its last
   * expression, then a line of `end` and "ok", or "deadline" where it has ended the code and kept the names.
   */
  readonly command: (memoryMiB: number) => readonly string[];
  /** Ends with 0 where the driver can be run. */
  readonly probe: (memoryMiB: number) => readonly string[];
}

const PROBE_MS = 60_000;

/** What was found, by program and memory. */
const found = new WeakMap<SandboxBackend, Map<string, Promise<void>>>();

/**
 * Whether a language can be run in a backend's sandboxes is found out once, in a sandbox of its own. What was missing may be there
 * the next time.
 * @throws SandboxError, UNAVAILABLE where the language cannot be had
 */
export async function requireLanguage(backend: SandboxBackend, language: Language, memoryMiB: number): Promise<void> {
  const known = found.get(backend) ?? new Map<string, Promise<void>>();
  found.set(backend, known);
  const key = `${language.program} ${memoryMiB}`;
  const probing = known.get(key) ?? probe(backend, language, memoryMiB);
  known.set(key, probing);
  try {
    await probing;
  } catch (error) {
    known.delete(key);
    throw error;
  }
}

async function probe(backend: SandboxBackend, language: Language, memoryMiB: number): Promise<void> {
  await using sandbox = await backend.open({ limits: { memoryMiB } });
  const { exitCode, stderr } = await sandbox.exec(language.probe(memoryMiB), { deadlineMs: PROBE_MS }).result;
  if (exitCode === 0) return;
  const why = `exit code ${exitCode}, ${stderr.trim().slice(0, 300) || "without a word"}`;
  throw new SandboxError("UNAVAILABLE", `the sandbox cannot run ${language.program}: ${why}`);
}
