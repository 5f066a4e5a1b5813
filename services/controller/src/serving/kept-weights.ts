// SPDX-License-Identifier: Apache-2.0
import { randomUUID } from "node:crypto";
import { copyFile, link, mkdir, readdir, realpath, rm, stat } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { ConfigError, isArtifact, parseArtifact, WhetstoneError } from "@whetstone/core";
import { create } from "@bufbuild/protobuf";
import type { Checkpoint, Job } from "@whetstone/proto/jobs/v1/jobs";
import { type JobVersion, type ServedSource, ServedSourceSchema } from "@whetstone/proto/serving/v1/serving";
import type { Taken } from "./serving-record.ts";

/** A model has some dozens. */
const MAX_FILES = 10_000;

export interface KeptWeightsDeps {
  /** Trainer and engines see it, too. */
  readonly dataPath: string;
  getJob(name: string): Promise<Job>;
  checkpoints(job: Job): Promise<Checkpoint[]>;
  /** Folder of a pushed model. @throws NOT_FOUND */
  artifactFolder(name: string, digest: string | undefined): Promise<string>;
}

/** The weights of servings, on the data volume: served/<name>/<id>/. They outlive the job that they come from. */
export class KeptWeights {
  readonly #deps: KeptWeightsDeps;

  constructor(deps: KeptWeightsDeps) {
    this.#deps = deps;
  }

  /**
   * Takes weights for a serving; files are linked where that is possible, so that they cost no room.
   * @param kind  a whole model, or only the LoRA adapter that a job has trained or that is in a folder
   * @throws NOT_FOUND or ConfigError where there are none
   */
  async take(name: string, source: ServedSource, kind: "model" | "adapter" = "model"): Promise<Taken> {
    const whole = await this.#find(source);
    const found = kind === "model" ? whole : { source: whole.source, path: await adapterIn(whole.path) };
    if (kind === "model") await refuseNoModel(found.path);
    const path = join(this.#folderOf(name), randomUUID());
    try {
      await linkFiles(found.path, path);
    } catch (error) {
      await this.drop(path);
      throw error;
    }
    return { source: found.source, path };
  }

  async drop(path: string): Promise<void> {
    await rm(path, { recursive: true, force: true });
  }

  dropAll(name: string): Promise<void> {
    return this.drop(this.#folderOf(name));
  }

  #folderOf(name: string): string {
    return join(this.#deps.dataPath, "served", name);
  }

  async #find({ kind }: ServedSource): Promise<{ source: ServedSource; path: string }> {
    if (kind.case === "job") {
      const found = await this.#ofJob(kind.value);
      const value = { name: kind.value.name, policyVersion: found.policyVersion };
      return { source: create(ServedSourceSchema, { kind: { case: "job", value } }), path: found.path };
    }
    const path = kind.value ?? "";
    return {
      source: create(ServedSourceSchema, { kind: { case: "path", value: path } }),
      path: await this.#folder(path),
    };
  }

  async #folder(path: string): Promise<string> {
    if (!isArtifact(path)) return path;
    const { name, digest } = parseArtifact(path);
    return await this.#deps.artifactFolder(name, digest);
  }

  async #ofJob({ name, policyVersion }: JobVersion): Promise<{ path: string; policyVersion: bigint }> {
    const job = await this.#deps.getJob(name);
    const newest = { policyVersion: job.status?.policyVersion ?? 0n, path: job.status?.modelPath ?? "" };
    if (newest.path === "") throw notFound(`job "${name}" has no trained weights yet`);
    const found = policyVersion === undefined || policyVersion === newest.policyVersion ? newest : undefined;
    const kept = found ? [found] : [newest, ...(await this.#deps.checkpoints(job)).map(weightsOf)];
    const chosen = found ?? kept.find((one) => one.policyVersion === policyVersion);
    if (!chosen) throw notFound(`job "${name}" keeps no version ${policyVersion}; it has ${versionsOf(kept)}`);
    if (chosen.path.startsWith("s3://"))
      throw new ConfigError([
        {
          path: "source",
          reason: `is in an object store only, which engines are not given to serve from: ${chosen.path}`,
        },
      ]);
    return chosen;
  }
}

function weightsOf({ policyVersion, modelPath: path }: Checkpoint): { policyVersion: bigint; path: string } {
  return { policyVersion, path };
}

function versionsOf(kept: readonly { policyVersion: bigint }[]): string {
  return [...new Set(kept.map(({ policyVersion }) => policyVersion))].join(", ");
}

async function refuseNoModel(path: string): Promise<void> {
  const found = await stat(join(path, "config.json")).catch(() => undefined);
  if (found?.isFile() === true) return;
  const reason = `must be a folder in Hugging Face layout that the controller can read: ${path} has no config.json`;
  throw new ConfigError([{ path: "source", reason }]);
}

/** A version of a job with `model.lora` has its adapter in a folder of its own. */
async function adapterIn(path: string): Promise<string> {
  for (const folder of [join(path, "adapter"), path]) {
    const found = await stat(join(folder, "adapter_config.json")).catch(() => undefined);
    if (found?.isFile() === true) return folder;
  }
  const reason = `must be a job with model.lora, or a folder with a LoRA adapter that the controller can read: ${path} has no adapter_config.json`;
  throw new ConfigError([{ path: "source", reason }]);
}

/** A cache of models has links to files: what they lead to is taken. */
async function linkFiles(from: string, to: string): Promise<void> {
  const entries = await readdir(from, { recursive: true, withFileTypes: true });
  if (entries.length > MAX_FILES)
    throw new ConfigError([{ path: "source", reason: `has more than ${MAX_FILES} files: ${from}` }]);
  for (const entry of entries) {
    const file = join(entry.parentPath, entry.name);
    const real = await realpath(file);
    if (!(await stat(real)).isFile()) continue;
    const place = join(to, relative(from, file));
    await mkdir(dirname(place), { recursive: true });
    await link(real, place).catch(() => copyFile(real, place)); // On another volume, or where links are not to be had.
  }
}

function notFound(message: string): WhetstoneError {
  return new WhetstoneError("NOT_FOUND", message);
}
