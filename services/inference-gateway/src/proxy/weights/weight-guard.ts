// SPDX-License-Identifier: Apache-2.0
import { Gate, WhetstoneError } from "@whetstone/core";
import { z } from "zod";
import type { Refusal } from "../../http/refusal.ts";
import type { EngineBehind } from "../wire/engine-behind.ts";
import { parsedJson } from "../wire/http-parts.ts";
import { broken } from "./manifest.ts";
import type { OwnModels } from "./own-models.ts";
import type { WeightFetcher } from "./weight-fetcher.ts";
import { checkTensors, readShapes, type Shapes, stampsOf, verifyFiles } from "./weight-folder.ts";

/** The body of /stage_weights: a folder that the engine sees; with `stream` its name only, and where to fetch it. */
const StageSchema = z.object({
  weights_path: z.string().min(1),
  stream: z.object({ url: z.string().min(1), manifest_digest: z.string().regex(/^[0-9a-f]{64}$/) }).optional(),
});

export interface WeightSources {
  readonly fetcher: WeightFetcher | undefined;
  readonly models: OwnModels | undefined;
}

interface Staged {
  /** As the controller calls it. */
  readonly path: string;
  /** Where it is. */
  readonly folder: string;
  readonly stamps: string;
}

/**
 * What vLLM leaves to its caller when weights are loaded: that nothing samples meanwhile, that the folder is whole, and that
 * nobody resumes an engine whose load has failed, since it then has no model and its next request ends it.
 */
export class WeightGuard {
  readonly #engine: EngineBehind;
  readonly #fetcher: WeightFetcher | undefined;
  readonly #models: OwnModels | undefined;
  /** Versions are staged one at a time. */
  readonly #turns = new Gate(1);
  #served: Shapes | undefined;
  #staged: Staged | undefined;
  #failed = false;

  /** @param sources  of versions and of models that were pushed; without them only folders that the engine sees are loaded */
  constructor(engine: EngineBehind, { fetcher, models }: WeightSources) {
    this.#engine = engine;
    this.#fetcher = fetcher;
    this.#models = models;
  }

  /** Fetches and checks a version while the engine samples on, so that its pause does not wait for it. */
  async stage(body: string, signal: AbortSignal): Promise<Refusal | undefined> {
    const { data: call, error } = StageSchema.safeParse(parsedJson(body));
    if (error) return badCall(error);
    const { weights_path: path, stream } = call;
    const fetcher = this.#fetcher;
    if (stream && !fetcher) return FETCHES_NOTHING;
    using _turn = await this.#turns.acquire(signal);
    return await refusing("stage_weights", async () => {
      const fetched = stream && (await fetcher?.fetch(stream.url, stream.manifest_digest, signal));
      const folder = fetched ?? (await this.#models?.bring(path, signal)) ?? path;
      await this.#check(folder, { isFetched: fetched !== undefined });
      this.#staged = { path, folder, stamps: await stampsOf(folder) };
    });
  }

  /** The folder of a version that may be loaded now. Nothing of the engine is changed by a refusal. */
  async folderOf(path: string): Promise<string | Refusal> {
    if (!(await this.#engine.isPaused())) return NOT_PAUSED;
    const staged = this.#staged?.path === path ? this.#staged : undefined;
    const folder = staged?.folder ?? path;
    const refusal = await refusing("reload_weights", async () => {
      if (staged && (await stampsOf(folder)) === staged.stamps) return;
      if (folder !== path) throw broken(`${folder} was changed since ${path} was staged; stage it again`);
      await this.#check(folder, { isFetched: false });
    });
    return refusal ?? folder;
  }

  /** @param load  passes the call on, and says the engine's status. */
  async loading(load: () => Promise<number>): Promise<void> {
    this.#failed = true;
    this.#failed = (await load()) !== 200;
  }

  refuses(path: string): Refusal | undefined {
    return this.#failed && path === "/resume" ? FAILED : undefined;
  }

  async #check(folder: string, { isFetched }: { readonly isFetched: boolean }): Promise<void> {
    this.#served ??= await readShapes(await this.#engine.modelFolder());
    if (!isFetched) await verifyFiles(folder);
    await checkTensors(folder, this.#served);
  }
}

/** @throws UNAVAILABLE where it may be over soon, which says nothing of the weights */
async function refusing(what: string, work: () => Promise<void>): Promise<Refusal | undefined> {
  try {
    return void (await work());
  } catch (error) {
    const { code, message } = WhetstoneError.from(error);
    if (code === "UNAVAILABLE") throw error;
    return { status: 500, type: "InternalServerError", message: `${what}: ${message}` };
  }
}

function badCall({ issues: [issue] }: z.ZodError): Refusal {
  const message = `${issue?.path.join(".") || "the body"}: ${issue?.message}`;
  return { status: 400, type: "BadRequestError", message };
}

/** The controller takes it for an engine that has no such route. */
const FETCHES_NOTHING: Refusal = {
  status: 404,
  type: "NotFoundError",
  message: "this engine has no folder for weights that it fetches: set WHETSTONE_WEIGHTS_DIR",
};
const NOT_PAUSED: Refusal = {
  status: 400,
  type: "BadRequestError",
  message: "pause the engine before its weights are loaded",
};
const FAILED: Refusal = {
  status: 409,
  type: "WeightsNotLoaded",
  message: "the last load failed and left the engine without weights: load again, or start it anew",
};
