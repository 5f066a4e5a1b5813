// SPDX-License-Identifier: Apache-2.0
// Two random models of one shape whose answers differ, and the repository's Python.
import { execFile } from "node:child_process";
import { join, resolve } from "node:path";
import { promisify } from "node:util";

const ROOT = resolve(import.meta.dirname, "../..");
const TRAINER = join(ROOT, "python-trainer");
/** Heads of 32, which vLLM's CPU attention knows; weights wide enough that two models answer differently. */
const MAKE_MODELS = `
import sys
from pathlib import Path
from whetstone_models.init import init_model
for name, seed in (("a", 1), ("b", 2)):
    init_model(Path(sys.argv[1]) / name, seed=seed, num_attention_heads=3, num_key_value_heads=3, initializer_range=0.15)
`;

/** @param folder  it gets the folders "a" and "b" */
export async function makeTwoModels(folder: string): Promise<{ a: string; b: string }> {
  await python({}, "-c", MAKE_MODELS, folder);
  return { a: join(folder, "a"), b: join(folder, "b") };
}

const MAKE_ADAPTERS = `
import sys
from pathlib import Path
from adapter_kit import write_adapter
model, folder = map(Path, sys.argv[1:])
for name, seed in (("one", 1), ("two", 2)):
    write_adapter(model, folder / name, seed)
`;

/** Random LoRA adapters of a model. @param folder  it gets the folders "one" and "two" */
export async function makeTwoAdapters(model: string, folder: string): Promise<[string, string]> {
  await python({ PYTHONPATH: "src:tests/engine" }, "-c", MAKE_ADAPTERS, model, folder);
  return [join(folder, "one"), join(folder, "two")];
}

/** Runs the repository's Python; its output. The process goes on with other work meanwhile. */
export async function python(environment: Record<string, string>, ...args: string[]): Promise<string> {
  const env = { ...process.env, PYTHONPATH: "src", OMP_NUM_THREADS: "1", OMP_WAIT_POLICY: "PASSIVE", ...environment };
  const options = { cwd: TRAINER, env, maxBuffer: 1 << 28 };
  const run = promisify(execFile)(join(ROOT, ".venv/bin/python"), args, options);
  const { stdout } = await run.catch((error: { stdout: string; stderr: string }) => {
    throw new Error(error.stdout.slice(-12_000) + error.stderr.slice(-4000), { cause: error });
  });
  return stdout;
}
